#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <camber/runs/detector_options.h>
#include <camber/study/plan.h>

namespace camber::runs {

/// The whole configuration of `camber study`: the plan, and the training that every run has in common. Steps, seed and
/// the data set's folder are the plan's; what an arm says stands above all of it.
struct StudyOptions {
  study::StudyPlan plan{};
  DetectorTrainingOptions training{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    plan.visit(visitor);
    visitor("training", training, "what all runs have in common");
  }
  void validate() const { plan.validate(); }
};

/// The runs that are no arm: the plain detector of a seed, and the same with twice the steps.
inline constexpr const char* kBase = "base";
inline constexpr const char* kDoubled = "doubled";

/// Whether a run of this name belongs to the plan: one of its arms, base or doubled.
bool is_planned(const study::StudyPlan& plan, const std::string& arm);

/// One run: an arm (or base, doubled) with one seed.
struct StudyRun {
  std::string arm{};
  std::int64_t seed = 0;

  std::string key() const { return arm + "_s" + std::to_string(seed); }
  /// Reads "trust_s3"; std::invalid_argument for anything else.
  static StudyRun parse(const std::string& key);
  bool operator==(const StudyRun&) const = default;
};

/// A run as it is trained and evaluated.
struct RunTraining {
  DetectorTrainingOptions options{};
  bool branches = false;        ///< starts from the base's weights
  double scale_lr_mult = 0;     ///< 0: no scale learns
  double absent_above_age = 0;  ///< StudyArm::absent_above_age: taken out when it is evaluated
};

/// The training configuration of a run. An arm's learnable scales get the smallest multiple of the learning rate among
/// 1, 2, 5 and 10 whose reach covers their bounds; when none does, std::invalid_argument says so. Exempt arms keep
/// their own. Branches draw their batches and faults from another seed than the base they start from, the same for all
/// arms.
RunTraining training_of(const StudyOptions& options, const StudyRun& run);

/// What a run's numbers depend on, as a short hexadecimal sum: its own configuration and its base's, how it is
/// evaluated, the data set. The data set's folder does not enter.
std::string hash_of(const StudyOptions& options, const StudyRun& run, const std::string& data_fingerprint);

/// Runs to do, in order: bases and doubled ones; then the main arms, all of a seed together; then the rest.
struct RunChoice {
  std::vector<std::string> only{};  ///< arms; empty: all
  std::int64_t seeds = 0;           ///< at most so many; 0: as the plan says
};
std::vector<StudyRun> base_runs(const study::StudyPlan& plan, const RunChoice& choice = {});
std::vector<StudyRun> arm_runs(const study::StudyPlan& plan, const RunChoice& choice = {});

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
  std::filesystem::path probe() const { return path / "probe.json"; }
};

/// The configuration of a study that was begun; std::invalid_argument when the folder holds none.
StudyOptions options_of_study(const StudyFolder& folder);

}  // namespace camber::runs
