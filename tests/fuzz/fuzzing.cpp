#include "fuzz/fuzzing.h"

#include <fstream>

#include <sys/mman.h>
#include <unistd.h>

namespace camber::tests {

std::string text_of(Bytes bytes) {
  return {bytes.begin(), bytes.end()};
}

MemoryFile::MemoryFile(Bytes bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
  if (descriptor_ < 0 || write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    throw std::logic_error("no file in memory");
}

MemoryFile::~MemoryFile() {
  close(descriptor_);
}

std::filesystem::path fast_folder() {
  return std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
}

void refuse_in_a_sentence(const std::function<void()>& action) {
  std::string sentence;
  try {
    action();
    return;
  } catch (const std::logic_error& error) {
    // std::invalid_argument is a sentence too; any other logic error is a broken promise.
    if (dynamic_cast<const std::invalid_argument*>(&error) == nullptr) throw;
    sentence = error.what();
  } catch (const std::runtime_error& error) {
    sentence = error.what();
  } catch (const std::exception& error) {
    throw std::logic_error(std::string("neither an answer nor a sentence: ") + error.what());
  }
  const bool one_sentence = !sentence.empty() && sentence.front() == '[' && sentence.find('\n') == std::string::npos;
  if (!one_sentence || sentence.size() > 2000) throw std::logic_error("not a sentence: " + sentence.substr(0, 4000));
}

std::vector<std::string> json_words() {
  return {"NaN",
          "Infinity",
          "-Infinity",
          "null",
          "true",
          "[]",
          "{}",
          "\"\"",
          "[[[[[[",
          "}}}}",
          "1e400",
          "-0",
          "1e-400",
          "1e300",
          "01",
          "\\u0000",
          "\\ud800",
          "\\",
          "\"",
          ",",
          ":",
          "../..",
          "/etc",
          "\xff\xfe",
          "\xe2\x82",
          std::string(1, '\0'),
          "9223372036854775808",
          "1.5",
          "-1",
          "\n",
          "\"prev\": \"sample-0-0\"",
          "\"token\"",
          "\"results\"",
          "\"meta\""};
}

std::vector<std::string> toml_words() {
  return {"nan",
          "inf",
          "-inf",
          "true",
          "[]",
          "[[",
          "]]",
          "=",
          "\"\"\"",
          "'''",
          "\n",
          "#",
          "1e400",
          "-1",
          "0x7f",
          "1_0",
          "9223372036854775807",
          "[a.b]",
          "{x = 1}",
          "\\u0",
          "\xff\xfe",
          "1979-05-27",
          "[[arms]]",
          "name = ",
          "[[[[[[",
          "preset = "};
}

std::vector<std::string> binary_words() {
  return {"\xff\xd8",
          "\xff\xd9",
          "\xff\xc0",
          "\xff\xc2",
          "\xff\xda",
          "\xff\xff\xff\xff",
          std::string(4, '\0'),
          "\xff\xc4",
          "\xff\xdb",
          "\x7f\xff\xff\xff",
          "PK\1\2",
          "PK\3\4",
          "PK\5\6",
          "IHDR",
          "PLTE",
          "IDAT",
          "IEND",
          "ustar"};
}

std::string joined_files(const Files& files) {
  std::string text;
  for (const auto& [path, content] : files) text.append(1, '\x1e').append(path).append(1, '\n').append(content);
  return text;
}

std::vector<std::pair<std::string, std::string>> separated_files(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> files;
  for (std::size_t at = text.find('\x1e'); at != std::string_view::npos;) {
    const std::size_t next = text.find('\x1e', at + 1), line = text.find('\n', at);
    const std::string_view part = text.substr(at + 1, next == std::string_view::npos ? next : next - at - 1);
    at = next;
    if (line == std::string_view::npos || part.find('\n') == std::string_view::npos) continue;
    files.emplace_back(part.substr(0, part.find('\n')), part.substr(part.find('\n') + 1));
  }
  return files;
}

ChangedFolder::ChangedFolder(Files sound) : sound_(std::move(sound)) {
  for (const auto& [path, content] : sound_) write_text(folder_.path() / path, content);
}

void ChangedFolder::change(Bytes bytes) {
  Files changes;  // of a file that comes twice the last
  for (auto& [path, content] : separated_files(text_of(bytes)))
    if (sound_.contains(path)) changes[path] = std::move(content);
  for (const auto& [path, content] : changed_)
    if (!changes.contains(path)) write(path, sound_.at(path));
  for (const auto& [path, content] : changes) {
    const auto before = changed_.find(path);
    if (content != (before == changed_.end() ? sound_.at(path) : before->second)) write(path, content);
  }
  changed_ = std::move(changes);
}

// Its folder is there.
void ChangedFolder::write(const std::string& path, const std::string& content) const {
  std::ofstream(folder_.path() / path, std::ios::binary) << content;
}

}  // namespace camber::tests
