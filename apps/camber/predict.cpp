#include <algorithm>
#include <memory>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "apps/camber/commands.h"
#include "apps/camber/detector_arguments.h"
#include "apps/console/progress.h"
#include "camber/config/names.h"
#include "camber/eval/results_file.h"
#include "camber/runs/detector_image.h"
#include "camber/runs/detector_raw.h"
#include "camber/sensors/fault.h"
#include "camber/storage/atomic_file.h"

namespace camber::app {
namespace {

struct PredictArguments {
  DetectorArguments detector{};
  std::string sample{}, scene{}, faults = "none", out{}, raw{}, image{};
  double score = 0.3;
};

// The split cut down to one sample or one scene.
void narrow(nuscenes::Split& split, const nuscenes::Dataset& dataset, const PredictArguments& arguments) {
  const nuscenes::Tables& tables = dataset.tables();
  const std::string where =
      arguments.detector.split.empty() && arguments.detector.scenes.empty() ? "" : " of split " + split.name;
  const auto keep = [&](const auto& wanted) {
    std::erase_if(split.samples, [&](nuscenes::Index sample) { return !wanted(sample); });
    split.official = false;
  };
  if (!arguments.sample.empty()) {
    keep([&](nuscenes::Index sample) { return tables.sample[sample].token == arguments.sample; });
    if (split.samples.empty())
      throw std::invalid_argument("[predict] --sample must be the token of a sample" + where + ", got '" +
                                  arguments.sample + "'");
  }
  if (!arguments.scene.empty()) {
    keep([&](nuscenes::Index sample) { return tables.scene[tables.sample[sample].scene].name == arguments.scene; });
    if (split.samples.empty())
      throw std::invalid_argument("[predict] --scene must be one" + where + ", got '" + arguments.scene +
                                  "'; the nearest is '" + config::nearest_name(arguments.scene, split.scenes) + "'");
  }
}

std::string image_of(const std::vector<runs::FoundFrame>& frames, const PredictArguments& arguments,
                     const detection::DetectorOptions& options) {
  runs::FoundImageOptions look{.min_score = arguments.score};
  look.frame.range = std::max(std::abs(options.space.x_min), std::abs(options.space.x_max));
  if (frames.size() == 1) return drawing::encode_png(runs::draw_found(frames[0], options, look));
  look.frame.bird_eye_pixels = 320;
  return drawing::encode_png(runs::draw_strip(frames, options, look));
}

int run_predict(PredictArguments& arguments, const CommonOptions& common) {
  if (arguments.out.empty() && arguments.raw.empty() && arguments.image.empty())
    throw std::invalid_argument(
        "[predict] one of --out FILE.json, --raw FILE.json and --image FILE.png, or several, must be given");
  for (const std::string& file : {arguments.out, arguments.raw, arguments.image})
    if (!file.empty()) storage::check_writable(file);
  arguments.detector.any_scene = !arguments.sample.empty() || !arguments.scene.empty();
  const std::vector<sensors::Fault> faults = sensors::parse_faults(arguments.faults);
  OpenedDetector opened = open_detector(arguments.detector, common, "predict");
  // Of the whole split: one frame or scene of it is shown as `eval` sees it.
  std::vector<nuscenes::Index> fault_pool = nuscenes::fault_pool(*opened.dataset, opened.split);
  narrow(opened.split, *opened.dataset, arguments);
  constexpr std::size_t kLongestStrip = 20;
  const std::size_t drawn = arguments.image.empty()   ? 0
                            : arguments.scene.empty() ? 1
                                                      : std::min(kLongestStrip, opened.split.samples.size());
  console::Progress progress({.task = "predict",
                              .unit = "frames",
                              .total = static_cast<std::int64_t>(opened.split.samples.size()),
                              .quiet = common.quiet});
  const runs::DetectionRequest request{.dataset = *opened.dataset,
                                       .split = opened.split,
                                       .fault_pool = std::move(fault_pool),
                                       .seed = common.seed,
                                       .batch_size = opened.batch_size,
                                       .progress = [&progress](std::int64_t done) { progress.advance(done); }};
  const detection::DetectorOptions& options = opened.detector->options();
  const auto config = opened.config.empty() ? eval::EvaluationConfig{} : eval::EvaluationConfig::read(opened.config);
  eval::SampleBoxes boxes;
  runs::RawDetections raw(options);
  std::vector<runs::FoundFrame> frames;
  std::size_t detections = 0;  // the submitted boxes and those beyond their range
  const auto take = [&](runs::DetectedFrame&& frame) {
    const std::string token(opened.dataset->tables().sample[frame.origin.sample].token);
    raw.add(token, frame.found);
    detections += frame.found.size();
    std::vector<detection::Detection> submitted = frame.found;
    std::erase_if(submitted, [&](const detection::Detection& found) {
      return !detection::within_range(found, frame.origin.reference, options, config);
    });
    detection::add_sample(boxes, token, submitted, frame.origin.reference, options);
    if (frames.size() < drawn) frames.push_back({std::move(*frame.sample), std::move(frame.found)});
  };
  runs::run_passes(opened.detector, request, {{.condition = faults}}, {.frame = take});
  progress.finish();
  if (!arguments.out.empty())
    eval::write_results(arguments.out, boxes,
                        {.use_camera = options.uses_cameras(), .use_lidar = options.uses_lidar()});
  if (!arguments.raw.empty()) storage::write_file(arguments.raw, raw.to_json());
  if (!arguments.image.empty()) storage::write_file(arguments.image, image_of(frames, arguments, options));
  const nlohmann::ordered_json json = {{"frames", boxes.samples()}, {"boxes", boxes.boxes.size()},
                                       {"detections", detections},  {"out", arguments.out},
                                       {"raw", arguments.raw},      {"image", arguments.image}};
  if (common.format == Format::kJson)
    print_answer(json.dump() + "\n");
  else
    print_answer(
        std::to_string(boxes.boxes.size()) + " boxes in " + std::to_string(boxes.samples()) + " frames" +
        (arguments.out.empty() ? "" : ", results: " + arguments.out) +
        (arguments.raw.empty() ? "" : ", " + std::to_string(detections) + " detections raw: " + arguments.raw) +
        (arguments.image.empty() ? "" : ", image: " + arguments.image) + "\n");
  return kSuccess;
}

}  // namespace

void register_predict(Command& program) {
  auto arguments = std::make_shared<PredictArguments>();
  Command& command =
      program.add({.name = "predict",
                   .summary = "boxes of a trained detector as results_nusc.json, and an image of them",
                   .example = "camber predict --run runs/demo --split test --out results_nusc.json --image found.png"});
  arguments->detector.declare(command);
  command.option("--sample", arguments->sample, "only the sample with this token");
  command.option("--scene", arguments->scene, "only this scene; the image becomes a strip of its frames");
  command.option("--faults", arguments->faults, "faults of every frame, such as frozen:4");
  command.option("--out", arguments->out, "predictions in the submission format, in the range of their class");
  command.option("--raw", arguments->raw, "every detection with its query, label, score and box in the LiDAR's frame");
  command.option("--image", arguments->image, "PNG of the first frame: from above and every camera");
  command.option("--score", arguments->score, "found boxes below it are not drawn");
  command.run([arguments](const CommonOptions& common) { return run_predict(*arguments, common); });
}

}  // namespace camber::app
