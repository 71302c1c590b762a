#include "camber/geometry/bev_grid.h"

#include <cmath>
#include <sstream>
#include <stdexcept>

namespace camber::geometry {
namespace {

std::int64_t cells_that_fill(const char* axis, double low, double high, double cell) {
  const double count = (high - low) / cell;
  const double whole = std::round(count);
  if (std::isfinite(count) && whole >= 1 && std::abs(count - whole) <= 1e-9 * whole)
    return static_cast<std::int64_t>(whole);
  std::ostringstream message;
  message << "[BevGrid] range of " << axis << " must be filled by whole cells, got " << low << " to " << high
          << " m in cells of " << cell << " m (" << count << " cells)";
  throw std::invalid_argument(message.str());
}

// The index of the cell that holds `value`; the upper border belongs to the last cell.
std::optional<std::int64_t> index_of(double value, double low, double high, double cell, std::int64_t count) {
  if (!(value >= low && value <= high)) return std::nullopt;
  const auto index = static_cast<std::int64_t>(std::floor((value - low) / cell));
  return index < count ? index : count - 1;
}

}  // namespace

BevGrid::BevGrid(double x_min, double x_max, double y_min, double y_max, double cell)
    : x_min_(x_min), x_max_(x_max), y_min_(y_min), y_max_(y_max), cell_(cell) {
  if (!(cell > 0)) throw std::invalid_argument("[BevGrid] cell must be above 0 m, got " + std::to_string(cell));
  columns_ = cells_that_fill("x", x_min, x_max, cell);
  rows_ = cells_that_fill("y", y_min, y_max, cell);
}

BevGrid BevGrid::reference() {
  return {-51.2, 51.2, -51.2, 51.2, 0.8};
}

std::optional<Cell> BevGrid::cell_at(double x, double y) const {
  const auto column = index_of(x, x_min_, x_max_, cell_, columns_);
  const auto row = index_of(y, y_min_, y_max_, cell_, rows_);
  if (!column || !row) return std::nullopt;
  return Cell{*column, *row};
}

}  // namespace camber::geometry
