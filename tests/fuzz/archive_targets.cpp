#include <cmath>
#include <cstdio>
#include <cstring>

#include <zlib.h>

#include "camber/drawing/canvas.h"
#include "camber/episodes/archive.h"
#include "camber/episodes/image_sets.h"
#include "camber/episodes/tabular_sets.h"
#include "camber/storage/safetensors.h"
#include "fuzz/fuzzing.h"
#include "nuscenes/small_world.h"

namespace camber::tests {
namespace {

// ---- safetensors, and the features in them

std::string safetensors_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

std::vector<std::string> safetensors_seeds() {
  std::string features(32, '\0');
  const std::int64_t labels[] = {0, 1};
  const std::string numbers(reinterpret_cast<const char*>(labels), sizeof labels);
  return {safetensors_of(R"({"__metadata__":{"step":"7","class_names":"a\nb"},"features":{"dtype":"F32","shape":[2,4],)"
                         R"("data_offsets":[0,32]},"labels":{"dtype":"I64","shape":[2],"data_offsets":[32,48]}})",
                         features + numbers),
          safetensors_of(R"({"a":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]},"b":{"dtype":"F64","shape":[0,3],)"
                         R"("data_offsets":[1,1]}})",
                         "x"),
          safetensors_of("{}", "")};
}

void run_safetensors(Bytes bytes) {
  const MemoryFile file(bytes);
  refuse_in_a_sentence([&] {
    const storage::SafetensorsFile opened(file.path());
    std::uint64_t sum = 0;
    for (const storage::TensorView& tensor : opened.tensors()) {
      if (opened.find(tensor.name) != &tensor) throw std::logic_error("a tensor that is not found by its name");
      for (const std::byte byte : tensor.bytes) sum += static_cast<std::uint64_t>(byte);
    }
    if (sum > bytes.size() * 255) throw std::logic_error("more bytes than the file has");
  });
  refuse_in_a_sentence([&] {
    const episodes::ExampleSet set = episodes::read_features(file.path());
    if (set.values.size() != static_cast<std::size_t>(set.size() * set.width()))
      throw std::logic_error("another number of values");
  });
}

// ---- zip and tar

std::string small_png(std::uint8_t shade) {
  const std::vector<std::uint8_t> rgb(std::size_t{3} * 4 * 4, shade);
  return drawing::encode_png(rgb, 4, 4);
}

Files archive_files() {
  return {{"domain/first/1.png", small_png(10)}, {"domain/second/2.png", small_png(200)}};
}

void put(std::string& text, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
}

std::string deflated(const std::string& text) {
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::logic_error("zlib");
  std::string result(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

std::string zip_of(const Files& files, bool compressed) {
  std::string local, list;
  for (const auto& file : files) {
    const std::string &name = file.first, &content = file.second;
    const std::string bytes = compressed ? deflated(content) : content;
    const auto common = [&](std::string& to) {
      put(to, 20, 2), put(to, 0, 2), put(to, compressed ? 8 : 0, 2), put(to, 0, 4);
      put(to, crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())), 4);
      put(to, bytes.size(), 4), put(to, content.size(), 4), put(to, name.size(), 2), put(to, 0, 2);
    };
    list += "PK\1\2", put(list, 20, 2), common(list);
    put(list, 0, 2), put(list, 0, 2), put(list, 0, 2), put(list, 0, 4), put(list, local.size(), 4), list += name;
    local += "PK\3\4", common(local), local += name + bytes;
  }
  std::string end = "PK\5\6";
  put(end, 0, 4), put(end, files.size(), 2), put(end, files.size(), 2), put(end, list.size(), 4);
  put(end, local.size(), 4), put(end, 0, 2);
  return local + list + end;
}

std::vector<std::string> zip_seeds() {
  return {zip_of(archive_files(), false), zip_of(archive_files(), true), zip_of({}, false)};
}

std::string tar_entry(const std::string& name, const std::string& content, char type, const std::string& link) {
  char size[12];
  std::snprintf(size, sizeof size, "%011zo", content.size());
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 7, "0000644");
  header.replace(124, 11, size);
  header[156] = type;
  header.replace(157, link.size(), link);
  header.replace(257, 8,
                 std::string("ustar\0"
                             "00",
                             8));
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char letter : header) sum += static_cast<unsigned char>(letter);
  char digits[8];
  std::snprintf(digits, sizeof digits, "%06o", sum);
  header.replace(148, 7, std::string(digits, 6) + '\0');
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

std::vector<std::string> tar_seeds() {
  std::string tar;
  for (const auto& [name, content] : archive_files()) tar += tar_entry(name, content, '0', "");
  tar += tar_entry("x", "29 path=domain/third/name.png\n", 'x', "");
  tar += tar_entry("y.png", small_png(70), '0', "");
  tar += tar_entry("domain/second/link.png", "", '2', "2.png");
  tar += tar_entry("././@LongLink", std::string("domain/second/long.png\0", 23), 'L', "");
  tar += tar_entry("z", small_png(90), '0', "");
  return {tar + std::string(1024, '\0')};
}

void run_archive(Bytes bytes) {
  const MemoryFile file(bytes);
  refuse_in_a_sentence([&] {
    const episodes::Archive archive(file.path());
    for (std::size_t i = 0; i < archive.names().size(); ++i) archive.read(i);
  });
  refuse_in_a_sentence([&] { episodes::read_domain_folder({.path = file.path(), .size = 4}); });
}

// ---- lists of few-shot examples, and the table of letters

const Files& list_files() {
  static const Files files = {{"train.csv", "filename,label\na.png,cat\nb.png,dog\n"},
                              {"images/a.png", small_png(10)},
                              {"images/b.png", small_png(200)},
                              {"runs/run01/class_labels.txt", "run01/test/item01.png run01/training/class01.png\n"},
                              {"runs/run01/test/item01.png", small_png(3)},
                              {"runs/run01/training/class01.png", small_png(7)}};
  return files;
}

std::vector<std::string> list_seeds() {
  return {joined_files({{"train.csv", list_files().at("train.csv")},
                        {"runs/run01/class_labels.txt", list_files().at("runs/run01/class_labels.txt")}})};
}

std::vector<std::string> list_words() {
  return {",",
          ",,",
          "\n",
          "\r\n",
          "..",
          "/",
          "../a.png",
          "a.png",
          "b.png,cat\n",
          " ",
          "run01/test/item01.png",
          "\"",
          std::string(1, '\0'),
          "/etc/passwd"};
}

void run_lists(Bytes bytes) {
  static ChangedFolder folder(list_files());
  folder.change(bytes);
  refuse_in_a_sentence([&] {
    const episodes::ExampleSet set = episodes::read_libfewshot({.path = folder.path(), .size = 4}, "train");
    for (const std::string& origin : set.origins)
      if (origin.find("..") != std::string::npos || origin.starts_with('/'))
        throw std::logic_error("an image from outside of the folder: " + origin);
  });
  refuse_in_a_sentence([&] { episodes::read_omniglot_runs({.path = folder.path() / "runs", .size = 4}); });
}

void run_letters(Bytes bytes) {
  const MemoryFile file(bytes);
  refuse_in_a_sentence([&] {
    const episodes::ExampleSet set = episodes::read_letter(file.path());
    for (const float value : set.values)
      if (!(value >= -1 && value <= 1)) throw std::logic_error("a value that is no letter's");
  });
}

std::vector<std::string> letter_seeds() {
  return {"T,2,8,3,5,1,8,13,0,6,6,10,8,0,8,0,8\nI,5,12,3,7,2,10,5,5,4,13,3,9,2,8,4,10\r\n\n"};
}

}  // namespace

std::vector<FuzzTarget> archive_targets() {
  return {{"safetensors", run_safetensors, safetensors_seeds, json_words, Structure::kSafetensors},
          {"zip", run_archive, zip_seeds, binary_words, Structure::kZip},
          {"tar", run_archive, tar_seeds, binary_words, Structure::kTar},
          {"fewshot_lists", run_lists, list_seeds, list_words, Structure::kFiles},
          {"letters", run_letters, letter_seeds, list_words}};
}

}  // namespace camber::tests
