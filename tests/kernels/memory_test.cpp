#include <memory>

#include "kernels/attention_run.h"
#include "kernels/closeness.h"
#include "kernels/guarded_memory.h"

namespace camber::kernels::test {
namespace {

// Every input and output of a case in guarded memory of its own.
class GuardedProblem {
 public:
  GuardedProblem(const CaseData& data, bool at_end) : at_end_(at_end), problem(data.problem) {
    AttentionProblem& p = problem;
    const bool full = p.type == ElementType::float32;
    p.q.data = full ? copy(data.q) : static_cast<const void*>(copy(data.q16));
    p.k.data = full ? copy(data.k) : static_cast<const void*>(copy(data.k16));
    p.v.data = full ? copy(data.v) : static_cast<const void*>(copy(data.v16));
    if (p.windows.row_offsets != nullptr) {
      p.windows.row_offsets = copy(data.row_offsets);
      p.windows.key_index = copy(data.key_index);
      p.windows.value = copy(data.window_value);
    }
    if (p.segments.offsets != nullptr) p.segments.offsets = copy(data.segment_offsets);
    if (p.segments.value != nullptr) p.segments.value = copy(data.segment_value);
    if (p.table.value != nullptr) {
      p.table.value = copy(data.table_value);
      p.table.index = copy(p.table.index, static_cast<std::int64_t>(data.table_index.size()));
      p.table.query_code = copy(p.table.query_code, static_cast<std::int64_t>(data.query_code.size()));
      p.table.key_code = copy(p.table.key_code, static_cast<std::int64_t>(data.key_code.size()));
    }
    if (p.mask.data != nullptr) p.mask.data = copy(data.mask);
    if (p.key_lengths != nullptr) p.key_lengths = copy(data.key_lengths);
    if (p.row_lengths.data != nullptr) p.row_lengths.data = copy(data.row_lengths);
    p.segments.available = copy(p.segments.available, p.batches * p.segments.count);
    p.key_padding = copy(p.key_padding, p.batches * p.keys);
    p.blocked.data = copy(p.blocked.data, mask_size(p, p.blocked.strides));
  }

  template <class T>
  T* room(std::int64_t count) {
    memory_.push_back(std::make_unique<GuardedMemory>(static_cast<std::size_t>(count) * sizeof(T), at_end_));
    return reinterpret_cast<T*>(memory_.back()->data());
  }
  template <class T>
  T* copy(const std::vector<T>& from) {
    return copy(from.data(), static_cast<std::int64_t>(from.size()));
  }
  template <class T>
  T* copy(const T* from, std::int64_t count) {
    if (from == nullptr) return nullptr;
    T* to = room<T>(count);
    if (count > 0) std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
    return to;
  }
  static std::int64_t mask_size(const AttentionProblem& p, const Strides& s) {
    return (s.batch == 0 ? 1 : p.batches) * (s.head == 0 ? 1 : p.heads) * p.queries * p.keys;
  }

 private:
  bool at_end_;
  std::vector<std::unique_ptr<GuardedMemory>> memory_;

 public:
  AttentionProblem problem;
};

void run_guarded(const CaseData& data, Isa isa, bool at_end) {
  GuardedProblem guarded(data, at_end);
  AttentionProblem& p = guarded.problem;
  const std::int64_t rows = data.rows();
  const Strides out{p.heads * p.queries * p.value_width, p.queries * p.value_width, p.value_width};
  ForwardResult result{guarded.room<float>(rows * p.value_width), out, guarded.room<float>(rows), {}};
  const bool full = p.type == ElementType::float32;
  if (!full) result.output = guarded.room<std::uint16_t>(rows * p.value_width);
  forward(p, result, isa);
  result.statistics = {guarded.room<float>(rows),       guarded.room<float>(rows),
                       guarded.room<float>(rows),       guarded.room<float>(rows * p.segments.count),
                       guarded.room<float>(rows),       guarded.room<float>(rows),
                       guarded.room<std::int64_t>(rows)};
  forward(p, result, isa);
  const void* grad_output =
      full ? guarded.copy(data.grad_output) : static_cast<const void*>(guarded.copy(data.grad_output16));
  const BackwardInput input{
      {result.output, out}, result.logsumexp, {grad_output, out}, guarded.copy(data.grad_logsumexp)};
  Gradients gradients;
  const auto strides = [&](std::int64_t count, std::int64_t width) {
    return Strides{p.heads * count * width, count * width, width};
  };
  gradients.q = {guarded.room<float>(rows * p.key_width), strides(p.queries, p.key_width)};
  gradients.k = {guarded.room<float>(p.batches * p.heads * p.keys * p.key_width), strides(p.keys, p.key_width)};
  gradients.v = {guarded.room<float>(p.batches * p.heads * p.keys * p.value_width), strides(p.keys, p.value_width)};
  if (p.windows.row_offsets != nullptr)
    gradients.window_value = guarded.room<float>(p.windows.heads * p.windows.entries);
  if (p.segments.value != nullptr)
    gradients.segment_value = guarded.room<float>(p.batches * p.segments.heads * p.queries * p.segments.count);
  if (p.table.value != nullptr) gradients.table_value = guarded.room<float>(p.table.heads * p.table.size);
  if (p.mask.data != nullptr)
    gradients.mask = {guarded.room<float>(GuardedProblem::mask_size(p, p.mask.strides)), p.mask.strides};
  backward(p, input, gradients, isa);
}

TEST(Memory, NothingOutsideTheArraysIsTouched) {
  std::vector<Case> cases = feature_cases();
  for (const Case& c : forward_cases())
    if (c.magnitude == 1 && c.queries < 30) cases.push_back(c);
  for (const Case& c : cases) {
    const CaseData data(c);
    for (const Isa isa : supported_isas())
      for (const bool at_end : {false, true}) {
        SCOPED_TRACE(c.name + " " + isa_name(isa));
        run_guarded(data, isa, at_end);
      }
  }
}

// Rows megabytes apart and batches gigabytes apart: offsets beyond 32 bits.
TEST(Memory, StridesMayBeHuge) {
  const Case c{.name = "huge", .batches = 2, .heads = 2, .queries = 5, .keys = 9, .key_width = 16, .value_width = 16};
  const CaseData data(c);
  constexpr std::int64_t kRow = 1 << 18, kHead = 1ll << 24, kBatch = 3ll << 30;
  const std::size_t bytes = static_cast<std::size_t>(kBatch + 2 * kHead) * sizeof(float);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "the system does not reserve " << bytes << " bytes of address space";
  auto* far = static_cast<float*>(memory);
  AttentionProblem p = data.problem;
  const Strides near = p.k.strides;
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t j = 0; j < c.keys; ++j)
        std::memcpy(far + b * kBatch + h * kHead + j * kRow,
                    data.k.data() + b * near.batch + h * near.head + j * near.row, 16 * sizeof(float));
  p.k = {far, {kBatch, kHead, kRow}};
  for (const Isa isa : supported_isas()) {
    const ForwardRun expected = run_forward(data, isa);
    std::vector<float> output(expected.output.size()), logsumexp(expected.logsumexp.size());
    forward(p, {output.data(), {std::int64_t{2} * 5 * 16, std::int64_t{5} * 16, 16}, logsumexp.data(), {}}, isa);
    EXPECT_EQ(output, expected.output);
    EXPECT_EQ(logsumexp, expected.logsumexp);
  }
  munmap(memory, bytes);
}

// One row of q, k or v seen as many.
TEST(Memory, StridesMayBeZero) {
  const Case c{.name = "zero_strides", .batches = 2, .heads = 2, .queries = 13, .keys = 50};
  CaseData data(c), expanded(c);
  const auto repeat = [](std::vector<float>& values, std::int64_t width) {
    for (auto i = static_cast<std::size_t>(width); i < values.size(); ++i)
      values[i] = values[i - static_cast<std::size_t>(width)];
  };
  repeat(data.q, c.key_width);
  repeat(data.v, c.value_width);
  expanded.q.assign(data.q.begin(), data.q.begin() + c.key_width);
  expanded.v.assign(data.v.begin(), data.v.begin() + c.value_width);
  expanded.problem.q = {expanded.q.data(), {0, 0, 0}};
  expanded.problem.v = {expanded.v.data(), {0, 0, 0}};
  for (const Isa isa : supported_isas()) {
    const ForwardRun a = run_forward(data, isa), b = run_forward(expanded, isa);
    EXPECT_EQ(a.output, b.output);
    const BackwardRun c1 = run_backward(data, a, isa), c2 = run_backward(expanded, b, isa);
    EXPECT_EQ(c1.q, c2.q);
    EXPECT_EQ(c1.k, c2.k);
    EXPECT_EQ(c1.v, c2.v);
  }
}

}  // namespace
}  // namespace camber::kernels::test
