#pragma once
#include "camber/kernels/norm_relu.h"
#include "kernels/vec.h"

// The loops of norm_relu for one instruction set: vectors of channels, and of each all rows.
namespace camber::kernels {
namespace {

inline Vec channels_at(const float* p, int lanes) {
  return lanes == kLanes ? load(p) : load_first(p, lanes);
}

// Calls at(channel, lanes) for every vector of channels.
template <class At>
inline void for_channels(std::int64_t channels, const At& at) {
  std::int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) at(c, kLanes);
  if (c < channels) at(c, static_cast<int>(channels - c));
}

inline void to_double(Vec sum, int lanes, double* to) {
  float values[kLanes];
  store(values, sum);
  for (int i = 0; i < lanes; ++i) to[i] = static_cast<double>(values[i]);
}

inline void norm_moments_of(const NormPart& part, const float* reference, double* sums) {
  for_channels(
      part.channels,
      [&](std::int64_t c, int lanes) {
        const Vec from = channels_at(reference + c, lanes);
        Vec sum = zero(), square = zero();
        const float* x = part.input + c;
        for (std::int64_t row = 0; row < part.rows; ++row, x += part.channels) {
          const Vec apart = sub(channels_at(x, lanes), from);
          sum = add(sum, apart);
          square = fma(apart, apart, square);
        }
        to_double(sum, lanes, sums + c);
        to_double(square, lanes, sums + part.channels + c);
      });
}

// The line of one vector of channels.
struct LineVec {
  Vec slope, offset;

  LineVec(const NormLine& line, std::int64_t channel, int lanes)
      : slope(channels_at(line.slope + channel, lanes)), offset(channels_at(line.offset + channel, lanes)) {}
  Vec rectified(Vec x) const { return max(zero(), fma(slope, x, offset)); }
  // A NaN is no 0: its gradient stays.
  Vec passed(Vec x, Vec gradient) const { return where_equal(rectified(x), 0, zero(), gradient); }
};

inline void norm_relu_of(const NormPart& part, const NormLine& line, float* output) {
  for_channels(
      part.channels,
      [&](std::int64_t c, int lanes) {
        const LineVec at(line, c, lanes);
        for (std::int64_t row = 0, i = c; row < part.rows; ++row, i += part.channels)
          store_first(output + i, at.rectified(channels_at(part.input + i, lanes)), lanes);
      });
}

inline void norm_relu_sums_of(const NormPart& part, const NormLine& line, const float* gradient, const float* mean,
                              double* sums) {
  for_channels(
      part.channels,
      [&](std::int64_t c, int lanes) {
        const LineVec at(line, c, lanes);
        const Vec m = channels_at(mean + c, lanes);
        Vec sum = zero(), product = zero();
        for (std::int64_t row = 0, i = c; row < part.rows; ++row, i += part.channels) {
          const Vec x = channels_at(part.input + i, lanes), g = at.passed(x, channels_at(gradient + i, lanes));
          sum = add(sum, g);
          product = fma(g, sub(x, m), product);
        }
        to_double(sum, lanes, sums + c);
        to_double(product, lanes, sums + part.channels + c);
      });
}

inline void norm_relu_gradient_of(const NormPart& part, const NormLine& line, const float* gradient,
                                  const NormSpread& spread, float* result) {
  for_channels(
      part.channels,
      [&](std::int64_t c, int lanes) {
        const LineVec at(line, c, lanes);
        const Vec m = channels_at(spread.mean + c, lanes), constant = channels_at(spread.constant + c, lanes),
                  linear = channels_at(spread.linear + c, lanes);
        for (std::int64_t row = 0, i = c; row < part.rows; ++row, i += part.channels) {
          const Vec x = channels_at(part.input + i, lanes), g = at.passed(x, channels_at(gradient + i, lanes));
          store_first(result + i, fma(at.slope, g, fma(linear, sub(x, m), constant)), lanes);
        }
      });
}

}  // namespace
}  // namespace camber::kernels
