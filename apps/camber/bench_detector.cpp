#include <memory>
#include <stdexcept>

#include <ATen/Parallel.h>

#include "apps/camber/commands.h"
#include "apps/camber/detector_arguments.h"
#include "camber/nn/device.h"
#include "camber/nn/query_router.h"
#include "camber/runs/detector_bench.h"

namespace camber::app {
namespace {

struct BenchDetectorArguments {
  std::string preset = "small", checkpoint{}, data{}, version = "v1.0-simulated", split{}, dump{}, device = "cpu";
  std::string precision{}, clock = "wall";
  bool bias = false, dense_heads = false, no_training = false;
  runs::DetectorBenchOptions options{};
};

detection::Detector detector_of(const BenchDetectorArguments& arguments, const CommonOptions& common) {
  const auto precision = precision_of(arguments.precision, "[bench detector] ");
  if (!arguments.checkpoint.empty()) return detection::Detector::load(arguments.checkpoint, torch::kCPU, precision);
  detection::DetectorOptions options = detection::DetectorOptions::preset(arguments.preset);
  if (arguments.bias) {
    options.router.mode = nn::RouterMode::kLearned;
    options.bias.segments = true;
  }
  options.head.dense_auxiliary = options.head.dense_auxiliary || arguments.dense_heads;
  options.precision = precision.value_or(options.precision);
  return detection::Detector(options, common.seed);
}

int run(const BenchDetectorArguments& arguments, const CommonOptions& common) {
  if (common.threads > 0) at::set_num_threads(static_cast<int>(common.threads));
  runs::DetectorBenchOptions options = arguments.options;
  options.training = !arguments.no_training;
  options.seed = common.seed;
  options.dump = arguments.dump;
  if (arguments.clock != "wall" && arguments.clock != "processor")
    throw std::invalid_argument("[bench detector] --clock must be wall or processor, got '" + arguments.clock + "'");
  options.processor_time = arguments.clock == "processor";
  if (options.warmup < 0)
    throw std::invalid_argument("[bench detector] --warmup must be at least 0, got " + std::to_string(options.warmup));
  if (options.repeats < 1)
    throw std::invalid_argument("[bench detector] --repeats must be at least 1, got " +
                                std::to_string(options.repeats));
  const nuscenes::Dataset dataset(arguments.data, arguments.version);
  const nuscenes::Split split =
      arguments.split.empty() ? nuscenes::whole_data_set(dataset) : nuscenes::find_split(dataset, arguments.split);
  auto detector = detector_of(arguments, common);
  detector->to(nn::device_from(arguments.device));
  const runs::DetectorBench bench = runs::bench_detector(detector, dataset, split, options);
  print_answer(common.format == Format::kJson ? bench.to_json() : bench.to_text());
  return kSuccess;
}

}  // namespace

void register_bench_detector(Command& bench) {
  auto arguments = std::make_shared<BenchDetectorArguments>();
  Command& command = bench.add({.name = "detector",
                                .summary = "p50 and p95 of every stage of the detector, in use and in training",
                                .example = "camber bench detector --data build/world --split val --repeats 20"});
  command.option("--data", arguments->data, "the data set's folder", Presence::kRequired);
  command.option("--version", arguments->version, "folder of its tables");
  command.option("--split", arguments->split, "frames to take; all by default");
  command.option("--preset", arguments->preset, "small, reference, or one of CMT's (cmt_r50), untrained");
  command.option("--checkpoint", arguments->checkpoint, "a trained detector instead");
  command.option("--precision", arguments->precision, "float32 or bfloat16; the checkpoint's own by default");
  command.option("--device", arguments->device, "where the detector computes: cpu, cuda or cuda:N");
  command.option("--bias", arguments->bias, "with the learned router, windows and segments");
  command.option("--dense-heads", arguments->dense_heads, "with dense heads, and the agreement of the sensors by them");
  command.option("--repeats", arguments->options.repeats, "frames and training steps that are timed");
  command.option("--warmup", arguments->options.warmup, "frames and training steps before them that are not");
  command.option("--clock", arguments->clock, "wall, or processor: its time divided by the threads");
  command.option("--batch", arguments->options.batch_size, "frames of a training step");
  command.option("--no-training", arguments->no_training, "leave out the training steps");
  command.option("--dump", arguments->dump, "write batch, weights and outputs there, for bench/detector_peer.py");
  command.run([arguments](const CommonOptions& common) { return run(*arguments, common); });
}

}  // namespace camber::app
