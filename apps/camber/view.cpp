#include <memory>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "apps/camber/commands.h"
#include "apps/camber/detector_arguments.h"
#include "apps/console/progress.h"
#include "camber/config/names.h"
#include "camber/runs/scene_view.h"
#include "camber/storage/atomic_file.h"

namespace camber::app {
namespace {

struct ViewArguments {
  DetectorArguments detector{};
  AlarmArguments alarms{};
  std::string scene{}, faults = "none", out{};
  double score = 0.25, range = 0;
};

// The scene's samples in the order of time.
nuscenes::Split scene_of(const nuscenes::Dataset& dataset, const std::string& name) {
  const nuscenes::Tables& tables = dataset.tables();
  nuscenes::Split split{.name = name, .source = "--scene", .scenes = {name}};
  split.samples = nuscenes::samples_of_scenes(dataset, split);
  if (!split.samples.empty()) return split;
  std::vector<std::string> names;
  for (const nuscenes::Scene& scene : tables.scene) names.emplace_back(scene.name);
  throw std::invalid_argument("[view] --scene must be one of the data set's, got '" + name + "'; the nearest is '" +
                              config::nearest_name(name, names) + "'");
}

std::string condition_name(const ViewArguments& arguments) {
  if (arguments.alarms.cue_errors == "none") return arguments.faults;
  const std::string cues = "cues with " + arguments.alarms.cue_errors;
  return arguments.faults == "none" ? cues : arguments.faults + ", " + cues;
}

int run_view(ViewArguments& arguments, const CommonOptions& common) {
  if (arguments.detector.run.empty() && arguments.detector.checkpoint.empty() && arguments.detector.data.empty())
    throw std::invalid_argument("[view] one of RUN, --checkpoint FILE and --data DIR must be given");
  if (arguments.detector.run.empty() && arguments.detector.checkpoint.empty() &&
      (arguments.alarms.cue_errors != "none" || !arguments.alarms.policy.empty()))
    throw std::invalid_argument(
        "[view] --policy and --cue-errors must come with a detector, which alone looks at cues");
  if (!(arguments.range >= 0 && arguments.range <= 1000))
    throw std::invalid_argument("[view] --range must be 0 to 1000 metres, got " + std::to_string(arguments.range));
  if (!(arguments.score >= 0 && arguments.score <= 1))
    throw std::invalid_argument("[view] --score must be 0 to 1, got " + std::to_string(arguments.score));
  arguments.alarms.check("view");
  check_ending("view", "--out", arguments.out, {".html", ".htm"});
  storage::check_writable(arguments.out);
  const std::vector<sensors::Fault> faults = sensors::parse_faults(arguments.faults);
  sensors::check_together(faults);
  const sensors::CueErrorOptions cue_errors = sensors::parse_cue_errors(arguments.alarms.cue_errors);
  const bool with_run = !arguments.detector.run.empty() || !arguments.detector.checkpoint.empty();
  arguments.detector.any_scene = true;
  OpenedDetector opened;
  if (with_run)
    opened = open_detector(arguments.detector, common, "view");
  else
    opened.dataset = std::make_unique<nuscenes::Dataset>(
        arguments.detector.data, arguments.detector.version.empty() ? "v1.0-simulated" : arguments.detector.version);
  runs::DetectionRequest request{.dataset = *opened.dataset,
                                 .split = scene_of(*opened.dataset, arguments.scene),
                                 .fault_pool = nuscenes::whole_data_set(*opened.dataset).samples,
                                 .seed = common.seed,
                                 .batch_size = opened.batch_size};
  arguments.alarms.put(request, "view");
  console::Progress progress({.task = "view", .unit = "frames", .quiet = common.quiet});
  const report::ScenePage page = runs::scene_view(opened.detector, request,
                                                  {.faults = faults,
                                                   .cue_errors = cue_errors,
                                                   .faults_name = condition_name(arguments),
                                                   .min_score = arguments.score,
                                                   .range = arguments.range,
                                                   .progress = [&](std::int64_t frames) { progress.advance(frames); }});
  const std::string html = report::to_html(page);
  progress.finish();
  storage::write_file(arguments.out, html);
  if (common.format == Format::kJson)
    print_answer(nlohmann::ordered_json{{"out", arguments.out},
                                        {"frames", page.frames.size()},
                                        {"images", page.images.size()},
                                        {"bytes", html.size()}}
                     .dump() +
                 "\n");
  else
    print_answer(std::to_string(page.frames.size()) + (page.frames.size() == 1 ? " frame, " : " frames, ") +
                 std::to_string(html.size() / 1000) + " kB: " + arguments.out + "\n");
  return kSuccess;
}

}  // namespace

void register_view(Command& program) {
  auto arguments = std::make_shared<ViewArguments>();
  Command& command =
      program.add({.name = "view",
                   .summary = "a scene as one HTML page: from above and every camera, over time",
                   .example = "camber view runs/demo --scene scene-0271 --faults frozen:3 --out scene.html"});
  command.option("RUN", arguments->detector.run, "folder of a run, whose detector is shown; absent: the data alone");
  command.option("--checkpoint", arguments->detector.checkpoint, "a checkpoint or exported weights instead of a run");
  command.option("--data", arguments->detector.data, "the data set's folder; the run's own by default");
  command.option("--version", arguments->detector.version, "folder of its tables; the run's own by default");
  command.option("--scene", arguments->scene, "name of the scene", Presence::kRequired);
  command.option("--faults", arguments->faults,
                 "faults of every frame, which the page can switch on, with --cue-errors");
  arguments->alarms.declare(command);
  command.option("--score", arguments->score, "found boxes below it are left out");
  command.option("--range", arguments->range,
                 "metres from the car to the edge of the bird's-eye view; 0: the detector's");
  command.option("--out", arguments->out, "page to write, FILE.html", Presence::kRequired);
  command.run([arguments](const CommonOptions& common) { return run_view(*arguments, common); });
}

}  // namespace camber::app
