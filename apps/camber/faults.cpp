#include <memory>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/camber/commands.h"
#include "apps/console/progress.h"
#include "camber/sensors/cue_errors.h"
#include "camber/sensors/fault_copy.h"

namespace camber::app {
namespace {

struct FaultsArguments {
  std::string data{}, version = "v1.0-simulated", split{}, faults{}, out{};
  bool list = false;
};

std::string tables_json() {
  using Json = nlohmann::ordered_json;
  Json faults = Json::array(), cue_errors = Json::array();
  for (const sensors::FaultRow& row : sensors::fault_table())
    faults.push_back({{"name", row.name},
                      {"sensor", row.sensor},
                      {"known", row.known},
                      {"parameter", row.parameter},
                      {"values", row.value},
                      {"quality", row.quality},
                      {"meaning", row.meaning}});
  for (const sensors::CueErrorRow& row : sensors::cue_error_table())
    cue_errors.push_back({{"name", row.name}, {"parameter", row.parameter}, {"meaning", row.meaning}});
  return Json{{"faults", faults}, {"cue_errors", cue_errors}}.dump() + "\n";
}

int run_faults(const FaultsArguments& arguments, const CommonOptions& common) {
  if (arguments.list) {
    print_answer(common.format == Format::kJson
                     ? tables_json()
                     : sensors::fault_table_markdown() + "\n" + sensors::cue_error_table_markdown());
    return kSuccess;
  }
  for (const auto& [name, value] :
       {std::pair{"--data", &arguments.data}, {"--faults", &arguments.faults}, {"--out", &arguments.out}})
    if (value->empty()) throw std::invalid_argument(fmt::format("[faults] {} is required (or --list)", name));
  sensors::refuse_cue_errors(arguments.faults, "[faults] --faults", "a copy of a data set has no cues");
  const std::vector<sensors::Fault> faults = sensors::parse_faults(arguments.faults);
  if (faults.empty())
    throw std::invalid_argument("[faults] --faults must name at least one fault, got '" + arguments.faults + "'");
  const auto threads = static_cast<int>(common.threads);
  const nuscenes::Dataset dataset(arguments.data, arguments.version, threads);
  const nuscenes::Split split =
      arguments.split.empty() ? nuscenes::whole_data_set(dataset) : nuscenes::find_split(dataset, arguments.split);
  console::Progress progress({.task = "faults",
                              .unit = "frames",
                              .total = static_cast<std::int64_t>(dataset.tables().sample.size()),
                              .quiet = common.quiet});
  const sensors::FaultCopySummary summary =
      sensors::write_faulted_copy(dataset, split, faults, common.seed, threads, arguments.out,
                                  [&progress](std::int64_t frames) { progress.advance(frames); });
  progress.finish();
  if (common.format == Format::kJson)
    print_answer(fmt::format("{{\"frames\": {}, \"changed_files\": {}, \"linked_files\": {}, \"bytes\": {}}}\n",
                             summary.samples, summary.changed_files, summary.linked_files, summary.bytes));
  else
    print_answer(fmt::format("{} frames met {}: {} files changed ({:.1f} MB), {} linked, in {}\n", summary.samples,
                             arguments.faults, summary.changed_files, static_cast<double>(summary.bytes) / 1e6,
                             summary.linked_files, arguments.out));
  return kSuccess;
}

}  // namespace

void register_faults(Command& program) {
  auto arguments = std::make_shared<FaultsArguments>();
  Command& command = program.add({.name = "faults",
                                  .summary = "write a copy of a data set in which sensors failed",
                                  .example = "camber faults --list"});
  command.option("--data", arguments->data, "the data set's folder");
  command.option("--version", arguments->version, "folder of its tables");
  command.option("--split", arguments->split, "only these scenes fail; all by default");
  command.option("--faults", arguments->faults,
                 "list such as frozen:4:other_scene:false_timestamps,beams:3; severities 1 to 5, 3 by default");
  command.option("--out", arguments->out, "folder to write");
  command.option("--list", arguments->list,
                 "print every fault with its parameters and stated quality, and every error of the cues");
  command.run([arguments](const CommonOptions& common) { return run_faults(*arguments, common); });
}

}  // namespace camber::app
