#include <algorithm>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "apps/camber/commands.h"
#include "apps/console/progress.h"
#include "camber/eval/detection_box.h"
#include "camber/nuscenes/splits.h"
#include "camber/runs/detector_options.h"
#include "camber/sensors/cue_errors.h"
#include "camber/sensors/cue_separation.h"
#include "camber/sensors/frame_image.h"
#include "camber/sensors/gates.h"
#include "camber/sensors/inspection.h"
#include "camber/storage/atomic_file.h"

namespace camber::app {
namespace {

struct InspectArguments {
  std::string data{}, version = "v1.0-simulated", split{}, scenes{}, image{}, sheet{}, faults = "none", detector{};
  std::int64_t frame = 0, severity = 3;
  double range = 26;
  bool gates = false, cues = false, points = false, tables_only = false, read = false;
};

// For gates and cues, as a detector would load them: one size for all, large images at half of it.
sensors::FrameOptions frames_of(const nuscenes::Dataset& dataset) {
  sensors::FrameOptions options{.feature_stride = 1};
  for (const nuscenes::SampleData& row : dataset.tables().sample_data) {
    if (row.width < 1) continue;
    const std::int64_t shrink = row.width > 800 ? 2 : 1;
    options.image_width = row.width / shrink;
    options.image_height = row.height / shrink;
    break;
  }
  options.sweeps.previous = 0;
  return options;
}

void draw(const InspectArguments& arguments, const nuscenes::Dataset& dataset, const nuscenes::Split& split,
          std::uint64_t seed) {
  const auto count = static_cast<std::int64_t>(split.samples.size());
  if (arguments.frame < 0 || arguments.frame >= count)
    throw std::invalid_argument(fmt::format("[inspect] --frame must be 0 to {}, got {}", count - 1, arguments.frame));
  const nuscenes::Index sample = split.samples[static_cast<std::size_t>(arguments.frame)];
  const auto frames = sensors::FrameOptions::for_drawing();
  if (!arguments.image.empty()) {
    const sensors::SensorFrame frame =
        load_sensor_frame(dataset, sample, frames, sensors::parse_faults(arguments.faults), split.samples,
                          random::Stream(seed, "faults"));
    const sensors::MarkedFrame marked{.frame = &frame, .marks = sensors::true_boxes(frame.frame)};
    storage::write_file(
        arguments.image,
        drawing::encode_image(draw_frame(marked, {.range = arguments.range, .points_in_images = arguments.points}),
                              arguments.image));
  }
  if (!arguments.sheet.empty())
    storage::write_file(arguments.sheet,
                        drawing::encode_image(draw_fault_sheet(dataset, sample, split.samples, frames,
                                                               static_cast<int>(arguments.severity), seed),
                                              arguments.sheet));
}

nuscenes::Split chosen_split(const nuscenes::Dataset& dataset, const InspectArguments& arguments) {
  if (!arguments.scenes.empty()) return nuscenes::read_scenes(dataset, arguments.scenes);
  return arguments.split.empty() ? nuscenes::whole_data_set(dataset) : nuscenes::find_split(dataset, arguments.split);
}

// What can be seen to be wrong before the tables are read.
void check(const InspectArguments& arguments, const CommonOptions& common) {
  if (arguments.sheet.empty()) refuse_without(common, "inspect", "--image", {"--frame"});
  refuse_without(common, "inspect", "--image", {"--faults", "--points", "--range"});
  refuse_without(common, "inspect", "--sheet", {"--severity"});
  sensors::refuse_cue_errors(arguments.faults, "[inspect] --faults", "a drawn frame shows no cues");
  if (arguments.tables_only && arguments.read)
    throw std::invalid_argument("[inspect] --tables-only and --read must not be given together");
  if (!arguments.split.empty() && !arguments.scenes.empty())
    throw std::invalid_argument("[inspect] --split and --scenes must not be given together");
  if (arguments.severity < 1 || arguments.severity > sensors::kSeverities)
    throw std::invalid_argument(
        fmt::format("[inspect] --severity must be 1 to {}, got {}", sensors::kSeverities, arguments.severity));
  if ((arguments.gates || arguments.cues) && common.format == Format::kCsv)
    throw std::invalid_argument("[inspect] --format must be text or json with --gates and --cues, got csv");
  if (arguments.gates && arguments.cues && common.format == Format::kJson)
    throw std::invalid_argument("[inspect] --gates and --cues must be asked for one by one with --format json");
  if (!(arguments.range >= 1 && arguments.range <= 1000))
    throw std::invalid_argument(fmt::format("[inspect] --range must be 1 to 1000 metres, got {}", arguments.range));
  for (const auto& [image, argument] : {std::pair{&arguments.image, "--image"}, {&arguments.sheet, "--sheet"}}) {
    if (image->empty()) continue;
    check_ending("inspect", argument, *image, {".png", ".jpg", ".jpeg"});
    storage::check_writable(*image);
  }
}

// What there is to count: objects by class, distance, visibility and points, files by sensor.
int count(const InspectArguments& arguments, const nuscenes::Dataset& dataset, const nuscenes::Split& split,
          const CommonOptions& common) {
  sensors::InspectionOptions options{.threads = static_cast<int>(common.threads)};
  if (arguments.tables_only) options.files = sensors::FileCheck::kSkip;
  if (arguments.read) options.files = sensors::FileCheck::kRead;
  console::Progress progress({.task = "inspect",
                              .unit = "files",
                              .total = sensors::files_of(dataset, split),
                              .quiet = common.quiet || arguments.tables_only});
  options.class_of = [](std::string_view category) {
    const auto found = eval::class_of_category(category);
    return std::string(found ? eval::name_of(*found) : "");
  };
  if (!arguments.detector.empty()) {
    const detection::DetectorOptions detector = runs::detector_of_config(arguments.detector);
    options.detector = {
        .frame = detector.frame_options(), .classes = detector.classes, .queries = detector.head.num_queries};
  }
  options.progress = [&progress](std::int64_t files) { progress.advance(files); };
  const sensors::Inspection inspection = sensors::inspect(dataset, split, options);
  progress.finish();
  print_answer(common.format == Format::kJson  ? sensors::to_json(inspection)
               : common.format == Format::kCsv ? sensors::to_csv(inspection)
                                               : sensors::to_text(inspection));
  return inspection.problems.empty() ? kSuccess : kFailure;
}

int run_inspect(const InspectArguments& arguments, const CommonOptions& common) {
  const bool draws = !arguments.image.empty() || !arguments.sheet.empty();
  check(arguments, common);
  const auto threads = static_cast<int>(common.threads);
  const nuscenes::Dataset dataset(arguments.data, arguments.version, threads);
  const nuscenes::Split split = chosen_split(dataset, arguments);
  const sensors::FrameOptions frames = frames_of(dataset);
  if (draws) draw(arguments, dataset, split, common.seed);
  if (!arguments.gates && !arguments.cues) return count(arguments, dataset, split, common);
  const bool json = common.format == Format::kJson;
  const std::vector<sensors::Fault> faults = arguments.cues ? sensors::cue_faults() : std::vector<sensors::Fault>{};
  const std::size_t passes = faults.size() + (arguments.gates ? 1 : 0);
  console::Progress progress({.task = "inspect",
                              .unit = "frames",
                              .total = static_cast<std::int64_t>(split.samples.size() * passes),
                              .quiet = common.quiet});
  const auto advance = [&progress](std::int64_t count) { progress.advance(count); };
  std::string answer;
  if (arguments.gates) {
    const sensors::GateReport report = sensors::inspect_gates(dataset, split.samples, frames, {}, threads, advance);
    answer += json ? sensors::to_json(report) : sensors::to_text(report);
  }
  if (arguments.cues) {
    const auto rows = sensors::cue_separation(dataset, split.samples, frames, faults, common.seed, threads, advance);
    const double milliseconds = sensors::cue_milliseconds(dataset, split.samples, frames);
    answer += json ? sensors::to_json(rows, milliseconds) : sensors::to_text(rows, milliseconds);
  }
  progress.finish();
  print_answer(answer);
  return kSuccess;
}

}  // namespace

void register_inspect(Command& program) {
  auto arguments = std::make_shared<InspectArguments>();
  Command& command = program.add({.name = "inspect",
                                  .summary = "look a data set over before use: objects, files, images with boxes",
                                  .example = "camber inspect --data world --gates"});
  command.option("--data", arguments->data, "the data set's folder", Presence::kRequired);
  command.option("--version", arguments->version, "folder of its tables");
  command.option("--split", arguments->split, "from splits.json, or an official split; all scenes by default");
  command.option("--scenes", arguments->scenes, "a file of scene names instead of a split");
  command.option("--tables-only", arguments->tables_only, "count objects only, look at no file");
  command.option("--read", arguments->read, "read and decode the key frames' files, not only find them");
  command.option("--detector", arguments->detector,
                 "say what this one would miss: a preset, or a TOML file of camber train");
  command.option("--gates", arguments->gates, "can this world show trust? counts and probes without any network");
  command.option("--cues", arguments->cues, "how well the router's cues alone betray faulty sensors");
  command.option("--image", arguments->image, "draw one frame with its true boxes to a .png or .jpg file");
  command.option("--frame", arguments->frame, "which frame of the split is drawn");
  command.option("--faults", arguments->faults, "faults that happen to the drawn frame");
  command.option("--range", arguments->range, "metres from the car to the edge of the bird's-eye view");
  command.option("--points", arguments->points, "show LiDAR points on the cameras' images too");
  command.option("--sheet", arguments->sheet, "draw every fault at once to a .png or .jpg file");
  command.option("--severity", arguments->severity, "severity of the faults on the sheet");
  command.run([arguments](const CommonOptions& common) { return run_inspect(*arguments, common); },
              {Format::kText, Format::kJson, Format::kCsv});
}

}  // namespace camber::app
