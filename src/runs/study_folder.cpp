#include "camber/runs/study_folder.h"

#include <span>

#include "camber/storage/atomic_file.h"
#include "camber/study/record.h"
#include "camber/weights/checksums.h"

namespace camber::runs {

StudyRun StudyRun::parse(const std::string& key) {
  const std::size_t position = key.rfind("_s");
  const std::string digits = position == std::string::npos ? "" : key.substr(position + 2);
  if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos)
    throw std::invalid_argument("[study] a run must be named like trust_s3, got '" + key + "'");
  return {.arm = key.substr(0, position), .seed = std::stoll(digits)};
}

void check_records(const StudyFolder& folder, const HashOfRun& hash_now) {
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

study::QueueTask task_of(const StudyFolder& folder, const std::vector<std::string>& command, const StudyRun& run) {
  study::QueueTask task{.key = run.key(), .command = {study::own_program()}, .log = folder.log(run.key())};
  task.command.insert(task.command.end(), command.begin(), command.end());
  task.command.insert(task.command.end(), {"--out", folder.path.string(), "--one", run.key(), "--threads", "1"});
  return task;
}

void keep_failure(const StudyFolder& folder, const std::string& key, const std::string& failure) {
  const std::filesystem::path file = folder.failed(key);
  std::filesystem::remove(file);
  if (failure.empty()) return;
  std::filesystem::create_directories(file.parent_path());
  storage::write_file(file, failure + "\n");
}

}  // namespace camber::runs
