#include "detection/losses.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/Parallel.h>

#include "camber/detection/box_coding.h"
#include "camber/detection/matching.h"
#include "camber/nn/query_router.h"

namespace camber::detection {
namespace {

// What terms are divided by.
struct Counts {
  double queries = 0, positives = 0;  // in all, and those that were matched
  double denoising = 0;               // denoising queries that stand for an object
  double objects = 0;
  double routed = 0;  // queries whose trust has a label
};

// Matched queries of the last layer, and denoising ones of the foreground: object or -1, [B, D + Q].
torch::Tensor routed_objects(const torch::Tensor& object, const DetectorOutput& output) {
  auto matched = object.select(0, object.size(0) - 1);
  if (!output.denoising_trust.defined()) return matched;
  return torch::cat({torch::where(output.denoising.background, torch::full_like(output.denoising.object, -1),
                                  output.denoising.object),
                     matched},
                    1);
}

Counts counts_of(const torch::Tensor& object, const DetectorOutput& output, const DetectorBatch& batch) {
  const auto number = [](const torch::Tensor& of) { return static_cast<double>(of.ge(0).sum().item<std::int64_t>()); };
  Counts counts;
  if (object.defined()) {
    counts.queries = static_cast<double>(object[0].numel());
    counts.positives = number(object[0]);
  }
  if (output.denoising_logits.defined()) counts.denoising = number(output.denoising.object);
  for (const auto& targets : batch.targets) counts.objects += static_cast<double>(targets.labels.size(0));
  if (output.trust.defined()) counts.routed = number(routed_objects(object, output));
  return counts;
}

Counts over_ranks(const Counts& own, distributed::ProcessGroup* group) {
  if (group == nullptr) return own;
  const auto all = group->sum({own.queries, own.positives, own.denoising, own.objects, own.routed});
  return {.queries = all[0], .positives = all[1], .denoising = all[2], .objects = all[3], .routed = all[4]};
}

// One-hot classes and codes of the objects that queries stand for, zeros where they stand for none.
struct Wanted {
  torch::Tensor classes{}, codes{}, code_weight{};
};

Wanted wanted_of(const QueryTargets& targets, const DetectorBatch& batch, const DetectorOptions& options,
                 const torch::Tensor& logits) {
  Wanted wanted{torch::zeros(logits.sizes(), torch::kFloat),
                torch::zeros({logits.size(0), logits.size(1), logits.size(2), kCodeSize}, torch::kFloat),
                {}};
  wanted.code_weight = torch::zeros_like(wanted.codes);
  const std::int64_t layers = logits.size(0), queries = logits.size(2), classes = logits.size(3);
  const auto object = targets.object.contiguous();
  auto* hot = wanted.classes.data_ptr<float>();
  auto* codes = wanted.codes.data_ptr<float>();
  auto* weights = wanted.code_weight.data_ptr<float>();
  const auto* of = object.const_data_ptr<std::int64_t>();
  const bool* background = targets.background.defined() ? targets.background.const_data_ptr<bool>() : nullptr;
  for (std::int64_t b = 0; b < batch.size; ++b) {
    const auto& objects = batch.targets[static_cast<std::size_t>(b)];
    const auto true_codes = encode_boxes(objects.boxes, options.head.box_code).contiguous();
    const auto* truth = true_codes.const_data_ptr<float>();
    const auto* labels = objects.labels.const_data_ptr<std::int64_t>();
    for (std::int64_t l = 0; l < layers; ++l)
      for (std::int64_t q = 0; q < queries; ++q) {
        const std::int64_t row = (l * batch.size + b) * queries + q, g = of[row];
        if (g < 0) continue;
        if (background == nullptr || !background[b * queries + q]) hot[row * classes + labels[g]] = 1;
        for (std::int64_t i = 0; i < kCodeSize; ++i) {
          if (i >= kVelocityIndex && !std::isfinite(truth[g * kCodeSize + i])) continue;
          codes[row * kCodeSize + i] = truth[g * kCodeSize + i];
          weights[row * kCodeSize + i] = static_cast<float>(options.loss.code_weights[static_cast<std::size_t>(i)]);
        }
      }
  }
  return wanted;
}

// What the errors [..., 10] cost, before their weights: L1, and squares below code_smoothing.
torch::Tensor code_costs(const torch::Tensor& errors, const std::vector<double>& smoothing) {
  auto size = errors.abs();
  if (std::ranges::all_of(smoothing, [](double below) { return below == 0; })) return size;
  const auto below = torch::tensor(smoothing, torch::kDouble).to(errors.options().requires_grad(false));
  // Where below is 0 the second branch holds for every error; the divisor keeps the first one's gradient finite.
  const auto squared = errors.square() / (2 * torch::where(below > 0, below, torch::ones_like(below)));
  return torch::where(size < below, squared, size - below / 2);
}

void add_layers(Losses& losses, const std::string& prefix, const LayerLosses& layers) {
  for (std::int64_t l = 0; l < layers.classes.size(0); ++l) {
    losses.terms.emplace_back(prefix + "class_" + std::to_string(l), layers.classes[l]);
    losses.terms.emplace_back(prefix + "box_" + std::to_string(l), layers.boxes[l]);
  }
}

void add_matched(Losses& losses, const torch::Tensor& object, const DetectorOutput& output, const DetectorBatch& batch,
                 const DetectorOptions& options, const Counts& counts) {
  const double positives = counts.positives;
  const double class_divisor = options.loss.class_normalizer == ClassNormalizer::kObjects
                                   ? std::max(1.0, positives)
                                   : std::max(1.0, positives + 0.1 * (counts.queries - positives));
  add_layers(losses, "",
             query_losses(output.class_logits, output.codes, {.object = object}, batch, options, class_divisor,
                          std::max(1.0, positives)));
}

void add_denoising(Losses& losses, const DetectorOutput& output, const DetectorBatch& batch,
                   const DetectorOptions& options, double total) {
  const auto& denoising = output.denoising;
  // The share of the noise's cube that lies within the ball of true classes, pi / 6 * r^3, with the digits of pi that
  // CMT takes where its losses are wanted.
  const double radius = options.loss.denoising.background_beyond;
  const double pi = options.loss.class_normalizer == ClassNormalizer::kCmt ? 3.14159 : std::numbers::pi;
  const double share = radius * radius >= 3 ? 1 : pi / 6 * radius * radius * radius;
  auto layers = query_losses(output.denoising_logits, output.denoising_codes,
                             {.object = denoising.object.unsqueeze(0).expand({output.class_logits.size(0), -1, -1}),
                              .background = denoising.background,
                              .ignored = denoising.object < 0},
                             batch, options, std::max(1.0, total * share), std::max(1.0, total));
  layers.classes = layers.classes * options.loss.denoising_weight;
  layers.boxes = layers.boxes * options.loss.denoising_weight;
  add_layers(losses, "denoising_", layers);
}

// Labels of the queries that stand for objects.
torch::Tensor router_loss(const torch::Tensor& of, const DetectorOutput& output, const DetectorBatch& batch) {
  auto trust = output.trust;
  if (output.denoising_trust.defined()) trust = torch::cat({output.denoising_trust, trust}, 1);
  auto labels = torch::zeros(trust.sizes(), trust.options().device(torch::kCPU).requires_grad(false));
  for (std::int64_t b = 0; b < batch.size; ++b) {
    const auto& wanted = batch.targets[static_cast<std::size_t>(b)].trust;
    if (wanted.size(0) == 0) continue;
    const auto chosen = wanted.index_select(0, of[b].clamp_min(0)).to(labels.scalar_type());
    labels[b].select(1, 0).copy_(chosen.select(1, 0));
    labels[b].slice(1, 1).copy_(chosen.slice(1, 1).expand({-1, labels.size(2) - 1}));
  }
  return nn::QueryRouterImpl::supervision_loss(trust, labels.to(trust.device()), (of >= 0).to(trust.device()));
}

}  // namespace

torch::Tensor focal_loss(const torch::Tensor& logits, const torch::Tensor& targets, double alpha, double gamma) {
  const auto score = torch::sigmoid(logits);
  // |t - p|^gamma weighs both cases; softplus(x) - t x is the cross-entropy.
  const auto miss = targets + score - 2 * targets * score;
  const auto weight = (1 - alpha) + (2 * alpha - 1) * targets;
  const auto entropy = torch::softplus(logits) - targets * logits;
  return weight * (gamma == 2 ? miss.square() : miss.pow(gamma)) * entropy;
}

torch::Tensor match_batch(const DetectorOutput& output, const DetectorBatch& batch, const DetectorOptions& options) {
  const std::int64_t layers = output.class_logits.size(0), queries = output.class_logits.size(2);
  auto object = torch::full({layers, batch.size, queries}, -1, torch::kLong);
  // Matching is the host's: two copies for all layers.
  const auto logits = output.class_logits.detach().cpu(), codes = output.codes.detach().cpu();
  auto* found = object.data_ptr<std::int64_t>();
  at::parallel_for(0, layers * batch.size, 1, [&](std::int64_t begin, std::int64_t end) {
    const torch::NoGradGuard no_grad;  // of this thread
    for (std::int64_t i = begin; i < end; ++i) {
      const auto& targets = batch.targets[static_cast<std::size_t>(i % batch.size)];
      if (targets.labels.size(0) == 0) continue;
      const auto of_query = match(logits[i / batch.size][i % batch.size], codes[i / batch.size][i % batch.size],
                                  targets.labels, encode_boxes(targets.boxes, options.head.box_code), options.loss);
      std::copy_n(of_query.const_data_ptr<std::int64_t>(), queries, found + i * queries);
    }
  });
  return object;
}

LayerLosses query_losses(const torch::Tensor& logits, const torch::Tensor& codes, const QueryTargets& targets,
                         const DetectorBatch& batch, const DetectorOptions& options, double class_divisor,
                         double box_divisor) {
  const auto wanted = wanted_of(targets, batch, options, logits);
  const auto type = logits.options().requires_grad(false), code_type = codes.options().requires_grad(false);
  auto classes = focal_loss(logits, wanted.classes.to(type), options.loss.focal_alpha, options.loss.focal_gamma);
  if (targets.ignored.defined()) classes = classes * targets.ignored.logical_not().unsqueeze(0).unsqueeze(-1).to(type);
  const auto boxes =
      code_costs(codes - wanted.codes.to(code_type), options.loss.code_smoothing) * wanted.code_weight.to(code_type);
  return {classes.sum({1, 2, 3}) * (options.loss.class_weight / class_divisor),
          boxes.sum({1, 2, 3}) * (options.loss.box_weight / box_divisor)};
}

Losses detector_losses(const DetectorOutput& output, const DetectorBatch& batch, const DetectorOptions& options,
                       distributed::ProcessGroup* group) {
  TORCH_CHECK_VALUE(static_cast<std::int64_t>(batch.targets.size()) == batch.size,
                    "[Detector] losses need the true objects of every frame (", batch.size, "), got those of ",
                    batch.targets.size());
  Losses losses;
  const bool decoded = output.class_logits.defined();
  const auto object = decoded ? match_batch(output, batch, options) : torch::Tensor{};
  const Counts own = counts_of(object, output, batch), counts = over_ranks(own, group);
  if (decoded) add_matched(losses, object, output, batch, options, counts);
  if (output.denoising_logits.defined()) add_denoising(losses, output, batch, options, counts.denoising);
  if (output.grid_logits.defined()) {
    const auto dense = dense_losses(output, batch, options, counts.objects);
    losses.terms.emplace_back("dense_grid", dense.grid * options.loss.dense_weight);
    losses.terms.emplace_back("dense_camera", dense.cameras * options.loss.dense_weight);
  }
  if (output.grid_motion.defined())
    losses.terms.emplace_back("dense_motion",
                              dense_motion_loss(output, batch, options, counts.objects) * options.loss.dense_weight);
  if (decoded && options.router.mode == nn::RouterMode::kSupervised) {
    // supervision_loss is the mean over the rank's own queries, with the factor 0.5 of its definition, which the weight
    // replaces.
    const double share = std::max(1.0, own.routed) / std::max(1.0, counts.routed);
    losses.terms.emplace_back("router", router_loss(routed_objects(object, output), output, batch) *
                                            (options.loss.router_weight / 0.5 * share));
  }
  return losses;
}

DenseLosses dense_losses(const DetectorOutput& output, const DetectorBatch& batch, const DetectorOptions& options,
                         double objects) {
  const auto layout = batch.scene.layout();
  const std::int64_t grid_keys = layout.maps[0].keys(), classes = options.num_classes();
  auto wanted = torch::zeros({batch.size, layout.keys(), classes}, torch::kFloat);
  auto counts = torch::zeros({batch.size, layout.keys(), 1}, torch::kFloat);
  auto* hot = wanted.data_ptr<float>();
  const auto sound = (batch.available & (batch.quality > 0)).contiguous();
  for (std::int64_t b = 0; b < batch.size; ++b) {
    const auto& targets = batch.targets[static_cast<std::size_t>(b)];
    for (std::size_t m = 0; m < layout.maps.size(); ++m)
      if (sound.const_data_ptr<bool>()[b * sound.size(1) + static_cast<std::int64_t>(m)])
        counts[b].narrow(0, layout.maps[m].first_key, layout.maps[m].keys()).fill_(1);
    nn::SensorScene own{.grid = batch.scene.grid};
    if (!batch.scene.cameras.empty()) own.cameras.push_back(batch.scene.cameras[static_cast<std::size_t>(b)]);
    auto centres = targets.boxes.narrow(1, 0, 3), labels = targets.labels;
    if (targets.outside_labels.defined()) {
      centres = torch::cat({centres, targets.outside_centres});
      labels = torch::cat({labels, targets.outside_labels});
    }
    const auto placed = nn::project_queries(centres.unsqueeze(0), own);
    const auto* cell = placed.cell.const_data_ptr<std::int64_t>();
    for (std::int64_t g = 0; g < labels.size(0); ++g)
      for (const auto& map : layout.maps) {
        const std::int64_t column = *cell++, row = *cell++;
        if (column < 0) continue;
        const std::int64_t key = b * layout.keys() + map.first_key + row * map.columns + column;
        hot[key * classes + labels.const_data_ptr<std::int64_t>()[g]] = 1;
      }
  }
  const double divisor = std::max(1.0, objects);
  const auto part = [&](const torch::Tensor& logits, std::int64_t from) {
    const auto loss =
        focal_loss(logits, wanted.narrow(1, from, logits.size(1)).to(logits.options().requires_grad(false)),
                   options.loss.focal_alpha, options.loss.focal_gamma);
    return (loss * counts.narrow(1, from, logits.size(1)).to(loss.options().requires_grad(false))).sum() *
           (options.loss.class_weight / divisor);
  };
  return {part(output.grid_logits, 0), part(output.camera_logits, grid_keys)};
}

torch::Tensor dense_motion_loss(const DetectorOutput& output, const DetectorBatch& batch,
                                const DetectorOptions& options, double objects) {
  constexpr std::int64_t kNumbers = kCodeSize - kHeadingIndex;
  const auto& grid = batch.scene.grid;
  const auto sound = (batch.available & (batch.quality > 0)).select(1, 0).contiguous();
  std::vector<std::int64_t> keys;
  std::vector<float> wanted, weights;
  for (std::int64_t b = 0; b < batch.size; ++b) {
    if (!sound.const_data_ptr<bool>()[b]) continue;
    const auto codes =
        encode_boxes(batch.targets[static_cast<std::size_t>(b)].boxes, options.head.box_code).contiguous();
    for (std::int64_t g = 0; g < codes.size(0); ++g) {
      const float* code = codes.const_data_ptr<float>() + g * kCodeSize;
      const auto at = grid.cell_at(code[0], code[1]);
      if (!at) continue;
      keys.push_back((b * grid.rows() + at->row) * grid.columns() + at->column);
      for (std::int64_t i = kHeadingIndex; i < kCodeSize; ++i) {
        const bool unknown = i >= kVelocityIndex && !std::isfinite(code[i]);
        wanted.push_back(unknown ? 0 : code[i]);
        weights.push_back(unknown ? 0 : static_cast<float>(options.loss.code_weights[static_cast<std::size_t>(i)]));
      }
    }
  }
  const auto type = output.grid_motion.options().requires_grad(false);
  const auto count = static_cast<std::int64_t>(keys.size());
  const auto rows = [&](const std::vector<float>& of) { return torch::tensor(of).view({count, kNumbers}).to(type); };
  const auto found =
      output.grid_motion.flatten(0, 1).index_select(0, torch::tensor(keys, torch::kLong).to(type.device()));
  const auto& all = options.loss.code_smoothing;
  const auto costs = code_costs(found - rows(wanted), {all.begin() + kHeadingIndex, all.end()}) * rows(weights);
  return costs.sum() * (options.loss.box_weight / std::max(1.0, objects));
}

}  // namespace camber::detection
