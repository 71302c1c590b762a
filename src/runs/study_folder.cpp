#include "camber/runs/study_folder.h"

#include <span>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "camber/storage/atomic_file.h"
#include "camber/storage/folder_lock.h"
#include "camber/study/record.h"
#include "camber/weights/checksums.h"

namespace camber::runs {
namespace {

// A word of a command line for a POSIX shell.
std::string quoted(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

}  // namespace

StudyRun StudyRun::parse(const std::string& key) {
  const std::size_t position = key.rfind("_s");
  const std::string digits = position == std::string::npos ? "" : key.substr(position + 2);
  if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos)
    throw std::invalid_argument("[study] a run must be named like trust_s3, got '" + key + "'");
  return {.arm = key.substr(0, position), .seed = std::stoll(digits)};
}

void check_records(const StudyFolder& folder, const HashOfRun& hash_now) {
  for (const std::filesystem::path& written : {folder.path, folder.records()}) storage::remove_leftovers(written);
  for (const study::RunRecord& record : study::read_run_records(folder.records())) {
    const std::string now = hash_now({record.arm, record.seed});
    if (!now.empty() && record.config_hash != now)
      throw std::invalid_argument("[study] " + folder.path.string() +
                                  " must hold runs of this configuration and data set, got " + record.key() +
                                  " of another (take another --out, or remove its record)");
  }
}

std::string changed_lines(const std::vector<config::Difference>& changed) {
  std::string lines;
  for (const config::Difference& option : changed) lines += option.path + " = " + option.second + "\n";
  return lines;
}

std::string sum_of_text(const std::string& text) {
  return weights::checksum_text(weights::checksum(std::as_bytes(std::span(text))));
}

study::QueueTask task_of(const StudyFolder& folder, const std::vector<std::string>& command, const std::string& key) {
  study::QueueTask task{.key = key, .command = study::own_program(), .log = folder.log(key)};
  task.command.insert(task.command.end(), command.begin(), command.end());
  task.command.insert(task.command.end(), {key, "--out", folder.path.string()});
  return task;
}

std::string to_text(const std::vector<ListedRun>& runs) {
  std::string text;
  for (const ListedRun& run : runs) {
    std::string needs, command;
    for (const std::string& key : run.needs) needs += (needs.empty() ? "" : ",") + key;
    for (const std::string& word : run.command) command += (command.empty() ? "" : " ") + quoted(word);
    text +=
        run.name + "\t" + (needs.empty() ? "-" : needs) + "\t" + (run.done ? "done" : "open") + "\t" + command + "\n";
  }
  return text;
}

std::string to_json(const std::vector<ListedRun>& runs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ListedRun& run : runs)
    list.push_back({{"name", run.name}, {"needs", run.needs}, {"done", run.done}, {"command", run.command}});
  return list.dump(2) + "\n";
}

void do_once(const StudyFolder& folder, const std::string& key, const std::function<bool()>& is_done,
             const std::function<void()>& run) {
  constexpr double kAsLongAsItTakes = 1e9;
  std::filesystem::create_directories(folder.lock_of(key).parent_path());
  const storage::FolderLock lock(folder.lock_of(key), kAsLongAsItTakes);
  if (is_done()) return;
  try {
    run();
  } catch (const std::exception& error) {
    keep_failure(folder, key, error.what());
    throw;
  }
  keep_failure(folder, key, "");
}

void keep_failure(const StudyFolder& folder, const std::string& key, const std::string& failure) {
  const std::filesystem::path file = folder.failed(key);
  std::filesystem::remove(file);
  if (failure.empty()) return;
  std::filesystem::create_directories(file.parent_path());
  storage::write_file(file, failure + "\n");
}

void throw_if_failed(const StudyFolder& folder, const std::vector<std::string>& failed, std::int64_t runs) {
  if (failed.empty()) return;
  throw std::runtime_error(
      fmt::format("[study] {} of {} runs failed: {}; why stands in '{}', and the command given again goes on",
                  failed.size(), runs, fmt::join(failed, ", "), folder.failed(failed.front()).parent_path().string()));
}

}  // namespace camber::runs
