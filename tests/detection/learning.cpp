// Trains the small detector on a simulated data set and evaluates it clean and under faults:
//   detector_learning DATA [--steps N] [--seed N] [--router MODE] [--option TOML=VALUE ...]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <numbers>

#include "camber/config/options.h"
#include "camber/data/splits.h"
#include "camber/detection/detector.h"
#include "camber/eval/detection_metrics.h"
#include "camber/train/optimizer_groups.h"
#include "camber/train/scale_projector.h"

namespace {

using namespace camber;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Recipe {
  std::int64_t steps = 1400, seed = 1, batch = 4, limit = 200, overfit = 0;
  double learning_rate = 2e-3, rotation = 180, scale = 0.05, ema = 0;
  bool flip = true, profile = false;
  std::string split = "val", faults = "none,lidar_off,cameras_off,camera_off:1,limited_view,beams:3,dark";
  std::string kinds = "recipe";
  double fault_share = 0.5;
  detection::DetectorOptions detector = detection::DetectorOptions::small();

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("steps", steps, "training steps");
    visitor("seed", seed, "seed");
    visitor("batch", batch, "frames a step");
    visitor("limit", limit, "frames evaluated");
    visitor("overfit", overfit, "train on so many frames, without faults, and evaluate on the same");
    visitor("learning_rate", learning_rate, "peak");
    visitor("rotation", rotation, "augmentation");
    visitor("scale", scale, "augmentation");
    visitor("ema", ema, "decay of averaged weights");
    visitor("flip", flip, "augmentation");
    visitor("profile", profile, "print the time of each part");
    visitor("split", split, "what is evaluated");
    visitor("faults", faults, "what is evaluated");
    visitor("kinds", kinds, "recipe or study");
    visitor("fault_share", fault_share, "share of training frames with a fault");
    visitor("detector", detector, "the model");
  }
};

double learning_rate_at(const Recipe& recipe, std::int64_t step) {
  const double warm = 0.1 * static_cast<double>(recipe.steps), at = static_cast<double>(step);
  if (at < warm) return recipe.learning_rate * (at + 1) / warm;
  const double share = (at - warm) / (static_cast<double>(recipe.steps) - warm);
  return recipe.learning_rate * 0.5 * (1 + std::cos(std::numbers::pi * share));
}

data::LoaderOptions loader_options(const Recipe& recipe) {
  data::LoaderOptions options;
  options.frame = recipe.detector.frame_options();
  options.batch_size = recipe.batch;
  options.faults.share = recipe.overfit > 0 ? 0 : recipe.fault_share;
  if (recipe.kinds == "recipe") {
    options.faults.kinds = {"lidar_off", "cameras_off", "camera_off", "limited_view", "beams", "dark"};
    options.faults.weights = {0.45, 0.25, 0.08, 0.08, 0.08, 0.06};
    options.faults.max_severity = 4;
  }
  options.augmentation = data::AugmentationOptions::none();
  options.augmentation.flip = recipe.flip;
  options.augmentation.rotation = recipe.rotation;
  options.augmentation.scale_min = 1 - recipe.scale;
  options.augmentation.scale_max = 1 + recipe.scale;
  return options;
}

// So many samples of a split, evenly spread.
data::Split every(data::Split split, std::int64_t count) {
  const auto stride = std::max<std::size_t>(1, split.samples.size() / static_cast<std::size_t>(count));
  std::vector<data::Index> chosen;
  for (std::size_t i = 0; i < split.samples.size() && std::cmp_less(chosen.size(), count); i += stride)
    chosen.push_back(split.samples[i]);
  split.samples = chosen;
  return split;
}

double evaluate(detection::Detector& detector, const Recipe& recipe, const data::Dataset& dataset,
                const data::Split& split, const std::string& fault) {
  auto options = loader_options(recipe);
  options.augmentation = data::AugmentationOptions::none();
  options.faults.share = 0;
  options.fixed_faults = fault == "none" ? std::vector<std::string>{} : std::vector<std::string>{fault};
  options.shuffle = false;
  options.epochs = 1;
  options.batch_size = 4;
  const data::Split part = every(split, recipe.limit);
  const torch::NoGradGuard guard;
  detector->eval();
  eval::SampleBoxes boxes;
  data::Loader loader(dataset, part.samples, options, 0, 2);
  while (auto loaded = loader.next()) {
    const auto batch = detection::collate(*loaded, recipe.detector);
    const auto found = detector->decode(detector->forward(batch), batch);
    for (std::size_t b = 0; b < found.size(); ++b) {
      detection::add_sample(boxes, std::string(dataset.tables().sample[batch.origins[b].sample].token), found[b],
                            batch.origins[b].reference, recipe.detector);
    }
  }
  detector->train();
  const auto config = eval::EvaluationConfig::read(std::string(std::getenv("CAMBER_SOURCE")) + "/configs/evaluation/world.json");
  auto pairs = eval::pair_boxes(&part, &dataset, eval::load_ground_truth(dataset, part), std::move(boxes));
  eval::filter_boxes(&dataset, config, "the results", pairs.predictions);
  eval::filter_boxes(&dataset, config, "the ground truth", pairs.truth);
  const auto evaluation = eval::evaluate(pairs, config, 2);
  double present = 0, sum = 0;
  const std::size_t thresholds = config.distance_thresholds.size();
  for (std::size_t c = 0; c < evaluation.metrics.classes.size(); ++c)
    if (evaluation.matches[c * thresholds].positives > 0) {
      present += 1;
      sum += evaluation.metrics.classes[c].mean_average_precision;
    }
  std::printf("%-22s mAP %.3f present %.3f NDS %.3f |", fault.c_str(), evaluation.metrics.mean_ap,
              sum / std::max(1.0, present), evaluation.metrics.nd_score);
  for (const auto& of_class : evaluation.metrics.classes) {
    std::printf(" %s", std::string(eval::name_of(of_class.label)).substr(0, 5).c_str());
    for (const double value : of_class.average_precisions) std::printf(" %.2f", value);
  }
  std::printf(" | ATE %.2f AVE %.2f\n", evaluation.metrics.tp_errors[0], evaluation.metrics.tp_errors[3]);
  std::fflush(stdout);
  return evaluation.metrics.mean_ap;
}

// Share of the cells with the highest scores of a class, as many as hold one, that do hold one.
void probe_cells(detection::Detector& detector, const Recipe& recipe, const data::Dataset& dataset,
                 const data::Split& split) {
  auto options = loader_options(recipe);
  options.augmentation = data::AugmentationOptions::none();
  options.faults.share = 0;
  options.epochs = 1;
  const torch::NoGradGuard guard;
  detector->train();
  for (const auto& module : detector->modules(false))
    if (auto* norm = module->as<torch::nn::BatchNorm2d>()) norm->eval();
  data::Loader loader(dataset, split.samples, options, 0, 2);
  std::vector<torch::Tensor> grid, cameras, grid_truth, camera_truth;
  for (int i = 0; i < 25; ++i) {
    const auto batch = detection::collate(*loader.next(), recipe.detector);
    const auto output = detector->forward(batch, {.denoising = false});
    const auto layout = batch.scene.layout();
    auto truth = torch::zeros({batch.size, layout.keys(), 4});
    for (std::int64_t b = 0; b < batch.size; ++b) {
      const auto& t = batch.targets[static_cast<std::size_t>(b)];
      const auto placed = nn::place_queries(t.boxes.narrow(1, 0, 3).unsqueeze(0), {batch.scene.grid, {batch.scene.cameras[static_cast<std::size_t>(b)]}});
      for (std::int64_t g = 0; g < t.labels.size(0); ++g)
        for (std::size_t m = 0; m < layout.maps.size(); ++m) {
          const auto c = placed.cell[0][g][static_cast<std::int64_t>(m)];
          if (c[0].item<std::int64_t>() < 0) continue;
          truth[b][layout.maps[m].first_key + c[1].item<std::int64_t>() * layout.maps[m].columns + c[0].item<std::int64_t>()][t.labels[g].item<std::int64_t>()] = 1;
        }
    }
    grid.push_back(output.grid_logits.reshape({-1, 4}));
    cameras.push_back(output.camera_logits.reshape({-1, 4}));
    grid_truth.push_back(truth.narrow(1, 0, 1024).reshape({-1, 4}));
    camera_truth.push_back(truth.narrow(1, 1024, layout.keys() - 1024).reshape({-1, 4}));
  }
  for (const bool of_grid : {true, false}) {
    const auto logits = torch::cat(of_grid ? grid : cameras), truth = torch::cat(of_grid ? grid_truth : camera_truth);
    std::printf("%s cells:", of_grid ? "grid" : "camera");
    for (std::int64_t c = 0; c < 4; ++c) {
      const auto positives = truth.select(1, c).sum().item<std::int64_t>();
      const auto top = std::get<1>(logits.select(1, c).topk(positives));
      const auto any = truth.sum(1).clamp_max(1).index_select(0, top).mean().item<double>();
      std::printf(" %s %.2f (any class %.2f of %ld)", recipe.detector.classes[static_cast<std::size_t>(c)].c_str(),
                  truth.select(1, c).index_select(0, top).mean().item<double>(), any, positives);
    }
    std::printf("\n");
  }
}

struct Times {
  double data = 0, collate = 0, forward = 0, loss = 0, backward = 0, optimiser = 0;
};

void train_detector(detection::Detector& detector, const Recipe& recipe, const data::Dataset& dataset,
           const data::Split& split) {
  train::OptimizerGroupsOptions rules{.scale_lr_mult = detection::kScaleLearningRate};
  for (const auto& rule : detection::parameter_rules(recipe.detector))
    rules.rules.push_back({rule.pattern, rule.learning_rate, rule.decay});
  const train::OptimizerGroups groups(*detector, rules);
  auto optimizer = groups.make_optimizer({.learning_rate = recipe.learning_rate, .weight_decay = 0.01});
  train::ScaleProjector projector(*detector);
  data::Loader loader(dataset, split.samples, loader_options(recipe), static_cast<std::uint64_t>(recipe.seed), 2);
  const auto start = Clock::now();
  Times times;
  std::vector<torch::Tensor> average;
  std::map<std::string, double> shown;
  for (std::int64_t step = 0; step < recipe.steps; ++step) {
    auto tick = Clock::now();
    const auto lap = [&](double& sum) {
      sum += seconds_since(tick);
      tick = Clock::now();
    };
    const auto loaded = loader.next();
    lap(times.data);
    const auto batch = detection::collate(*loaded, recipe.detector);
    lap(times.collate);
    groups.set_learning_rate(*optimizer, learning_rate_at(recipe, step));
    optimizer->zero_grad();
    const auto output = detector->forward(batch, {.seed = static_cast<std::uint64_t>(recipe.seed), .step = step});
    lap(times.forward);
    const auto losses = detector->losses(output, batch);
    lap(times.loss);
    losses.total.backward();
    lap(times.backward);
    train::clip_grad_norm(*optimizer, 35);
    projector.step(*optimizer);
    if (recipe.ema > 0) {
      const torch::NoGradGuard guard;
      const double decay = std::min(recipe.ema, (1.0 + static_cast<double>(step)) / (10.0 + static_cast<double>(step)));
      const auto parameters = detector->parameters();
      if (average.empty())
        for (const auto& p : parameters) average.push_back(p.detach().clone());
      for (std::size_t i = 0; i < parameters.size(); ++i) average[i].lerp_(parameters[i], 1 - decay);
    }
    lap(times.optimiser);
    for (const auto& [name, value] : losses.terms) shown[name] = 0.98 * shown[name] + 0.02 * value.item<double>();
    if ((step + 1) % 100 == 0) {
      std::printf("step %ld %.1f s total %.3f:", step + 1, seconds_since(start), losses.total.item<double>());
      for (const auto& [name, value] : losses.terms) std::printf(" %s %.3f", name.c_str(), shown[name]);
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  const double n = 1e3 / static_cast<double>(recipe.steps);
  std::printf("ms a step: data %.1f collate %.1f forward %.1f loss %.1f backward %.1f optimiser %.1f\n", times.data * n,
              times.collate * n, times.forward * n, times.loss * n, times.backward * n, times.optimiser * n);
  if (!average.empty()) {
    const torch::NoGradGuard guard;
    const auto parameters = detector->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].data().copy_(average[i]);
  }
  for (const auto& scale : projector.scales())
    std::printf("scale %s %.3f\n", scale.name.c_str(), scale.scale->raw().mean().item<double>());
}

}  // namespace

int main(int argc, char** argv) {
  torch::set_num_threads(2);
  std::vector<std::string> arguments(argv + 2, argv + argc);
  const auto recipe = config::load<Recipe>({.arguments = arguments}, Recipe{});
  const data::Dataset dataset(argv[1], "v1.0-simulated");
  detection::Detector detector(recipe.detector, static_cast<std::uint64_t>(recipe.seed));
  std::int64_t count = 0;
  for (const auto& p : detector->parameters()) count += p.numel();
  std::printf("%ld parameters\n", count);
  detector->train();
  auto learned = data::find_split(dataset, "train");
  if (recipe.overfit > 0) learned = every(learned, recipe.overfit);
  train_detector(detector, recipe, dataset, learned);
  const auto split = recipe.overfit > 0 ? learned : data::find_split(dataset, recipe.split);
  if (recipe.profile) probe_cells(detector, recipe, dataset, split);
  std::stringstream list(recipe.faults);
  for (std::string fault; std::getline(list, fault, ',');) evaluate(detector, recipe, dataset, split, fault);
}
