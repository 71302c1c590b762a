#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "camber/config/field.h"
#include "camber/study/stream_plan.h"

namespace camber::study {

/// main: enough seeds for a verdict. notes: a row of the original notes. exploratory: anything else. The last two have
/// few seeds and get no verdict.
enum class ArmRole { kMain, kNotes, kExploratory };

}  // namespace camber::study

template <>
inline constexpr auto camber::config::enum_names<camber::study::ArmRole> =
    std::array{std::pair{camber::study::ArmRole::kMain, std::string_view("main")},
               std::pair{camber::study::ArmRole::kNotes, std::string_view("notes")},
               std::pair{camber::study::ArmRole::kExploratory, std::string_view("exploratory")}};

namespace camber::study {

/// One variant of the detector: what it changes in the training configuration.
struct StudyArm {
  std::string name{};
  std::string title{};
  ArmRole role = ArmRole::kMain;
  std::vector<std::string> options{};
  std::string against{};
  bool exempt = false;
  bool from_scratch = false;
  double absent_above_age = 0;
  std::string policy{};
  std::string shares{};

  const std::string& shown() const { return title.empty() ? name : title; }  ///< as tables and images call it

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("name", name, "short name: letters, digits and _");
    visitor("title", title, "as tables call it");
    visitor("role", role, "main: enough seeds for a verdict; notes, exploratory: few");
    visitor("options", options, "changes of the training configuration, such as detector.router.mode=off");
    visitor("against", against, "arm that it is compared with; empty: the reference, or none when it is from scratch");
    visitor("exempt", exempt, "whether it may have a scale that cannot reach its bounds");
    visitor("from_scratch", from_scratch, "trained from the first values for base_steps + branch_steps");
    visitor("absent_above_age", absent_above_age,
            "a rule instead of trust: when evaluated, sensors whose cue of age is above it are taken out; 0: none",
            config::Range{.min = 0, .max = 1});
    visitor("policy", policy,
            "what is done with the cues' alarms when it is evaluated: none, rule, verified_rule, bias or "
            "verified_bias; empty: the model's own");
    visitor("shares", shares, "arm whose trained model it takes, with another policy; it has no options of its own");
  }
};

/// The data set, simulated when it is not there.
struct StudyWorld {
  std::string root = "build/study_world";
  std::int64_t scenes = 280;
  std::int64_t frames = 10;
  std::uint64_t seed = 1;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("root", root, "folder of the data set; simulated when it is absent");
    visitor("scenes", scenes, "simulation: scenes of all splits", config::Range{.min = 3, .max = 9999});
    visitor("frames", frames, "simulation: key frames a scene", config::Range{.min = 1, .max = 1000});
    visitor("seed", seed, "simulation: seed");
  }
};

/// The one comparison that was fixed beforehand: the mean of mAP over these conditions, arm less against.
struct PrimaryOutcome {
  std::vector<std::string> conditions{"frozen:5", "stale:5"};
  std::string arm = "trust";
  std::string against = "constant";

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("conditions", conditions, "mAP is averaged over them");
    visitor("arm", arm, "the arm that is asked about");
    visitor("against", against, "the arm that it must beat");
  }
};

/// What the world and the plain detector must show before the study means anything.
struct StudyGates {
  double fusion_gain = 0.05;
  double single_share = 0.5;
  double fault_cut = 0.15;
  std::int64_t faults_that_cut = 4;
  double doubling_gain = 0.02;
  std::int64_t doubled_seeds = 2;
  double camera_gain = 0.15;
  double oracle_gain = 0.02;
  std::int64_t oracle_conditions = 2;
  std::string oracle_arm = "oracle";
  bool stop = true;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("fusion_gain", fusion_gain, "mAP of fusion above the better single sensor");
    visitor("single_share", single_share, "each sensor's AP at the largest distance over fusion's");
    visitor("fault_cut", fault_cut, "share of NDS that a fault costs to count");
    visitor("faults_that_cut", faults_that_cut, "how many faults must cost that much", config::Range{.min = 0});
    visitor("doubling_gain", doubling_gain, "most mAP that twice the base steps may gain");
    visitor("doubled_seeds", doubled_seeds, "seeds for which that is tried", config::Range{.min = 0});
    visitor("camera_gain", camera_gain, "clean mAP above that without cameras");
    visitor("oracle_gain", oracle_gain, "mAP that oracle trust must gain over the reference");
    visitor("oracle_conditions", oracle_conditions, "in so many conditions", config::Range{.min = 0});
    visitor("oracle_arm", oracle_arm, "the arm with oracle trust; empty: no such gate");
    visitor("stop", stop, "whether a failed gate of the base models ends the study before its arms");
  }
};

/// Everything that tables need to know of a study, without the training configuration.
struct StudyPlan {
  std::string title = "study";
  StudyWorld world{};
  std::int64_t base_steps = 2800;
  std::int64_t branch_steps = 700;
  std::int64_t seeds = 8;
  std::int64_t few_seeds = 3;
  std::string split = "test";
  std::int64_t frames = 400;
  std::int64_t replicates = 100;
  double margin = 0.01;
  std::int64_t processes = 2;
  std::string reference = "plain";
  std::vector<std::string> conditions{"clean"};
  std::vector<std::string> controls{"zero", "mean", "shuffled", "oracle"};
  std::vector<std::string> control_conditions{"clean", "frozen:5", "stale:5"};
  std::vector<std::string> swapped_cues{"frozen:5", "stale:5"};
  bool wrong_culprits = false;
  bool published_bases = false;
  StudyWorld test_world{.root = ""};
  StudyCalibration calibration{};
  std::vector<StudyStream> streams{};
  std::vector<StudyComparison> comparisons{};
  PrimaryOutcome primary{};
  StudyGates gates{};
  std::vector<StudyArm> arms{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("title", title, "name of the study");
    visitor("base_steps", base_steps, "steps of the plain detector from which every arm goes on",
            config::Range{.min = 1});
    visitor("branch_steps", branch_steps, "steps of every arm", config::Range{.min = 1});
    visitor("seeds", seeds, "seeds of the main arms", config::Range{.min = 1});
    visitor("few_seeds", few_seeds, "seeds of all other arms", config::Range{.min = 1});
    visitor("split", split, "frames on which models are evaluated");
    visitor("frames", frames, "how many, spread evenly; 0: all", config::Range{.min = 0});
    visitor("replicates", replicates, "bootstrap over scenes: draws", config::Range{.min = 2, .max = 10000});
    visitor("margin", margin, "differences inside of it count as equivalent", config::Range{.min = 1e-6});
    visitor("processes", processes, "runs at a time, one thread each", config::Range{.min = 1, .max = 256});
    visitor("reference", reference, "arm that every other one is compared with");
    visitor("conditions", conditions, "clean first, then faults such as frozen:5");
    visitor("controls", controls, "what replaces trust: zero, mean, shuffled, oracle");
    visitor("control_conditions", control_conditions, "where controls are measured");
    visitor("swapped_cues", swapped_cues, "faults whose cues are given to clean frames, and the other way round");
    visitor("wrong_culprits", wrong_culprits, "also give the frames of each of these faults the cues of the others");
    visitor("published_bases", published_bases,
            "base models are those of --start: evaluated anew, never trained; their records are not taken over");
    visitor("world", world, "the data set");
    visitor("test_world", test_world,
            "another data set to evaluate on, such as one of another seed; no root: the same");
    visitor("calibration", calibration, "of the agreement that verified policies look at");
    visitor("streams", streams, "mixtures of clean and faulty frames with cues that err; measures like conditions");
    visitor("comparisons", comparisons,
            "what is compared beside the primary outcome; none: every main arm with its opponent, and the primary pair "
            "in every condition");
    visitor("primary", primary, "the comparison that was fixed beforehand");
    visitor("gates", gates, "what must hold first");
    visitor("arms", arms, "the variants");
  }
  /// Refuses unknown names between the parts, arms twice, a study without its reference. Without arms it is no plan
  /// yet, and nothing is checked.
  void validate() const;

  const StudyArm& arm(std::string_view name) const;
  /// The arms that take the trained model of one, in their order; its own record is written after theirs.
  std::vector<const StudyArm*> sharing(const std::string& arm) const;
  std::int64_t seeds_of(const StudyArm& arm) const { return arm.role == ArmRole::kMain ? seeds : few_seeds; }
  /// The arm that one is compared with: the one that it names, else the reference. Empty for the reference itself, and
  /// for an arm from scratch that names none: it shares neither the base nor the steps of the reference.
  std::string opponent_of(const StudyArm& arm) const;
  /// Whether this is one of the listed comparisons.
  bool compares(const std::string& arm, const std::string& against, const std::string& measure) const;
};

}  // namespace camber::study
