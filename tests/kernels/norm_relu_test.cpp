#include "camber/kernels/norm_relu.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/guarded_memory.h"

// Batch norm and ReLU against their definition in double, on every instruction set, at the end of memory.
namespace camber::kernels::test {
namespace {

class GuardedMap {
 public:
  GuardedMap(std::int64_t count, float first, float step)
      : memory_(static_cast<std::size_t>(count) * sizeof(float), true), count_(static_cast<std::size_t>(count)) {
    for (std::size_t i = 0; i < count_; ++i) data()[i] = first + step * static_cast<float>((i * 7) % 23);
  }
  float* data() const { return reinterpret_cast<float*>(memory_.data()); }
  double operator[](std::int64_t i) const { return static_cast<double>(data()[i]); }

 private:
  GuardedMemory memory_;
  std::size_t count_;
};

struct Sums {
  explicit Sums(std::int64_t channels) : values(static_cast<std::size_t>(2 * channels), NAN) {}
  double operator[](std::int64_t i) const { return values[static_cast<std::size_t>(i)]; }
  std::vector<double> values;
};

void expect_definition(Isa isa, std::int64_t rows, std::int64_t channels) {
  const std::int64_t count = rows * channels;
  const GuardedMap x(count, -1, 0.1F), gradient(count, -0.4F, 0.03F), mean(channels, 0.1F, 0.01F),
      slope(channels, -0.6F, 0.11F), offset(channels, 0.2F, -0.02F), linear(channels, -0.1F, 0.01F);
  const GuardedMap y(count, 0, 0), result(count, 0, 0);
  const NormPart part{x.data(), rows, channels};
  Sums moments(channels), sums(channels);
  norm_moments(part, mean.data(), moments.values.data(), isa);
  const NormLine line{slope.data(), offset.data()};
  norm_relu(part, line, y.data(), isa);
  norm_relu_sums(part, line, gradient.data(), mean.data(), sums.values.data(), isa);
  norm_relu_gradient(part, line, gradient.data(), {mean.data(), offset.data(), linear.data()}, result.data(), isa);
  for (std::int64_t c = 0; c < channels; ++c) {
    double apart = 0, square = 0, sum = 0, product = 0;
    for (std::int64_t i = c; i < count; i += channels) {
      const double from = x[i] - mean[c], g = y[i] == 0 ? 0 : gradient[i];
      apart += from;
      square += from * from;
      sum += g;
      product += g * from;
      EXPECT_NEAR(y[i], std::fmax(0, slope[c] * x[i] + offset[c]), 1e-6);
      EXPECT_NEAR(result[i], slope[c] * g + offset[c] + linear[c] * from, 1e-6);
    }
    const double allowed = 1e-6 * static_cast<double>(rows);
    EXPECT_NEAR(moments[c], apart, allowed) << isa_name(isa) << ", " << rows << " x " << channels;
    EXPECT_NEAR(moments[channels + c], square, allowed) << isa_name(isa) << ", " << rows << " x " << channels;
    EXPECT_NEAR(sums[c], sum, allowed) << isa_name(isa) << ", " << rows << " x " << channels;
    EXPECT_NEAR(sums[channels + c], product, allowed) << isa_name(isa) << ", " << rows << " x " << channels;
  }
}

TEST(NormRelu, IsItsDefinitionOnEveryInstructionSetAndTouchesNothingBeyond) {
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
    if (!isa_supported(isa)) continue;
    for (const std::int64_t channels : {1, 3, 4, 8, 15, 16, 24, 33, 64})
      for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{5}, kNormRows})
        expect_definition(isa, rows, channels);
  }
}

}  // namespace
}  // namespace camber::kernels::test
