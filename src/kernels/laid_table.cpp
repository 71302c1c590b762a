#include "kernels/laid_table.h"

#include <algorithm>

namespace camber::kernels {
namespace {

// From so many batches on, and up to so many floats of a head, which stay in the second-level cache.
constexpr std::int64_t kFewestReaders = 8, kMostTableFloats = 1 << 15;

bool worth_laying(const AttentionProblem& p) {
  const TableBias& table = p.table;
  return table.value != nullptr && (table.index != nullptr || table.query_code != nullptr) &&
         p.batches >= kFewestReaders && p.queries * p.keys > 0 && p.queries * p.keys <= kMostTableFloats;
}

// Calls visit(i * K + j, index in the table).
template <class Visit>
void for_pairs(const TableBias& table, std::int64_t queries, std::int64_t keys, const Visit& visit) {
  for (std::int64_t i = 0; i < queries; ++i)
    for (std::int64_t j = 0; j < keys; ++j)
      visit(i * keys + j, table.index != nullptr ? table.index[i * keys + j] : table.key_code[j] - table.query_code[i]);
}

}  // namespace

LaidTable::LaidTable(AttentionProblem& problem) : original_(problem.table) {
  if (!worth_laying(problem)) return;
  const std::int64_t pairs = problem.queries * problem.keys;
  value_.resize(static_cast<std::size_t>(original_.heads * pairs));
  for (std::int64_t head = 0; head < original_.heads; ++head)
    for_pairs(original_, problem.queries, problem.keys, [&](std::int64_t at, std::int32_t index) {
      value_[static_cast<std::size_t>(head * pairs + at)] = original_.value[head * original_.size + index];
    });
  problem.table = {.value = value_.data(), .heads = original_.heads, .size = pairs};
}

float* LaidTable::room_for(float* gradient) {
  if (gradient == nullptr || value_.empty()) return gradient;
  gradient_.resize(value_.size());
  return gradient_.data();
}

void LaidTable::gather(const AttentionProblem& problem, float* gradient) const {
  if (gradient_.empty()) return;
  std::fill_n(gradient, original_.heads * original_.size, 0.0f);
  const std::int64_t pairs = problem.queries * problem.keys;
  for (std::int64_t head = 0; head < original_.heads; ++head)
    for_pairs(original_, problem.queries, problem.keys, [&](std::int64_t at, std::int32_t index) {
      gradient[head * original_.size + index] += gradient_[static_cast<std::size_t>(head * pairs + at)];
    });
}

}  // namespace camber::kernels
