#include "camber/geometry/key_layout.h"

#include <algorithm>

namespace camber::geometry {
namespace {

struct Span {
  std::int64_t first, last;
  std::int64_t length() const { return std::max<std::int64_t>(0, last - first + 1); }
};

// The part of a window of `size` cells round `center` that lies on an axis of `count` cells.
Span cut(std::int64_t center, std::int32_t size, std::int64_t count) {
  const std::int64_t half = size / 2;
  return {std::max<std::int64_t>(0, center - half), std::min(count - 1, center + half)};
}

bool lies_on(const Cell& cell, const KeyMap& map) {
  return cell.column >= 0 && cell.column < map.columns && cell.row >= 0 && cell.row < map.rows;
}

}  // namespace

KeyLayout KeyLayout::of(const BevGrid& grid, const std::vector<Camera>& cameras) {
  KeyLayout layout = of(cameras);
  for (KeyMap& map : layout.maps) map.first_key += grid.keys();
  layout.maps.insert(layout.maps.begin(), {.columns = grid.columns(), .rows = grid.rows(), .first_key = 0});
  return layout;
}

KeyLayout KeyLayout::of(const std::vector<Camera>& cameras) {
  KeyLayout layout;
  std::int64_t next = 0;
  for (const Camera& camera : cameras) {
    camera.validate();
    layout.maps.push_back({.columns = camera.columns, .rows = camera.rows, .first_key = next});
    next += camera.keys();
  }
  return layout;
}

KeyLayout KeyLayout::reference() {
  const Camera camera{.name = "reference", .width = 800, .height = 320, .columns = 50, .rows = 20};
  return of(BevGrid::reference(), std::vector<Camera>(6, camera));
}

std::int64_t KeyLayout::keys() const {
  return maps.empty() ? 0 : maps.back().first_key + maps.back().keys();
}

std::vector<std::int64_t> KeyLayout::segment_offsets() const {
  std::vector<std::int64_t> offsets;
  offsets.reserve(maps.size() + 1);
  for (const KeyMap& map : maps) offsets.push_back(map.first_key);
  offsets.push_back(keys());
  return offsets;
}

std::int64_t WindowRows::count(std::int64_t* row_offsets) const {
  const auto maps = static_cast<std::int64_t>(layout.maps.size());
  row_offsets[0] = 0;
  for (std::int64_t query = 0; query < queries; ++query) {
    std::int64_t entries = 0;
    for (std::int64_t m = 0; m < maps; ++m) {
      const KeyMap& map = layout.maps[static_cast<std::size_t>(m)];
      const Cell& cell = center[query * maps + m];
      if (!lies_on(cell, map)) continue;
      const std::int32_t cells = size[query * maps + m];
      entries += cut(cell.column, cells, map.columns).length() * cut(cell.row, cells, map.rows).length();
    }
    row_offsets[query + 1] = row_offsets[query] + entries;
  }
  return row_offsets[queries];
}

void WindowRows::fill(const std::int64_t* row_offsets, std::int32_t* key_index, std::int32_t* map_index,
                      std::int32_t* squared_distance) const {
  const auto maps = static_cast<std::int64_t>(layout.maps.size());
  for (std::int64_t query = 0; query < queries; ++query) {
    std::int64_t entry = row_offsets[query];
    for (std::int64_t m = 0; m < maps; ++m) {
      const KeyMap& map = layout.maps[static_cast<std::size_t>(m)];
      const Cell& cell = center[query * maps + m];
      if (!lies_on(cell, map)) continue;
      const std::int32_t cells = size[query * maps + m];
      const Span columns = cut(cell.column, cells, map.columns), rows = cut(cell.row, cells, map.rows);
      for (std::int64_t row = rows.first; row <= rows.last; ++row) {
        for (std::int64_t column = columns.first; column <= columns.last; ++column, ++entry) {
          const std::int64_t dx = column - cell.column, dy = row - cell.row;
          key_index[entry] = static_cast<std::int32_t>(map.first_key + row * map.columns + column);
          map_index[entry] = static_cast<std::int32_t>(m);
          squared_distance[entry] = static_cast<std::int32_t>(dx * dx + dy * dy);
        }
      }
    }
  }
}

}  // namespace camber::geometry
