#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <camber/runs/detector_options.h>
#include <camber/runs/study_folder.h>
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

/// A run as it is trained and evaluated.
struct RunTraining {
  DetectorTrainingOptions options{};
  bool branches = false;        ///< starts from the base's weights
  bool given = false;           ///< a published base: its weights are there already
  double scale_lr_mult = 0;     ///< 0: no scale learns
  double absent_above_age = 0;  ///< StudyArm::absent_above_age: taken out when it is evaluated
  std::string policy{};         ///< StudyArm::policy, when it is evaluated
};

/// The training configuration of a run. An arm's learnable scales get the smallest multiple of the learning rate among
/// 1, 2, 5 and 10 whose reach covers their bounds; when none does, std::invalid_argument says so. Exempt arms keep
/// their own. Branches draw their batches and faults from another seed than the base they start from, the same for all
/// arms.
RunTraining training_of(const StudyOptions& options, const StudyRun& run);

/// Which tables the data of a study have: of its world, and of the one that it is tested on.
std::string data_fingerprint(const StudyOptions& options);

/// What a run's numbers depend on, as a short hexadecimal sum: its own configuration and its base's, how it is
/// evaluated, the data set. The data set's folder does not enter.
std::string hash_of(const StudyOptions& options, const StudyRun& run, const std::string& data_fingerprint);

/// Runs to do, in order; arms that share the model of another belong to its run: bases and doubled ones; then the main
/// arms, all of a seed together; then the rest.
struct RunChoice {
  std::vector<std::string> only{};  ///< arms; empty: all
  std::int64_t seeds = 0;           ///< at most so many; 0: as the plan says
};
std::vector<StudyRun> base_runs(const study::StudyPlan& plan, const RunChoice& choice = {});
std::vector<StudyRun> arm_runs(const study::StudyPlan& plan, const RunChoice& choice = {});

}  // namespace camber::runs
