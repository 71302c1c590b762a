#include "camber/nn/query_router.h"

#include "camber/random/stream.h"

namespace camber::nn {
namespace {

constexpr std::int64_t kAgreementWidth = 32;

}  // namespace

void QueryRouterOptions::validate() const {
  for (const auto& [name, size] : {std::pair{"bev_window", bev_window}, std::pair{"camera_window", camera_window}})
    TORCH_CHECK_VALUE(size % 2 == 1, "[QueryRouter] ", name, " must be odd, so that the window has a centre cell, got ",
                      size);
}

QueryRouterImpl::QueryRouterImpl(QueryRouterOptions router_options) : options(router_options) {
  options.validate();
  reset();
}

void QueryRouterImpl::reset() {
  const auto gain = [&](const char* name) { return register_parameter(name, torch::zeros({options.num_sensors})); };
  if (options.mode == RouterMode::kAgree) {
    agreement_hidden = register_module("agreement_hidden",
                                       torch::nn::Linear(2 * options.num_sensors + kAgreementNumbers, kAgreementWidth));
    agreement_content = register_module("agreement_content", torch::nn::Linear(kAgreementWidth, options.num_sensors));
    const torch::NoGradGuard guard;
    agreement_content->weight.zero_();
    agreement_content->bias.zero_();
  } else if (uses_cues(options.mode)) {
    age_gain = gain("age_gain");
    level_gain = gain("level_gain");
    offset = gain("offset");
  }
  if (!uses_content(options.mode)) return;
  local_attention = register_module("local_attention",
                                    MultiheadAttention(MultiheadAttentionOptions{.width = options.width,
                                                                                 .num_heads = options.num_heads,
                                                                                 .residual_dropout = options.dropout},
                                                       AttentionKind::kCross));
  norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width})));
  feedforward = register_module("feedforward", FeedForward(options.width, options.feedforward_width, options.dropout));
  norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width})));
  content = register_module("content", torch::nn::Linear(options.width, options.num_sensors));
  const torch::NoGradGuard guard;
  content->weight.zero_();
  content->bias.zero_();
}

std::optional<KeysAndValues> QueryRouterImpl::project_memory(const torch::Tensor& memory,
                                                             const torch::Tensor& memory_position) const {
  if (!uses_content(options.mode)) return std::nullopt;
  return local_attention->keys_and_values({.key = memory, .value = memory, .key_position = memory_position});
}

torch::Tensor QueryRouterImpl::content_logits(const RouterInputs& in) {
  const random::Stream stream(in.dropout_seed, "router");
  const auto keys =
      fixed_windows_at(in.projection, options.bev_window, options.camera_window, *in.scene, in.query_position.device());
  const auto target = torch::zeros_like(in.query_position);
  const AttentionInputs cross{target,
                              in.memory,
                              in.memory,
                              in.query_position,
                              in.memory_position,
                              in.projected_memory ? &*in.projected_memory : nullptr};
  const auto seen = norm1->forward(local_attention->forward_local(cross, keys, stream.at(0).key()));
  return content->forward(norm2->forward(feedforward->forward(seen, stream.at(1).key())));
}

void QueryRouterImpl::check_cues(const SensorCues& cues) const {
  TORCH_CHECK_VALUE(cues.age.defined() && cues.age.dim() == 2 && cues.age.size(1) == options.num_sensors &&
                        cues.level.defined() && cues.level.sizes() == cues.age.sizes(),
                    "[QueryRouter] cues must hold age and level of [B, ", options.num_sensors, "]");
}

// [B, 1, X]: one trust a frame and sensor.
torch::Tensor QueryRouterImpl::agreement_logits(const RouterInputs& in) {
  check_cues(in.cues);
  TORCH_CHECK_VALUE(
      in.agreement.defined() && in.agreement.sizes() == torch::IntArrayRef({in.cues.age.size(0), kAgreementNumbers}),
      "[QueryRouter] agreement must be [B, ", kAgreementNumbers, "] in mode agree");
  const auto known = torch::cat({0.5 - in.cues.age, in.cues.level, in.agreement}, 1);
  return agreement_content->forward(torch::relu(agreement_hidden->forward(known))).unsqueeze(1);
}

// [B, 1, X]: cues are per sensor, the same for all queries.
torch::Tensor QueryRouterImpl::cue_logits(const SensorCues& cues) const {
  check_cues(cues);
  return (age_gain * (0.5 - cues.age) + level_gain * cues.level + offset).unsqueeze(1);
}

// [B, Q, X]: which sensors see the query's position at all.
torch::Tensor QueryRouterImpl::live_sensors(const QueryProjection& projection, std::int64_t num_grids) const {
  if (projection.seen.size(2) == options.num_sensors) return projection.seen;
  if (num_grids == 0) return projection.seen.any(2, true);
  return torch::stack({projection.seen.select(2, 0), projection.seen.slice(2, 1).any(2)}, 2);
}

torch::Tensor QueryRouterImpl::forward(const RouterInputs& in) {
  if (options.mode == RouterMode::kOff) return {};
  const std::int64_t batch = in.query_position.size(0), queries = in.query_position.size(1);
  const auto shape = {batch, queries, options.num_sensors};
  if (options.mode == RouterMode::kConstant) return torch::ones(shape, in.query_position.options());
  if (options.mode == RouterMode::kOracle) {
    TORCH_CHECK_VALUE(in.labels && in.labels->sizes() == torch::IntArrayRef(shape),
                      "[QueryRouter] labels must be [B, Q, X] in mode oracle");
    return *in.labels;
  }
  auto logits = torch::zeros(shape, in.query_position.options());
  if (uses_content(options.mode)) logits = logits + content_logits(in);
  if (options.mode == RouterMode::kAgree)
    logits = logits + agreement_logits(in);
  else if (uses_cues(options.mode))
    logits = logits + cue_logits(in.cues);
  if (options.mode == RouterMode::kZeroSum) {
    const auto live =
        live_sensors(in.projection, in.scene == nullptr ? 1 : in.scene->num_grids()).to(logits.scalar_type());
    const auto mean = (logits * live).sum(2, true) / live.sum(2, true).clamp_min(1);
    logits = (logits - mean) * live;
  }
  auto trust = options.activation == WeightActivation::kTanh ? torch::tanh(logits) : torch::sigmoid(logits);
  if (options.mode == RouterMode::kShuffled)
    trust = trust.index_select(
        1, torch::tensor(random::Stream(in.shuffle_seed, "shuffle").permutation(queries)).to(trust.device()));
  return trust;
}

torch::Tensor QueryRouterImpl::supervision_loss(const torch::Tensor& trust, const torch::Tensor& labels,
                                                const torch::Tensor& foreground) {
  TORCH_CHECK_VALUE(trust.sizes() == labels.sizes(), "[QueryRouter] labels must have the shape of trust ",
                    trust.sizes(), ", got ", labels.sizes());
  const auto chosen = foreground.unsqueeze(-1).to(trust.scalar_type());
  const auto count = (chosen.sum() * static_cast<double>(trust.size(2))).clamp_min(1);
  return 0.5 * ((trust - labels).abs() * chosen).sum() / count;
}

}  // namespace camber::nn
