#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace camber::study {

/// A model evaluated under one condition, as it is (control empty) or with something instead of its trust or its cues:
/// zero, mean, shuffled, oracle; "cues of frozen:5" on clean frames, "cues of clean" on frozen ones.
struct Measurement {
  std::string condition{};
  std::string control{};
  double mean_ap = 0, nd_score = 0;
  std::vector<double> by_distance{};         ///< mean over classes of AP at each distance, nearest first
  double trust_lidar = 0, trust_camera = 0;  ///< mean over the 20 best boxes a frame; NaN without a router
  /// mAP under draws of scenes with replacement, in 1/10,000. Every run has the same draws: differences of two runs'
  /// numbers are paired by scene.
  std::vector<std::int32_t> replicates{};
};

/// A value over the steps of a run.
struct RunCurve {
  std::vector<std::int64_t> steps{};
  std::vector<double> values{};
};

/// Everything that is kept of one run: a small JSON file.
struct RunRecord {
  std::string arm{};  ///< base and doubled too
  std::int64_t seed = 0;
  std::int64_t steps = 0;
  double scale_lr_mult = 0;                ///< that its scales learned with; 0: it has none that learns
  std::map<std::string, double> scales{};  ///< where they ended
  std::string config_hash{}, data_fingerprint{}, weights{}, commit{}, instruction_set{};
  std::int64_t numerics =
      1;  ///< the version of the attention's arithmetic; records that do not say it are of version 1
  std::vector<Measurement> measurements{};
  std::map<std::string, double> values{};    ///< of runs without conditions, by name: "5-way 1-shot/accuracy"
  std::map<std::string, RunCurve> curves{};  ///< scale, bias, trust, change of attention
  double milliseconds_a_step = 0, training_seconds = 0, evaluation_seconds = 0;

  std::string key() const { return arm + "_s" + std::to_string(seed); }
  /// Of that condition and control; nullptr when it was not measured.
  const Measurement* find(const std::string& condition, const std::string& control = "") const;
};

std::string to_json(const RunRecord& record);
/// Throws std::runtime_error that names the file for text that is no record.
RunRecord parse_record(const std::string& text, const std::string& name);
/// All *.json of a folder, by name.
std::vector<RunRecord> read_run_records(const std::filesystem::path& folder);
/// Those of one arm, in their order.
std::vector<const RunRecord*> runs_of(const std::vector<RunRecord>& records, const std::string& arm);

}  // namespace camber::study
