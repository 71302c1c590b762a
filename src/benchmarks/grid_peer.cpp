#include "benchmarks/grid_peer.h"

#include <map>
#include <optional>
#include <stdexcept>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "benchmarks/attention_call.h"
#include "camber/ops/biased_attention.h"
#include "camber/random/stream.h"

namespace camber::benchmarks {
namespace {

const std::map<std::string, at::ScalarType>& grid_types() {
  static const std::map<std::string, at::ScalarType> all = {
      {"float32", at::kFloat}, {"bfloat16", at::kBFloat16}, {"half", at::kHalf}};
  return all;
}

at::Tensor drawn(const GridCell& cell, std::uint64_t seed, const char* name, at::IntArrayRef shape) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(random::Stream(seed, std::string("grid.") + name).key());
  return at::empty(shape, at::kFloat).normal_(0, 1, generator).to(grid_types().at(cell.type));
}

// What both sides take. Rows [B, rows, H, D] seen as [B, H, rows, D]: what a projection gives.
struct GridInputs {
  at::Tensor q, k, v, gradient, mask;
  at::Tensor table, places;  // learned values by offset, and positions [N, n]

  GridInputs(const GridCell& c, std::uint64_t seed) {
    const auto rows = [&](const char* name, std::int64_t count) {
      return drawn(c, seed, name, {c.batch, count, c.heads, c.width}).transpose(1, 2);
    };
    q = rows("q", c.queries);
    k = rows("k", c.keys);
    v = rows("v", c.keys);
    gradient = rows("gradient", c.queries);
    if (c.bias == "mask" || c.bias == "learned_mask") mask = drawn(c, seed, "mask", {1, 1, c.queries, c.keys});
    if (c.bias == "pair") mask = drawn(c, seed, "mask", {1, c.heads, c.queries, c.keys});
    if (c.bias == "swin") {
      table = drawn(c, seed, "table", {c.heads, 13, 13});
      places = at::stack({at::arange(49).floor_divide(7), at::arange(49).remainder(7)}, 1);
    }
    if (c.bias == "t5") {
      table = drawn(c, seed, "table", {c.heads, 255});
      places = at::arange(c.keys).unsqueeze(1);
    }
  }
};

Call empty_call(const GridCell& cell, const GridInputs& in) {
  const bool learns = cell.pass == "training";
  Call call{.leaves = {leaf(in.q, learns), leaf(in.k, learns), leaf(in.v, learns)}, .run = {}, .gradient = in.gradient};
  if (cell.bias == "learned_mask" || cell.bias == "pair") call.leaves.push_back(leaf(in.mask, learns));
  if (in.table.defined()) call.leaves.push_back(leaf(in.table, learns));
  return call;
}

std::optional<at::Tensor> mask_of(const Call& call, const GridInputs& in) {
  if (!in.mask.defined()) return std::nullopt;
  return call.leaves.size() > 3 ? call.leaves[3] : in.mask;
}

// Which entry of the flat table each (query, key) takes, [Q * K]: made once, as the models do.
at::Tensor flat_offsets(const at::Tensor& table, const at::Tensor& places) {
  at::Tensor flat;
  for (std::int64_t d = 1; d < table.dim(); ++d) {
    const std::int64_t reach = table.size(d) / 2;
    const auto of = places.select(1, d - 1);
    const auto offset = (of.unsqueeze(0) - of.unsqueeze(1)).clamp(-reach, reach) + reach;
    flat = flat.defined() ? flat * table.size(d) + offset : offset;
  }
  return flat.flatten();
}

Call our_call(const GridCell& cell, const GridInputs& in) {
  Call call = empty_call(cell, in);
  ops::AttentionOptions options{.masks = {.attn_mask = mask_of(call, in)}};
  if (cell.bias == "causal") options.masks.row_lengths = at::arange(1, cell.queries + 1).unsqueeze(0);
  call.run = [x = call.leaves, options, places = in.places] {
    const auto bias =
        places.defined() ? ops::StructuredBias::from_offsets(x[3], places, places) : ops::StructuredBias{};
    return Tensors{ops::biased_attention(x[0], x[1], x[2], bias, options).output};
  };
  return call;
}

Call their_call(const GridCell& cell, const GridInputs& in) {
  Call call = empty_call(cell, in);
  const bool causal = cell.bias == "causal";
  const auto offsets = in.table.defined() ? flat_offsets(in.table, in.places) : at::Tensor{};
  call.run = [x = call.leaves, mask = mask_of(call, in), causal, offsets] {
    auto added = mask;
    if (offsets.defined())
      added = x[3].flatten(1).index_select(1, offsets).view({1, x[0].size(1), x[0].size(2), x[1].size(2)});
    return Tensors{at::scaled_dot_product_attention(x[0], x[1], x[2], added, 0.0, causal)};
  };
  return call;
}

void require_agreement(const GridCell& cell, const Call& ours, const Call& theirs) {
  const at::NoGradGuard no_gradient;
  const auto a = ours.run()[0].to(at::kFloat), b = theirs.run()[0].to(at::kFloat);
  const double tolerance = cell.type == "float32" ? 1e-4 : 3e-2;
  const auto error = (a - b).abs().max().item<double>(), largest = b.abs().max().item<double>();
  if (!(error <= tolerance * largest))
    throw std::runtime_error("[bench grid] both sides of '" + cell.name() +
                             "' must compute the same, got a difference of " + std::to_string(error) +
                             " in values up to " + std::to_string(largest));
}

}  // namespace

bool known_type(const std::string& type) {
  return grid_types().contains(type);
}

GridRuns grid_runs(const GridCell& cell, std::uint64_t seed) {
  const GridInputs inputs(cell, seed);
  const Call ours = our_call(cell, inputs), theirs = their_call(cell, inputs);
  require_agreement(cell, ours, theirs);
  const char* pass = cell.pass == "training" ? kBoth : kForward;
  return {.ours = ready_run(ours, pass), .theirs = ready_run(theirs, pass)};
}

}  // namespace camber::benchmarks
