#include "camber/kernels/sparse_convolution.h"

#include <memory>
#include <string>

#include "camber/random/stream.h"
#include "kernels/attention_run.h"
#include "kernels/closeness.h"
#include "kernels/guarded_memory.h"

namespace camber::kernels::test {
namespace {

std::uint16_t rounded_to_bfloat(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
float from_bfloat(std::uint16_t x) {
  const std::uint32_t bits = std::uint32_t{x} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Random lists: of every tap, a share of the rows of `to`, each with any row of `from`.
struct ConvolutionCase {
  std::int64_t taps = 3, from_rows = 90, to_rows = 700, from_width = 16, to_width = 16;
  double share = 0.4;
  ElementType type = ElementType::float32;

  std::string name() const {
    return std::to_string(from_width) + " to " + std::to_string(to_width) + ", " + std::to_string(to_rows) + " rows" +
           (type == ElementType::bfloat16 ? ", bfloat16" : "");
  }
};

struct ConvolutionData {
  ConvolutionCase size;
  std::vector<std::int32_t> from, to;
  std::vector<std::int64_t> offsets;
  std::vector<float> x, weight, transposed, grad;  // transposed: [from_width, taps, to_width]
  std::vector<std::uint16_t> short_x, short_weight;

  explicit ConvolutionData(const ConvolutionCase& c) : size(c) {
    random::Stream draw(7, c.name());
    for (std::int64_t tap = 0; tap < c.taps; ++tap) {
      for (std::int64_t row = 0; row < c.to_rows; ++row) {
        if (row % kPairBlock == 0) offsets.push_back(static_cast<std::int64_t>(to.size()));
        if (!draw.chance(tap == 1 ? 1.0 : c.share)) continue;
        from.push_back(static_cast<std::int32_t>(draw.integer(static_cast<std::uint64_t>(c.from_rows))));
        to.push_back(static_cast<std::int32_t>(row));
      }
      offsets.push_back(static_cast<std::int64_t>(to.size()));
    }
    const auto fill = [&](std::vector<float>& values, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i)
        values.push_back(from_bfloat(rounded_to_bfloat(static_cast<float>(draw.normal()))));
    };
    fill(x, c.from_rows * c.from_width);
    fill(weight, c.to_width * c.taps * c.from_width);
    fill(grad, c.to_rows * c.to_width);
    for (const float v : x) short_x.push_back(rounded_to_bfloat(v));
    for (const float v : weight) short_weight.push_back(rounded_to_bfloat(v));
    for (std::int64_t i = 0; i < c.from_width; ++i)
      for (std::int64_t tap = 0; tap < c.taps; ++tap)
        for (std::int64_t o = 0; o < c.to_width; ++o) transposed.push_back(weight_at(o, tap, i));
  }

  float weight_at(std::int64_t o, std::int64_t tap, std::int64_t i) const {
    return weight[static_cast<std::size_t>((o * size.taps + tap) * size.from_width + i)];
  }
  // visit(tap, from, to)
  template <class Visit>
  void for_pairs(const Visit& visit) const {
    const std::int64_t stride = (size.to_rows + kPairBlock - 1) / kPairBlock + 1;
    for (std::int64_t tap = 0; tap < size.taps; ++tap)
      for (std::int64_t pair = offsets[static_cast<std::size_t>(tap * stride)];
           pair < offsets[static_cast<std::size_t>((tap + 1) * stride - 1)]; ++pair)
        visit(tap, from[static_cast<std::size_t>(pair)], to[static_cast<std::size_t>(pair)]);
  }
  ConvolutionProblem problem() const {
    const bool is_short = size.type == ElementType::bfloat16;
    return {.taps = size.taps,
            .from_rows = size.from_rows,
            .to_rows = size.to_rows,
            .from_width = size.from_width,
            .to_width = size.to_width,
            .type = size.type,
            .x = is_short ? static_cast<const void*>(short_x.data()) : x.data(),
            .weight = is_short ? static_cast<const void*>(short_weight.data()) : weight.data(),
            .transposed = false,
            .pairs = {from.data(), to.data(), offsets.data()},
            .parallel = {}};
  }
};

struct ConvolutionReference {
  std::vector<double> output, gradient;

  explicit ConvolutionReference(const ConvolutionData& d)
      : output(static_cast<std::size_t>(d.size.to_rows * d.size.to_width)), gradient(d.weight.size()) {
    const ConvolutionCase& c = d.size;
    d.for_pairs([&](std::int64_t tap, std::int64_t from, std::int64_t to) {
      for (std::int64_t o = 0; o < c.to_width; ++o)
        for (std::int64_t i = 0; i < c.from_width; ++i) {
          const double value = d.x[static_cast<std::size_t>(from * c.from_width + i)];
          output[static_cast<std::size_t>(to * c.to_width + o)] += d.weight_at(o, tap, i) * value;
          gradient[static_cast<std::size_t>((o * c.taps + tap) * c.from_width + i)] +=
              d.grad[static_cast<std::size_t>(to * c.to_width + o)] * value;
        }
    });
  }
};

struct ConvolutionRun {
  std::vector<float> output, gradient;

  bool operator==(const ConvolutionRun&) const = default;
};

ConvolutionRun run_convolution(const ConvolutionData& data, const ConvolutionProblem& problem, Isa isa) {
  ConvolutionRun r;
  r.output.assign(static_cast<std::size_t>(problem.to_rows * problem.to_width), kNan);
  if (problem.type == ElementType::bfloat16) {
    std::vector<std::uint16_t> output(r.output.size(), 0x7FC0);
    convolve(problem, output.data(), isa);
    std::transform(output.begin(), output.end(), r.output.begin(), from_bfloat);
    return r;
  }
  convolve(problem, r.output.data(), isa);
  r.gradient.assign(data.weight.size(), kNan);
  convolution_weight_gradient(problem, data.grad.data(), r.gradient.data(), isa);
  return r;
}

// Widths below, at and beyond vectors, panels and rounds of gathered channels.
std::vector<ConvolutionCase> convolution_cases() {
  std::vector<ConvolutionCase> cases;
  for (const auto& [from, to] : {std::pair{1, 1}, {5, 16}, {16, 16}, {16, 33}, {31, 7}, {64, 48}, {130, 20}, {20, 140}})
    cases.push_back({.from_width = from, .to_width = to});
  for (const auto& [from, to] : {std::pair{1, 1}, {5, 16}, {31, 40}, {64, 33}, {270, 9}})
    cases.push_back({.from_width = from, .to_width = to, .type = ElementType::bfloat16});
  for (const std::int64_t rows : {1, 63, 64, 65, 1100}) cases.push_back({.taps = 2, .to_rows = rows});
  cases.push_back({.taps = 27, .share = 0.01});
  return cases;
}

TEST(SparseConvolutionKernels, AgreeWithTheDefinition) {
  for (const auto& c : convolution_cases()) {
    const ConvolutionData data(c);
    const ConvolutionReference expected(data);
    const bool rounded = c.type == ElementType::bfloat16;
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(c.name() + " " + isa_name(isa));
      const ConvolutionRun found = run_convolution(data, data.problem(), isa);
      expect_close(found.output, expected.output, (rounded ? 0x1p-8 : 1e-6) * largest(expected.output), "output");
      if (rounded) continue;
      expect_close(found.gradient, expected.gradient, 1e-6 * largest(expected.gradient), "gradient");
      // By the transposed weight, with the same pairs.
      ConvolutionProblem turned = data.problem();
      turned.weight = data.transposed.data();
      turned.transposed = true;
      EXPECT_EQ(run_convolution(data, turned, isa).output, found.output);
    }
  }
}

TEST(SparseConvolutionKernels, BitsDoNotDependOnThreads) {
  const ConvolutionData data({.taps = 9, .to_rows = 3000, .from_width = 20, .to_width = 70});
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(isa_name(isa));
    ConvolutionProblem problem = data.problem();
    const ConvolutionRun one = run_convolution(data, problem, isa);
    for (const std::int64_t slots : {2, 3, 8}) {
      problem.parallel = threads(slots);
      EXPECT_EQ(run_convolution(data, problem, isa), one);
    }
  }
}

// More rows than a part of the gradient holds.
TEST(SparseConvolutionKernels, GradientsOfManyRowsAreSummedInParts) {
  const ConvolutionData data({.taps = 2, .to_rows = 9000, .from_width = 4, .to_width = 3});
  const ConvolutionReference expected(data);
  for (const Isa isa : supported_isas())
    expect_close(run_convolution(data, data.problem(), isa).gradient, expected.gradient,
                 1e-6 * largest(expected.gradient), isa_name(isa));
}

TEST(SparseConvolutionKernels, ProblemsOfSizeZeroAreFine) {
  for (const ConvolutionCase& c :
       {ConvolutionCase{.taps = 0}, ConvolutionCase{.to_rows = 0}, ConvolutionCase{.from_width = 0},
        ConvolutionCase{.to_width = 0}, ConvolutionCase{.taps = 1, .share = 0}}) {
    const ConvolutionData data(c);
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(c.name() + " " + isa_name(isa));
      const ConvolutionRun found = run_convolution(data, data.problem(), isa);
      for (const float x : found.output) EXPECT_EQ(x, 0);
      for (const float x : found.gradient) EXPECT_EQ(x, 0);
    }
  }
}

// Every array between pages that may not be touched.
TEST(SparseConvolutionKernels, NothingOutsideTheArraysIsTouched) {
  for (const auto& c : convolution_cases())
    for (const Isa isa : supported_isas())
      for (const bool at_end : {false, true}) {
        SCOPED_TRACE(c.name() + " " + isa_name(isa));
        const ConvolutionData data(c);
        std::vector<std::unique_ptr<GuardedMemory>> memory;
        const auto copy = [&]<class T>(const std::vector<T>& values) {
          memory.push_back(std::make_unique<GuardedMemory>(values.size() * sizeof(T), at_end));
          if (!values.empty()) std::memcpy(memory.back()->data(), values.data(), values.size() * sizeof(T));
          return reinterpret_cast<T*>(memory.back()->data());
        };
        ConvolutionProblem problem = data.problem();
        problem.pairs = {copy(data.from), copy(data.to), copy(data.offsets)};
        std::vector<float> output(static_cast<std::size_t>(c.to_rows * c.to_width));
        if (c.type == ElementType::bfloat16) {
          problem.x = copy(data.short_x);
          problem.weight = copy(data.short_weight);
          convolve(problem, copy(std::vector<std::uint16_t>(output.size())), isa);
          continue;
        }
        problem.x = copy(data.x);
        problem.weight = copy(data.weight);
        convolve(problem, copy(output), isa);
        convolution_weight_gradient(problem, copy(data.grad), copy(data.weight), isa);
        problem.weight = copy(data.transposed);
        problem.transposed = true;
        convolve(problem, copy(output), isa);
      }
}

}  // namespace
}  // namespace camber::kernels::test
