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

  GridInputs(const GridCell& c, std::uint64_t seed) {
    const auto rows = [&](const char* name, std::int64_t count) {
      return drawn(c, seed, name, {c.batch, count, c.heads, c.width}).transpose(1, 2);
    };
    q = rows("q", c.queries);
    k = rows("k", c.keys);
    v = rows("v", c.keys);
    gradient = rows("gradient", c.queries);
    if (c.bias == "mask" || c.bias == "learned_mask") mask = drawn(c, seed, "mask", {1, 1, c.queries, c.keys});
  }
};

Call empty_call(const GridCell& cell, const GridInputs& in) {
  const bool learns = cell.pass == "training";
  Call call{.leaves = {leaf(in.q, learns), leaf(in.k, learns), leaf(in.v, learns)}, .run = {}, .gradient = in.gradient};
  if (cell.bias == "learned_mask") call.leaves.push_back(leaf(in.mask, learns));
  return call;
}

std::optional<at::Tensor> mask_of(const Call& call, const GridInputs& in) {
  if (call.leaves.size() > 3) return call.leaves[3];
  return in.mask.defined() ? std::optional(in.mask) : std::nullopt;
}

Call our_call(const GridCell& cell, const GridInputs& in) {
  Call call = empty_call(cell, in);
  const ops::AttentionOptions options{.masks = {.attn_mask = mask_of(call, in)}};
  call.run = [x = call.leaves, options] {
    return Tensors{ops::biased_attention(x[0], x[1], x[2], {}, options).output};
  };
  return call;
}

Call their_call(const GridCell& cell, const GridInputs& in) {
  Call call = empty_call(cell, in);
  call.run = [x = call.leaves, mask = mask_of(call, in)] {
    return Tensors{at::scaled_dot_product_attention(x[0], x[1], x[2], mask)};
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
