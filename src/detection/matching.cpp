#include "camber/detection/matching.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace camber::detection {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Costs that are not finite become so dear that they are taken only when nothing else is left. Costs whose sums would
// leave the range are divided by a power of two, which changes no choice.
std::vector<double> finite_costs(std::span<const double> cost) {
  constexpr double kEnough = 1e150;
  double largest = 0;
  for (const double value : cost)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  const double factor = largest > kEnough ? std::ldexp(1.0, -std::min(1000, std::ilogb(largest))) : 1;
  const double dear = (factor * largest + 1) * static_cast<double>(cost.size() + 1);
  std::vector<double> result(cost.begin(), cost.end());
  for (double& value : result) value = std::isfinite(value) ? factor * value : dear;
  return result;
}

// Shortest augmenting paths for rows <= columns; u and v are the dual prices.
class Assignment {
 public:
  Assignment(const std::vector<double>& cost, std::int64_t rows, std::int64_t columns)
      : cost_(cost),
        rows_(rows),
        columns_(columns),
        row_price_(rows),
        column_price_(columns),
        column_of_(rows, -1),
        row_of_(columns, -1),
        distance_(columns),
        before_(columns),
        open_(columns) {}

  std::vector<std::int64_t> solve() {
    for (std::int64_t row = 0; row < rows_; ++row) augment(row);
    return column_of_;
  }

 private:
  void augment(std::int64_t first) {
    for (std::int64_t j = 0; j < columns_; ++j) open_[j] = j;
    std::fill(distance_.begin(), distance_.end(), kInfinity);
    std::int64_t num_open = columns_, row = first, sink = -1;
    double shortest = 0;
    settled_.clear();
    while (sink < 0) {
      const double* costs = cost_.data() + row * columns_;
      const double offset = shortest - row_price_[row];
      double lowest = kInfinity;
      std::int64_t nearest = -1;
      for (std::int64_t i = 0; i < num_open; ++i) {
        const std::int64_t j = open_[i];
        const double through = offset + costs[j] - column_price_[j];
        if (through < distance_[j]) {
          distance_[j] = through;
          before_[j] = row;
        }
        if (distance_[j] < lowest || (distance_[j] == lowest && row_of_[j] < 0)) {
          lowest = distance_[j];
          nearest = i;
        }
      }
      shortest = lowest;
      const std::int64_t column = open_[nearest];
      open_[nearest] = open_[--num_open];
      settled_.push_back(column);
      if (row_of_[column] < 0)
        sink = column;
      else
        row = row_of_[column];
    }
    update_prices(first, shortest);
    for (std::int64_t column = sink;;) {
      const std::int64_t owner = before_[column];
      row_of_[column] = owner;
      std::swap(column_of_[owner], column);
      if (owner == first) break;
    }
  }

  void update_prices(std::int64_t first, double shortest) {
    row_price_[first] += shortest;
    for (const std::int64_t column : settled_) {
      const std::int64_t owner = row_of_[column];
      const double slack = shortest - distance_[column];
      if (owner >= 0) row_price_[owner] += slack;
      column_price_[column] -= slack;
    }
  }

  const std::vector<double>& cost_;
  std::int64_t rows_, columns_;
  std::vector<double> row_price_, column_price_;
  std::vector<std::int64_t> column_of_, row_of_;
  std::vector<double> distance_;
  std::vector<std::int64_t> before_, open_, settled_;
};

}  // namespace

std::vector<std::int64_t> least_cost_assignment(std::span<const double> cost, std::int64_t rows, std::int64_t columns) {
  TORCH_CHECK_VALUE(rows >= 0 && columns >= 0 && static_cast<std::int64_t>(cost.size()) == rows * columns,
                    "[least_cost_assignment] cost must hold rows * columns = ", rows * columns, " numbers, got ",
                    cost.size());
  std::vector<std::int64_t> column_of(static_cast<std::size_t>(rows), -1);
  if (rows == 0 || columns == 0) return column_of;
  auto costs = finite_costs(cost);
  if (rows <= columns) return Assignment(costs, rows, columns).solve();
  std::vector<double> turned(costs.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) turned[c * rows + r] = costs[r * columns + c];
  const auto row_of = Assignment(turned, columns, rows).solve();
  for (std::int64_t c = 0; c < columns; ++c) column_of[row_of[c]] = c;
  return column_of;
}

torch::Tensor matching_cost(const torch::Tensor& logits, const torch::Tensor& codes, const torch::Tensor& labels,
                            const torch::Tensor& target_codes, const LossOptions& options) {
  const torch::NoGradGuard guard;
  const auto score = logits.detach().to(torch::kDouble).index_select(1, labels).sigmoid();  // [Q, G]
  const double gamma = options.focal_gamma, alpha = options.focal_alpha;
  const auto positive = -(score + 1e-12).log() * alpha * (1 - score).pow(gamma);
  const auto negative = -(1 - score + 1e-12).log() * (1 - alpha) * score.pow(gamma);
  const auto weights = torch::tensor(options.code_weights, torch::kDouble).narrow(0, 0, 8);
  const auto found = codes.detach().to(torch::kDouble).narrow(1, 0, 8) * weights;
  const auto wanted = target_codes.to(torch::kDouble).narrow(1, 0, 8) * weights;
  return options.class_weight * (positive - negative) +
         options.box_weight * (found.unsqueeze(1) - wanted.unsqueeze(0)).abs().sum(2);
}

torch::Tensor match(const torch::Tensor& logits, const torch::Tensor& codes, const torch::Tensor& labels,
                    const torch::Tensor& target_codes, const LossOptions& options) {
  const std::int64_t queries = logits.size(0), objects = labels.size(0);
  if (objects == 0) return torch::full({queries}, -1, torch::kLong);
  const auto cost = matching_cost(logits.cpu(), codes.cpu(), labels, target_codes, options).contiguous();
  const auto column_of =
      least_cost_assignment({cost.const_data_ptr<double>(), static_cast<std::size_t>(cost.numel())}, queries, objects);
  return torch::tensor(column_of, torch::kLong);
}

}  // namespace camber::detection
