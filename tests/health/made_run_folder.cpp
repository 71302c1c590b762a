#include "health/made_run_folder.h"

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "camber/drawing/canvas.h"
#include "camber/health/monitor.h"
#include "camber/health/sink.h"
#include "camber/random/stream.h"
#include "camber/storage/atomic_file.h"

namespace camber::health {
namespace {

Metrics loss_metrics(std::int64_t step, random::Stream noise) {
  const auto progress = static_cast<double>(step);
  const double classes = 1.5 * std::exp(-progress / 300) + 0.3 + 0.05 * noise.normal();
  const double boxes = 2.5 * std::exp(-progress / 500) + 0.5 + 0.08 * noise.normal();
  return {{"loss/total", classes + boxes},
          {"loss/class_2", classes},
          {"loss/box_2", boxes},
          {"learning_rate", 2e-3 * (1 - progress / 1e6)},
          {"gradient_norm", 1 + std::abs(noise.normal())},
          {"seconds_a_step", 0.31 + 0.01 * noise.normal()}};
}

std::string metrics_of(double quality) {
  return fmt::format(
      R"({{"mean_ap": {:.4f}, "nd_score": {:.4f}, "tp_errors": {{"trans_err": {:.3f}, "scale_err": 0.21, "orient_err": 0.64, "vel_err": 0.52, "attr_err": 1.0}}, "label_aps": {{"car": {{"0.5": {:.3f}, "1.0": 0.5, "2.0": 0.62, "4.0": 0.7}}, "pedestrian": {{"0.5": 0.2, "1.0": 0.31, "2.0": 0.42, "4.0": {:.3f}}}}}, "mean_dist_aps": {{"car": {:.3f}, "pedestrian": {:.3f}}}}})",
      quality, quality * 0.95 + 0.02, 0.7 - quality / 2, quality * 0.7, quality, quality * 1.1, quality * 0.8);
}

std::string result_of() {
  return "{\"clean\": " + metrics_of(0.52) + ", \"faults\": {\"frozen:4\": " + metrics_of(0.33) +
         ", \"stale:4\": " + metrics_of(0.41) + ", \"black:1\": " + metrics_of(0.29) +
         "}, \"mean_resilience\": 0.68}\n";
}

std::string curves_of() {
  std::string text = "{";
  for (const std::string label : {"car", "pedestrian"})
    for (const std::string distance : {"0.5", "1.0", "2.0", "4.0"}) {
      if (text.size() > 1) text += ", ";
      text += fmt::format("\"{}:{}\": {{\"recall\": [", label, distance);
      for (int i = 0; i <= 100; ++i) text += fmt::format("{}{:.2f}", i > 0 ? "," : "", i / 100.);
      text += "], \"precision\": [";
      const double knee = std::stod(distance) / 8 + (label == "car" ? 0.35 : 0.2);
      for (int i = 0; i <= 100; ++i)
        text += fmt::format("{}{:.4f}", i > 0 ? "," : "", 1 / (1 + std::exp((i / 100. - knee) * 12)));
      text += "]}";
    }
  return text + "}\n";
}

void draw_images(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const std::string name : {"right_01", "wrong_01"}) {
    drawing::Canvas canvas(360, 240, {24, 26, 30});
    const std::vector<drawing::Position> corners = {{60, 60}, {160, 50}, {170, 110}, {70, 120}};
    canvas.polygon(corners, {.colour = drawing::series_colour(name == "right_01" ? 2 : 1), .width = 3});
    canvas.text({10, 10}, name, drawing::kWhite, 2);
    storage::write_file(folder / (name + ".png"), encode_png(canvas));
  }
  storage::write_file(folder / "captions.json",
                      "{\"right_01.png\": \"right: every car found, cameras frozen, trust is biased to the LiDAR\", "
                      "\"wrong_01.png\": \"wrong: a pedestrian behind a truck is missed\"}\n");
}

}  // namespace

Findings write_made_run(const std::filesystem::path& folder, const MadeFolderOptions& options) {
  double seconds = 1.7e9;
  const auto clock = [&seconds] { return seconds; };
  MetricsSink sink(folder, {.clock = clock});
  HealthMonitor monitor({.interval = options.interval});
  std::int64_t stop = options.resumed ? options.steps / 2 : 0;
  Findings said;
  const random::Stream noise(options.run.seed, "loss");
  for (std::int64_t step = 1; step <= options.steps; ++step, seconds += 0.31) {
    Metrics metrics;
    if (step % options.loss_interval == 0) metrics = loss_metrics(step, noise.at(static_cast<std::uint64_t>(step)));
    if (monitor.due(step)) {
      const MadeSample made(options.run, step);
      HealthReport report = monitor.observe(made.sample);
      metrics.insert(metrics.end(), report.metrics.begin(), report.metrics.end());
      for (const Finding& finding : report.findings) sink.say(finding), said.push_back(finding);
    }
    if (!metrics.empty()) sink.write(step, metrics);
    if (step % 100 == 0) {
      const double share = 1 - std::exp(-static_cast<double>(step) / 300);
      sink.write(step, {{"validation/mean_ap", 0.55 * share}, {"validation/nd_score", 0.5 * share}});
    }
    if (step == stop) {
      step -= 30;
      stop = 0;
      sink = MetricsSink(folder, {.clock = clock, .resume_step = step});
      monitor = HealthMonitor({.interval = options.interval});
      monitor.replay(read_records(folder / "metrics.jsonl"));
    }
  }
  storage::write_file(folder / "config.toml",
                      fmt::format("seed = {}  # of every named random stream\n\n[loop]\nsteps = {}\n\n[health]\n"
                                  "interval = {}\n",
                                  options.run.seed, options.steps, options.interval));
  storage::write_file(folder / "environment.json",
                      "{\"version\": \"0.1.0\", \"torch\": \"2.13.0\", \"processor\": \"made up\", \"threads\": 2}\n");
  if (!options.finished) return said;
  storage::write_file(folder / "result.json", result_of());
  storage::write_file(folder / "curves.json", curves_of());
  draw_images(folder / "images");
  return said;
}

}  // namespace camber::health
