#pragma once
#include <cstdint>
#include <optional>

namespace camber::geometry {

/// A cell of a map: column grows with x (or u), row with y (or v).
struct Cell {
  std::int64_t column = 0;
  std::int64_t row = 0;
  bool operator==(const Cell&) const = default;
};

/// The bird's-eye grid that the voxeliser, the position encoding, the router and the bias share.
///
///   column = floor((x - x_min) / cell), row = floor((y - y_min) / cell), key = row * columns + column;
///
/// the upper border belongs to the last cell. A range that its cells do not fill is refused: grids that disagree by a
/// few cells put every window beside its object.
///
///   BevGrid grid(-51.2, 51.2, -51.2, 51.2, 0.8);   // 128 x 128 cells
class BevGrid {
 public:
  BevGrid(double x_min, double x_max, double y_min, double y_max, double cell);
  /// The reference size: +-51.2 m in cells of 0.8 m, 128 x 128.
  static BevGrid reference();

  /// The cell of a point, or nothing when it lies outside the grid.
  std::optional<Cell> cell_at(double x, double y) const;
  double center_x(std::int64_t column) const { return x_min_ + (static_cast<double>(column) + 0.5) * cell_; }
  double center_y(std::int64_t row) const { return y_min_ + (static_cast<double>(row) + 0.5) * cell_; }

  std::int64_t columns() const { return columns_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t keys() const { return rows_ * columns_; }
  double cell() const { return cell_; }
  double x_min() const { return x_min_; }
  double y_min() const { return y_min_; }
  double x_max() const { return x_max_; }
  double y_max() const { return y_max_; }

 private:
  double x_min_, x_max_, y_min_, y_max_, cell_;
  std::int64_t columns_, rows_;
};

}  // namespace camber::geometry
