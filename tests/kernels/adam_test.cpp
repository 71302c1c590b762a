#include "camber/kernels/adam.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/guarded_memory.h"

// The step of Adam against its definition in double, on every instruction set, at the end of memory.
namespace camber::kernels::test {
namespace {

class GuardedFloats {
 public:
  GuardedFloats(std::int64_t count, float first, float step)
      : memory_(static_cast<std::size_t>(count) * sizeof(float), true), count_(count) {
    for (std::int64_t i = 0; i < count; ++i) data()[i] = first + step * static_cast<float>((i * 7) % 23 - 11);
  }
  float* data() const { return reinterpret_cast<float*>(memory_.data()); }
  std::vector<double> values() const { return {data(), data() + count_}; }

 private:
  GuardedMemory memory_;
  std::int64_t count_;
};

void expect_definition(Isa isa, std::int64_t count, const AdamStep& s) {
  const GuardedFloats parameter(count, 0.1F, 0.3F), gradient(count, -0.2F, 0.11F), mean(count, 0.01F, 0.02F),
      square(count, 0.5F, 0.04F);
  const auto p = parameter.values(), g = gradient.values(), m = mean.values(), v = square.values();
  adam_step(s, {parameter.data(), gradient.data(), mean.data(), square.data(), count}, isa);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double shrunk = p[i] * s.shrink, slope = g[i] + s.decay * shrunk;
    const double mean_now = s.beta1 * m[i] + s.rest1 * slope, square_now = s.beta2 * v[i] + s.rest2 * slope * slope;
    const double moved = shrunk + s.factor * mean_now / (std::sqrt(square_now) / s.root + s.epsilon);
    EXPECT_NEAR(mean.values()[i], mean_now, 2e-7) << isa_name(isa) << " of " << count << " at " << i;
    EXPECT_NEAR(square.values()[i], square_now, 5e-7) << isa_name(isa) << " of " << count << " at " << i;
    EXPECT_NEAR(parameter.values()[i], moved, 1e-6) << isa_name(isa) << " of " << count << " at " << i;
  }
}

TEST(AdamStep, IsItsDefinitionOnEveryInstructionSetAndTouchesNothingBeyond) {
  AdamStep decoupled{.shrink = 0.998F,
                     .beta1 = 0.9F,
                     .rest1 = 0.1F,
                     .beta2 = 0.99F,
                     .rest2 = 0.01F,
                     .root = 0.3F,
                     .epsilon = 1e-8F,
                     .factor = -0.02F};
  AdamStep coupled = decoupled;
  coupled.shrink = 1;
  coupled.decay = 0.05F;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
    if (!isa_supported(isa)) continue;
    for (const std::int64_t count : {1, 3, 4, 7, 8, 15, 16, 17, 33, 1000}) {
      expect_definition(isa, count, decoupled);
      expect_definition(isa, count, coupled);
    }
  }
}

}  // namespace
}  // namespace camber::kernels::test
