#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <camber/config/options.h>
#include <camber/study/queue.h>

/// What every kind of study shares: runs, their folder, their processes. No torch header here.
namespace camber::runs {

/// One run: an arm (or base, doubled) with one seed.
struct StudyRun {
  std::string arm{};
  std::int64_t seed = 0;

  std::string key() const { return arm + "_s" + std::to_string(seed); }
  /// Reads "trust_s3"; std::invalid_argument for anything else.
  static StudyRun parse(const std::string& key);
  bool operator==(const StudyRun&) const = default;
};

/// Where a study keeps what.
struct StudyFolder {
  std::filesystem::path path{};

  std::filesystem::path config() const { return path / "study.toml"; }
  std::filesystem::path records() const { return path / "records"; }
  /// The plan alone, beside the records: tables are made from this folder.
  std::filesystem::path plan() const { return records() / "plan.toml"; }
  std::filesystem::path record(const StudyRun& run) const { return records() / (run.key() + ".json"); }
  std::filesystem::path run(const StudyRun& run) const { return path / "runs" / run.key(); }
  std::filesystem::path weights(const StudyRun& run) const { return this->run(run) / "model.safetensors"; }
  std::filesystem::path log(const std::string& key) const { return path / "logs" / (key + ".log"); }
  std::filesystem::path failed(const std::string& key) const { return path / "failed" / (key + ".txt"); }
  std::filesystem::path lock() const { return path / "lock"; }
  std::filesystem::path lock_of(const std::string& key) const { return path / "locks" / (key + ".lock"); }
  std::filesystem::path probe() const { return path / "probe.json"; }
};

/// The configuration of a study that was begun; std::invalid_argument when the folder holds none.
template <config::OptionStruct Options>
Options options_of_study(const StudyFolder& folder) {
  if (!std::filesystem::exists(folder.config()))
    throw std::invalid_argument("[study] --out must hold a study that was begun, got " + folder.path.string() +
                                " without study.toml");
  return config::load_stored<Options>(folder.config().string());
}

/// The hash of a run that has a record, as its configuration is now; empty for a run that the plan does not know.
using HashOfRun = std::function<std::string(const StudyRun&)>;
/// Refuses a folder with records of another configuration: they would be mixed with new ones.
void check_records(const StudyFolder& folder, const HashOfRun& hash_now);
/// What differs from the defaults, a line each: words, and options that are added later, leave its sum as it is.
std::string changed_lines(const std::vector<config::Difference>& changed);
/// A text's short hexadecimal sum.
std::string sum_of_text(const std::string& text);

/// A run of a study as anybody may start it.
struct ListedRun {
  std::string name{};
  std::vector<std::string> needs{};    ///< runs that must be done before
  std::vector<std::string> command{};  ///< program and arguments; started twice, or when it is done, it does no harm
  bool done = false;
};
/// One run a line: name, runs it needs (with commas; "-": none), done or open, command for a shell; tabs between them.
std::string to_text(const std::vector<ListedRun>& runs);
std::string to_json(const std::vector<ListedRun>& runs);

/// Does what `run` does, once, however often and wherever it is started: whoever comes second waits for the first, and
/// finds it done. A failure leaves its sentence in failed/ and is thrown.
void do_once(const StudyFolder& folder, const std::string& key, const std::function<bool()>& is_done,
             const std::function<void()>& run);

/// A run as a process of its own: this program with `command`, such as {"study", "run"}, the run's name and --out.
study::QueueTask task_of(const StudyFolder& folder, const std::vector<std::string>& command, const std::string& key);
/// Keeps the sentence of a run that failed in failed/; of one that did not (empty) none is left.
void keep_failure(const StudyFolder& folder, const std::string& key, const std::string& failure);
/// Throws one sentence that names the runs that failed, out of so many, and where theirs are; nothing where none did.
void throw_if_failed(const StudyFolder& folder, const std::vector<std::string>& failed, std::int64_t runs);

}  // namespace camber::runs
