#include <memory>
#include <stdexcept>

#include "apps/camber/commands.h"
#include "camber/console/progress.h"
#include "camber/data/cue_separation.h"
#include "camber/data/gates.h"
#include "camber/data/splits.h"

namespace camber::app {
namespace {

struct InspectArguments {
  std::string data{}, version = "v1.0-simulated", split{};
  bool gates = false, cues = false;
};

// Frames at the size of the data set's own pictures, as far as they fit a probe.
data::FrameOptions frames_of(const data::Dataset& dataset) {
  data::FrameOptions options{.feature_stride = 1};
  for (const data::SampleData& row : dataset.tables().sample_data) {
    if (row.width < 1) continue;
    const std::int64_t shrink = row.width > 800 ? 2 : 1;
    options.picture_width = row.width / shrink;
    options.picture_height = row.height / shrink;
    break;
  }
  options.sweeps.previous = 0;
  return options;
}

int run_inspect(const InspectArguments& arguments, const CommonOptions& common) {
  if (arguments.gates == arguments.cues)
    throw std::invalid_argument("[inspect] either --gates or --cues must be given");
  const auto threads = static_cast<int>(common.threads);
  const data::Dataset dataset(arguments.data, arguments.version, threads);
  const data::Split split =
      arguments.split.empty() ? data::whole_data_set(dataset) : data::find_split(dataset, arguments.split);
  const data::FrameOptions frames = frames_of(dataset);
  const bool json = common.format == Format::kJson;
  const std::vector<data::Fault> faults = arguments.cues ? data::cue_faults() : std::vector<data::Fault>(1);
  console::Progress progress({.task = "inspect",
                              .unit = "frames",
                              .total = static_cast<std::int64_t>(split.samples.size() * faults.size()),
                              .quiet = common.quiet});
  const auto advance = [&progress](std::int64_t count) { progress.advance(count); };
  std::string answer;
  if (arguments.gates) {
    const data::GateReport report = data::inspect_gates(dataset, split.samples, frames, {}, threads, advance);
    answer = json ? data::to_json(report) : data::to_text(report);
  } else {
    const auto rows = data::cue_separation(dataset, split.samples, frames, faults, common.seed, threads, advance);
    const double milliseconds = data::cue_milliseconds(dataset, split.samples, frames);
    answer = json ? data::to_json(rows, milliseconds) : data::to_text(rows, milliseconds);
  }
  progress.finish();
  print_answer(answer);
  return kSuccess;
}

}  // namespace

void register_inspect(Command& program) {
  auto arguments = std::make_shared<InspectArguments>();
  Command& command = program.add({.name = "inspect",
                                  .summary = "look a data set over before use",
                                  .example = "camber inspect --data world --gates"});
  command.option("--data", arguments->data, "the data set's folder", Presence::kRequired);
  command.option("--version", arguments->version, "folder of its tables");
  command.option("--split", arguments->split, "only these scenes; all by default");
  command.option("--gates", arguments->gates, "can this world show trust? counts and probes without any network");
  command.option("--cues", arguments->cues, "how well the router's cues alone betray faulty sensors");
  command.run([arguments](const CommonOptions& common) { return run_inspect(*arguments, common); });
}

}  // namespace camber::app
