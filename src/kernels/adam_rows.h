#pragma once
#include <algorithm>

#include "camber/kernels/adam.h"
#include "kernels/vec.h"

// A step of Adam for one instruction set.
namespace camber::kernels {
namespace {

struct AdamVec {
  Vec shrink, decay, beta1, rest1, beta2, rest2, root, epsilon, factor;
};

struct AdamLanes {
  Vec parameter, mean, square;
};

inline AdamVec broadcast_step(const AdamStep& s) {
  return {broadcast(s.shrink), broadcast(s.decay), broadcast(s.beta1),   broadcast(s.rest1), broadcast(s.beta2),
          broadcast(s.rest2),  broadcast(s.root),  broadcast(s.epsilon), broadcast(s.factor)};
}

// The products that are fused are those that torch's kernels fuse, and a decay of 0 must not touch a gradient: 0 times
// an infinite parameter is NaN.
inline AdamLanes adam_lanes(const AdamVec& s, bool decays, AdamLanes at, Vec gradient) {
  const Vec parameter = mul(at.parameter, s.shrink);
  const Vec g = decays ? fma(parameter, s.decay, gradient) : gradient;
  const Vec mean = fma(g, s.rest1, mul(at.mean, s.beta1));
  const Vec square = fma(mul(s.rest2, g), g, mul(at.square, s.beta2));
  const Vec spread = add(divide(square_root(square), s.root), s.epsilon);
  return {add(parameter, divide(mul(s.factor, mean), spread)), mean, square};
}

inline void adam_step_of(const AdamStep& step, const AdamNumbers& n) {
  const AdamVec s = broadcast_step(step);
  const bool decays = step.decay != 0;
  std::int64_t i = 0;
  for (; i + kLanes <= n.count; i += kLanes) {
    const AdamLanes next =
        adam_lanes(s, decays, {load(n.parameter + i), load(n.mean + i), load(n.square + i)}, load(n.gradient + i));
    store(n.parameter + i, next.parameter);
    store(n.mean + i, next.mean);
    store(n.square + i, next.square);
  }
  if (i == n.count) return;
  const int rest = static_cast<int>(n.count - i);
  const AdamLanes next = adam_lanes(
      s, decays, {load_first(n.parameter + i, rest), load_first(n.mean + i, rest), load_first(n.square + i, rest)},
      load_first(n.gradient + i, rest));
  store_first(n.parameter + i, next.parameter, rest);
  store_first(n.mean + i, next.mean, rest);
  store_first(n.square + i, next.square, rest);
}

}  // namespace
}  // namespace camber::kernels
