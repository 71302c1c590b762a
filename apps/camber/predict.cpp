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
  AlarmArguments alarms{};
  std::string sample{}, scene{}, faults = "none", out{}, raw{}, image{};
  double score = 0.3;
  std::int64_t frame = -1;
  bool beside_clean = false;
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

// What can be seen to be wrong before anything is read.
void check(const PredictArguments& arguments, const CommonOptions& common) {
  if (arguments.out.empty() && arguments.raw.empty() && arguments.image.empty())
    throw std::invalid_argument(
        "[predict] one of --out FILE.json, --raw FILE.json and --image FILE.png, or several, must be given");
  arguments.alarms.check("predict");
  refuse_without(common, "predict", "--image", {"--score", "--frame", "--beside-clean"});
  if (arguments.frame < -1)
    throw std::invalid_argument("[predict] --frame must be at least -1, got " + std::to_string(arguments.frame));
  if (arguments.beside_clean && sensors::parse_faults(arguments.faults).empty())
    throw std::invalid_argument("[predict] --beside-clean must be given with --faults, got no fault");
  if (!arguments.image.empty()) check_ending("predict", "--image", arguments.image, {".png", ".jpg", ".jpeg"});
  for (const std::string& file : {arguments.out, arguments.raw, arguments.image})
    if (!file.empty()) storage::check_writable(file);
  if (arguments.score < 0 || arguments.score > 1)
    throw std::invalid_argument("[predict] --score must be 0 to 1, got " + std::to_string(arguments.score));
}

// The samples of the image: the first, the one of --frame, or those of --scene as a strip.
std::vector<nuscenes::Index> drawn_samples(const PredictArguments& arguments, const nuscenes::Split& split) {
  constexpr std::size_t kLongestStrip = 20;
  const auto count = static_cast<std::int64_t>(split.samples.size());
  if (arguments.image.empty() || count == 0) return {};
  if (arguments.frame >= count)
    throw std::invalid_argument("[predict] --frame must be 0 to " + std::to_string(count - 1) + ", got " +
                                std::to_string(arguments.frame));
  if (arguments.frame >= 0 || arguments.scene.empty())
    return {split.samples[static_cast<std::size_t>(std::max<std::int64_t>(0, arguments.frame))]};
  const auto length = std::min(kLongestStrip, split.samples.size());
  return {split.samples.begin(), split.samples.begin() + static_cast<std::ptrdiff_t>(length)};
}

class ImageMaker {
 public:
  ImageMaker(const PredictArguments& arguments, OpenedDetector& opened, const runs::DetectionRequest& request)
      : arguments_(arguments), opened_(opened), request_(request), samples_(drawn_samples(arguments, request.split)) {}

  void take(const runs::DetectedFrame& frame, const runs::Condition& condition) {
    if (std::find(samples_.begin(), samples_.end(), frame.origin.sample) == samples_.end()) return;
    frames_.push_back({runs::frame_for_drawing(request_, frame.origin.sample, condition,
                                               opened_.detector->options().frame_options().camera_order),
                       frame.found});
  }

  void write() {
    if (samples_.empty()) return;
    const std::size_t faulted = frames_.size();
    if (arguments_.beside_clean) {
      runs::DetectionRequest clean = request_;
      clean.split.samples = samples_;
      clean.progress = {};
      clean.cue_errors = {};
      runs::run_passes(opened_.detector, clean, {{}}, {.frame = [this](runs::DetectedFrame&& f) { take(f, {}); }});
    }
    const detection::DetectorOptions& options = opened_.detector->options();
    const sensors::FrameImageOptions look{.range =
                                              std::max(std::abs(options.space.x_min), std::abs(options.space.x_max))};
    std::vector<sensors::MarkedFrame> marked;
    marked.reserve(frames_.size());
    for (std::size_t i = 0; i < frames_.size(); ++i)
      marked.push_back({.frame = &frames_[i].frame,
                        .marks = runs::marks_of(frames_[i], options, arguments_.score),
                        .title = title_of(frames_[i], i < faulted ? arguments_.faults : "none", i < faulted)});
    std::rotate(marked.begin(), marked.begin() + static_cast<std::ptrdiff_t>(faulted), marked.end());  // clean first
    storage::write_file(arguments_.image, drawing::encode_image(samples_.size() > 1 ? draw_strip(marked, look)
                                                                                    : draw_frames(marked, look),
                                                                arguments_.image));
  }

 private:
  std::string title_of(const runs::FoundFrame& frame, const std::string& faults, bool errs) const {
    const nuscenes::Tables& tables = opened_.dataset->tables();
    const nuscenes::Sample& sample = tables.sample[frame.frame.frame.sample];
    const std::string& errors = arguments_.alarms.cue_errors;
    return std::string(tables.scene[sample.scene].name) + ", " +
           (faults == "none" ? "sensors as recorded" : "with " + faults) +
           (errs && errors != "none" ? ", cues with " + errors : "");
  }

  const PredictArguments& arguments_;
  OpenedDetector& opened_;
  const runs::DetectionRequest& request_;
  std::vector<nuscenes::Index> samples_;
  std::vector<runs::FoundFrame> frames_;
};

int run_predict(PredictArguments& arguments, const CommonOptions& common) {
  check(arguments, common);
  arguments.detector.any_scene = !arguments.sample.empty() || !arguments.scene.empty();
  const std::vector<sensors::Fault> faults = sensors::parse_faults(arguments.faults);
  sensors::check_together(faults);
  OpenedDetector opened = open_detector(arguments.detector, common, "predict");
  // Of the whole split: one frame or scene of it is shown as `eval` sees it.
  std::vector<nuscenes::Index> fault_pool = nuscenes::fault_pool(*opened.dataset, opened.split);
  narrow(opened.split, *opened.dataset, arguments);
  console::Progress progress({.task = "predict",
                              .unit = "frames",
                              .total = static_cast<std::int64_t>(opened.split.samples.size()),
                              .quiet = common.quiet});
  runs::DetectionRequest request{.dataset = *opened.dataset,
                                 .split = opened.split,
                                 .fault_pool = std::move(fault_pool),
                                 .seed = common.seed,
                                 .batch_size = opened.batch_size,
                                 .progress = [&progress](std::int64_t done) { progress.advance(done); }};
  arguments.alarms.put(request, "predict");
  const detection::DetectorOptions& options = opened.detector->options();
  const auto config = opened.config.empty() ? eval::EvaluationConfig{} : eval::EvaluationConfig::read(opened.config);
  eval::SampleBoxes boxes;
  runs::RawDetections raw(options);
  ImageMaker image(arguments, opened, request);
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
    image.take(frame, faults);
  };
  runs::run_passes(opened.detector, request, {{.condition = faults}}, {.frame = take});
  progress.finish();
  if (!arguments.out.empty())
    eval::write_results(arguments.out, boxes,
                        {.use_camera = options.uses_cameras(), .use_lidar = options.uses_lidar()});
  if (!arguments.raw.empty()) storage::write_file(arguments.raw, raw.to_json());
  image.write();
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
  command.option("--scene", arguments->scene,
                 "only this scene; without --frame the image becomes a strip of its frames");
  command.option("--faults", arguments->faults, "faults of every frame, such as frozen:4");
  arguments->alarms.declare(command);
  command.option("--out", arguments->out, "predictions in the submission format, in the range of their class");
  command.option("--raw", arguments->raw, "every detection with its query, label, score and box in the LiDAR's frame");
  command.option("--image", arguments->image,
                 "draw the first frame, every camera and from above, to a .png or .jpg file");
  command.option("--frame", arguments->frame, "which frame is drawn; -1: the first, or a strip of the scene");
  command.option("--beside-clean", arguments->beside_clean, "draw the frame without its faults too, above");
  command.option("--score", arguments->score, "found boxes below it are not drawn");
  command.run([arguments](const CommonOptions& common) { return run_predict(*arguments, common); });
}

}  // namespace camber::app
