#include "camber/simulation/simulate.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "apps/camber/commands.h"
#include "apps/console/progress.h"
#include "camber/config/options.h"
#include "camber/json/text.h"
#include "camber/threads/tasks.h"

namespace camber::app {
namespace {

struct SimulateArguments {
  std::string out{};
  bool reference_size = false;
  simulation::SimulationOptions simulation{};
};

std::string summary_text(const simulation::SimulationSummary& summary, const std::string& out, double seconds,
                         Format format) {
  const double rate = static_cast<double>(summary.frames) / std::max(seconds, 1e-9);
  if (format == Format::kJson)
    return fmt::format(
        "{{\"out\": {}, \"scenes\": {}, \"frames\": {}, \"instances\": {}, \"annotations\": {}, \"points\": {}, "
        "\"bytes\": {}, \"seconds\": {:.3f}, \"frames_per_second\": {:.1f}}}\n",
        json::quoted(out), summary.scenes, summary.frames, summary.instances, summary.annotations, summary.points,
        summary.bytes, seconds, rate);
  return fmt::format(
      "wrote {} scenes with {} frames, {} objects and {} boxes to {}\n{:.1f} MB in {:.1f} s ({:.1f} frames a second)\n",
      summary.scenes, summary.frames, summary.instances, summary.annotations, out,
      static_cast<double>(summary.bytes) / 1e6, seconds, rate);
}

int run_simulate(SimulateArguments& arguments, const CommonOptions& common) {
  simulation::SimulationOptions& options = arguments.simulation;
  if (arguments.reference_size) {
    if (!config::differences(options.rig, simulation::RigOptions{}).empty())
      throw std::invalid_argument("[simulate] --reference-size must not be given with a rig of your own");
    options.rig = simulation::RigOptions::reference();
  }
  const int threads = threads::resolve_threads(static_cast<int>(common.threads));
  console::Progress progress(
      {.task = "simulate", .unit = "frames", .total = options.scenes * options.world.frames, .quiet = common.quiet});
  const auto start = std::chrono::steady_clock::now();
  const auto summary = simulation::simulate(options, common.seed, threads, arguments.out,
                                            [&progress](std::int64_t frames) { progress.advance(frames); });
  progress.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print_answer(summary_text(summary, arguments.out, seconds, common.format));
  return kSuccess;
}

}  // namespace

void register_simulate(Command& program) {
  auto arguments = std::make_shared<SimulateArguments>();
  Command& command = program.add({.name = "simulate",
                                  .summary = "write a simulated data set in the nuScenes v1.0 schema",
                                  .example = "camber simulate --out world --scenes 10 --seed 7"});
  command.option("--out", arguments->out, "folder to write", Presence::kRequired);
  command.option("--scenes", arguments->simulation.scenes, "scenes in all splits together");
  command.option("--reference-size", arguments->reference_size, "images of 1600 x 900 and 32 beams");
  command.configuration(arguments->simulation);
  command.run([arguments](const CommonOptions& common) { return run_simulate(*arguments, common); });
}

}  // namespace camber::app
