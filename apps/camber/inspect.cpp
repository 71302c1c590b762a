#include <algorithm>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "apps/camber/commands.h"
#include "apps/console/progress.h"
#include "camber/data/cue_separation.h"
#include "camber/data/frame_image.h"
#include "camber/data/gates.h"
#include "camber/data/inspection.h"
#include "camber/data/splits.h"
#include "camber/drawing/jpeg.h"
#include "camber/storage/atomic_file.h"

namespace camber::app {
namespace {

constexpr int kJpegQuality = 75;

struct InspectArguments {
  std::string data{}, version = "v1.0-simulated", split{}, scenes{}, image{}, sheet{}, faults = "none";
  std::int64_t frame = 0, severity = 3;
  bool gates = false, cues = false, points = false, tables_only = false, read = false;
};

// Frames at the size of the data set's own images; large ones at half of it.
data::FrameOptions frames_of(const data::Dataset& dataset) {
  data::FrameOptions options{.feature_stride = 1};
  for (const data::SampleData& row : dataset.tables().sample_data) {
    if (row.width < 1) continue;
    const std::int64_t shrink = row.width > 800 ? 2 : 1;
    options.image_width = row.width / shrink;
    options.image_height = row.height / shrink;
    break;
  }
  options.sweeps.previous = 0;
  return options;
}

void write_image(const std::string& path, const drawing::Canvas& canvas) {
  if (path.ends_with(".png")) return storage::write_file(path, drawing::encode_png(canvas));
  if (!path.ends_with(".jpg"))
    throw std::invalid_argument(fmt::format("[inspect] an image must end in .png or .jpg, got {}", path));
  const auto bytes = drawing::encode_jpeg(canvas.pixels().data(), canvas.width(), canvas.height(), kJpegQuality);
  storage::write_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void draw(const InspectArguments& arguments, const data::Dataset& dataset, const data::Split& split,
          const data::FrameOptions& frames, std::uint64_t seed) {
  const auto count = static_cast<std::int64_t>(split.samples.size());
  if (arguments.frame < 0 || arguments.frame >= count)
    throw std::invalid_argument(fmt::format("[inspect] --frame must be 0 to {}, got {}", count - 1, arguments.frame));
  const data::Index sample = split.samples[static_cast<std::size_t>(arguments.frame)];
  if (!arguments.image.empty()) {
    const data::SensorFrame sensor_frame = load_sensor_frame(
        dataset, sample, frames, data::parse_faults(arguments.faults), split.samples, random::Stream(seed, "faults"));
    write_image(arguments.image, data::draw_frame(sensor_frame, {.points_in_images = arguments.points}));
  }
  if (!arguments.sheet.empty())
    write_image(arguments.sheet, data::draw_fault_sheet(dataset, sample, split.samples, frames,
                                                        static_cast<int>(arguments.severity), seed));
}

data::Split chosen_split(const data::Dataset& dataset, const InspectArguments& arguments) {
  if (!arguments.scenes.empty()) return data::read_scenes(dataset, arguments.scenes);
  return arguments.split.empty() ? data::whole_data_set(dataset) : data::find_split(dataset, arguments.split);
}

// What can be seen to be wrong before the tables are read.
void check(const InspectArguments& arguments, const CommonOptions& common) {
  if (arguments.tables_only && arguments.read)
    throw std::invalid_argument("[inspect] --tables-only and --read must not be given together");
  if (!arguments.split.empty() && !arguments.scenes.empty())
    throw std::invalid_argument("[inspect] --split and --scenes must not be given together");
  if (arguments.severity < 1 || arguments.severity > data::kSeverities)
    throw std::invalid_argument(
        fmt::format("[inspect] --severity must be 1 to {}, got {}", data::kSeverities, arguments.severity));
  if ((arguments.gates || arguments.cues) && common.format == Format::kCsv)
    throw std::invalid_argument("[inspect] --format must be text or json with --gates and --cues, got csv");
  if (arguments.gates && arguments.cues && common.format == Format::kJson)
    throw std::invalid_argument("[inspect] --gates and --cues must be asked for one by one with --format json");
  for (const std::string& image : {arguments.image, arguments.sheet})
    if (!image.empty()) storage::check_writable(image);
}

// What there is to count: objects by class, distance, visibility and points, files by sensor.
int count(const InspectArguments& arguments, const data::Dataset& dataset, const data::Split& split,
          const CommonOptions& common) {
  data::InspectionOptions options{.threads = static_cast<int>(common.threads)};
  if (arguments.tables_only) options.files = data::FileCheck::kSkip;
  if (arguments.read) options.files = data::FileCheck::kRead;
  console::Progress progress({.task = "inspect",
                              .unit = "files",
                              .total = data::files_of(dataset, split),
                              .quiet = common.quiet || arguments.tables_only});
  options.progress = [&progress](std::int64_t files) { progress.advance(files); };
  const data::Inspection inspection = data::inspect(dataset, split, options);
  progress.finish();
  print_answer(common.format == Format::kJson  ? data::to_json(inspection)
               : common.format == Format::kCsv ? data::to_csv(inspection)
                                               : data::to_text(inspection));
  return inspection.problems.empty() ? kSuccess : kFailure;
}

int run_inspect(const InspectArguments& arguments, const CommonOptions& common) {
  const bool draws = !arguments.image.empty() || !arguments.sheet.empty();
  check(arguments, common);
  const auto threads = static_cast<int>(common.threads);
  const data::Dataset dataset(arguments.data, arguments.version, threads);
  const data::Split split = chosen_split(dataset, arguments);
  const data::FrameOptions frames = frames_of(dataset);
  if (draws) draw(arguments, dataset, split, frames, common.seed);
  if (!arguments.gates && !arguments.cues) return count(arguments, dataset, split, common);
  const bool json = common.format == Format::kJson;
  const std::vector<data::Fault> faults = arguments.cues ? data::cue_faults() : std::vector<data::Fault>{};
  const std::size_t passes = faults.size() + (arguments.gates ? 1 : 0);
  console::Progress progress({.task = "inspect",
                              .unit = "frames",
                              .total = static_cast<std::int64_t>(split.samples.size() * passes),
                              .quiet = common.quiet});
  const auto advance = [&progress](std::int64_t count) { progress.advance(count); };
  std::string answer;
  if (arguments.gates) {
    const data::GateReport report = data::inspect_gates(dataset, split.samples, frames, {}, threads, advance);
    answer += json ? data::to_json(report) : data::to_text(report);
  }
  if (arguments.cues) {
    const auto rows = data::cue_separation(dataset, split.samples, frames, faults, common.seed, threads, advance);
    const double milliseconds = data::cue_milliseconds(dataset, split.samples, frames);
    answer += json ? data::to_json(rows, milliseconds) : data::to_text(rows, milliseconds);
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
  command.option("--gates", arguments->gates, "can this world show trust? counts and probes without any network");
  command.option("--cues", arguments->cues, "how well the router's cues alone betray faulty sensors");
  command.option("--image", arguments->image, "draw one frame with its true boxes to a .png or .jpg file");
  command.option("--frame", arguments->frame, "which frame of the split is drawn");
  command.option("--faults", arguments->faults, "faults that happen to the drawn frame");
  command.option("--points", arguments->points, "show LiDAR points on the cameras' images too");
  command.option("--sheet", arguments->sheet, "draw every fault at once to a .png or .jpg file");
  command.option("--severity", arguments->severity, "severity of the faults on the sheet");
  command.run([arguments](const CommonOptions& common) { return run_inspect(*arguments, common); },
              {Format::kText, Format::kJson, Format::kCsv});
}

}  // namespace camber::app
