#pragma once
#include <cstdint>
#include <vector>

#include "camber/geometry/bev_grid.h"
#include "camber/geometry/camera.h"

namespace camber::geometry {

/// One map of keys: its size and where its first key stands.
struct KeyMap {
  std::int64_t columns = 0, rows = 0;
  std::int64_t first_key = 0;
  std::int64_t keys() const { return rows * columns; }
};

/// The order of all keys: the bird's-eye grid row by row, then every camera's map in the order of the rig, row by row.
/// Each map is one key segment. Reference size: 128 * 128 + 6 * 20 * 50 = 22,384 keys.
struct KeyLayout {
  std::vector<KeyMap> maps{};

  static KeyLayout of(const BevGrid& grid, const std::vector<Camera>& cameras);
  /// The cameras' maps alone, as in PETR.
  static KeyLayout of(const std::vector<Camera>& cameras);
  static KeyLayout reference();
  std::int64_t keys() const;
  /// Offsets of the segments, [maps + 1], from 0 to keys().
  std::vector<std::int64_t> segment_offsets() const;
};

/// Windows round cells as sparse rows, built in two passes so that the caller owns the memory.
///
/// For every query and map, `center` says where the window lies (column < 0: no window) and `size` how many cells wide
/// and high it is (odd). A window that leaves its map is cut, never wrapped to the next row or the next map. Keys come
/// out sorted in each row because maps, rows and columns are visited in key order.
struct WindowRows {
  const KeyLayout& layout;
  std::int64_t queries;
  const Cell* center;        // [queries, maps]
  const std::int32_t* size;  // [queries, maps], odd

  /// Fills row_offsets [queries + 1] and returns the number of entries.
  std::int64_t count(std::int64_t* row_offsets) const;
  /// Fills, for each entry, its key, its map, and the squared distance in cells to the window's centre.
  void fill(const std::int64_t* row_offsets, std::int32_t* key_index, std::int32_t* map_index,
            std::int32_t* squared_distance) const;
};

}  // namespace camber::geometry
