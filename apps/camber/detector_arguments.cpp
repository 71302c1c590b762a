#include "apps/camber/detector_arguments.h"

#include <cstdio>
#include <stdexcept>

#include <ATen/Parallel.h>

#include "camber/nn/device.h"
#include "camber/runs/detector_run.h"
#include "camber/train/run_folder.h"

namespace camber::app {
namespace {

// The configuration that stands beside the weights, for what the command line does not say.
runs::DetectorTrainingOptions own_options(const DetectorArguments& arguments, const std::filesystem::path& weights) {
  return arguments.run.empty() ? runs::options_of_checkpoint(weights) : runs::options_of_run(arguments.run);
}

nuscenes::Split chosen_split(const nuscenes::Dataset& dataset, const DetectorArguments& arguments,
                             const CommonOptions& common) {
  if (!arguments.scenes.empty()) return nuscenes::read_scenes(dataset, arguments.scenes);
  if (!arguments.split.empty()) return nuscenes::find_split(dataset, arguments.split);
  if (arguments.any_scene) return nuscenes::whole_data_set(dataset);
  if (!nuscenes::has_splits(dataset)) {
    nuscenes::Split all = nuscenes::whole_data_set(dataset);
    if (!common.quiet)
      std::fprintf(stderr, "%s has no splits.json: all %zu samples are taken\n",
                   (dataset.root() / dataset.version()).string().c_str(), all.samples.size());
    return all;
  }
  try {
    return nuscenes::find_split(dataset, "val");
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string(error.what()) + " (name one with --split, or scenes with --scenes)");
  }
}

}  // namespace

std::optional<detection::Precision> precision_of(const std::string& word, const std::string& title) {
  if (word.empty()) return std::nullopt;
  for (const auto& [precision, name] : config::enum_names<detection::Precision>)
    if (word == name) return precision;
  throw std::invalid_argument(title + "--precision must be float32 or bfloat16, got '" + word + "'");
}

void DetectorArguments::declare(Command& command) {
  command.option("--run", run, "folder of a run: its exported weights, or its last checkpoint");
  command.option("--checkpoint", checkpoint, "a checkpoint or exported weights instead of a run");
  command.option("--data", data, "the data set's folder; the run's own by default");
  command.option("--version", version, "folder of its tables; the run's own by default");
  command.option("--split", split,
                 "from splits.json, or an official split; val by default, all samples where there are no splits");
  command.option("--scenes", scenes, "a file of scene names instead of a split");
  command.option("--precision", precision, "float32 or bfloat16; the checkpoint's own by default");
  command.option("--device", device, "where the detector computes: cpu, cuda or cuda:N");
  command.option("--limit", limit, "frames of the split, spread evenly; 0: all");
}

void AlarmArguments::declare(Command& command) {
  command.option(
      "--policy", policy,
      "what is done with the cues' alarms: none, rule, verified_rule, bias or verified_bias; the model's own by "
      "default");
  command.option("--cue-errors", cue_errors,
                 "none, or how the cues err: false_alarms:0.1,misses:0.1,wrong_culprit:0.1,burst:4");
}

void AlarmArguments::check(const char* title) const {
  runs::trust_policy(policy, "[" + std::string(title) + "] --policy");
  sensors::parse_cue_errors(cue_errors);
}

void AlarmArguments::put(runs::DetectionRequest& request, const char* title) const {
  request.policy = runs::trust_policy(policy, "[" + std::string(title) + "] --policy");
  request.cue_errors = sensors::parse_cue_errors(cue_errors);
}

OpenedDetector open_detector(const DetectorArguments& arguments, const CommonOptions& common, const char* title) {
  const std::string name = "[" + std::string(title) + "] ";
  if (arguments.run.empty() == arguments.checkpoint.empty())
    throw std::invalid_argument(name + "one of --run RUN and --checkpoint FILE must be given");
  if (arguments.limit < 0)
    throw std::invalid_argument(name + "--limit must be at least 0, got " + std::to_string(arguments.limit));
  if (!arguments.split.empty() && !arguments.scenes.empty())
    throw std::invalid_argument(name + "--split and --scenes must not be given together");
  if (common.threads > 0) at::set_num_threads(static_cast<int>(common.threads));
  const torch::Device device = nn::device_from(arguments.device);
  const std::filesystem::path weights =
      arguments.run.empty() ? std::filesystem::path(arguments.checkpoint) : train::weights_of_run(arguments.run);
  const runs::DetectorTrainingOptions own = own_options(arguments, weights);
  const std::string root = arguments.data.empty() ? own.data.root : arguments.data;
  if (root.empty()) throw std::invalid_argument(name + "--data must name a data set's folder, got nothing");
  OpenedDetector opened;
  opened.detector = detection::Detector::load(weights, device, precision_of(arguments.precision, name));
  opened.dataset =
      std::make_unique<nuscenes::Dataset>(root, arguments.version.empty() ? own.data.version : arguments.version);
  opened.split = chosen_split(*opened.dataset, arguments, common);
  if (arguments.limit > 0) {
    opened.split.samples = runs::evenly_spaced(opened.split.samples, arguments.limit);
    opened.split.official = false;
  }
  opened.config = own.evaluation.config;
  opened.batch_size = own.evaluation.batch_size;
  return opened;
}

}  // namespace camber::app
