#include "support/attention_runs.h"

#include <torch/csrc/autograd/autograd.h>

#include "camber/random/stream.h"
#include "support/comparison.h"

namespace camber::proof {

ops::AttentionOutput attend(const AttentionTestInputs& in, ops::Implementation implementation, bool statistics,
                            ops::AttentionReport* report) {
  auto options = in.options;
  options.implementation = implementation;
  options.statistics = statistics;
  return ops::biased_attention(in.q, in.k, in.v, in.bias, options, report);
}

std::vector<std::pair<std::string, at::Tensor>> named_statistics(const ops::AttentionOutput& output) {
  const auto& s = *output.statistics;
  std::vector<std::pair<std::string, at::Tensor>> all = {
      {"entropy", s.entropy}, {"largest_weight", s.largest_weight}, {"sum_of_squares", s.sum_of_squares},
      {"change", s.change},   {"divergence", s.divergence},         {"keys_left", s.keys_left}};
  if (s.segment_mass.defined()) all.emplace_back("segment_mass", s.segment_mass);
  return all;
}

::testing::AssertionResult close_statistics(const ops::AttentionOutput& actual, const ops::AttentionOutput& expected,
                                            double tolerance) {
  const auto seen = named_statistics(actual), wanted = named_statistics(expected);
  if (seen.size() != wanted.size()) return ::testing::AssertionFailure() << seen.size() << " of " << wanted.size();
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (auto found = close(seen[i].second.cpu(), wanted[i].second.cpu(), tolerance); !found)
      return found << " in " << wanted[i].first;
  return ::testing::AssertionSuccess();
}

at::Tensor loss_of(const ops::AttentionOutput& out) {
  const auto weight = [](const at::Tensor& t, const char* name) {
    auto stream = random::Stream(5, name);
    auto w = at::empty(t.sizes(), at::kDouble);
    for (std::int64_t i = 0; i < w.numel(); ++i) w.data_ptr<double>()[i] = stream.normal();
    return w.to(t.device());
  };
  const auto lse = out.logsumexp.to(at::kDouble);
  const auto alive = lse.detach().ne(-kInfinity);
  return (out.output.to(at::kDouble) * weight(out.output, "output")).sum() +
         at::where(alive, lse, at::zeros_like(lse)).mul(weight(lse, "logsumexp")).sum();
}

std::vector<at::Tensor> gradients_of(const AttentionTestInputs& in, ops::Implementation implementation, bool of_mask) {
  auto leaves = in.with_gradients();
  if (!of_mask && leaves.options.masks.attn_mask) leaves.options.masks.attn_mask = in.options.masks.attn_mask;
  std::vector<at::Tensor> inputs;
  for (const auto& [name, tensor] : leaves.differentiable())
    if (tensor.requires_grad()) inputs.push_back(tensor);
  return torch::autograd::grad({loss_of(attend(leaves, implementation))}, inputs, {}, std::nullopt, false, true);
}

}  // namespace camber::proof
