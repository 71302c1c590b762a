#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "camber/benchmarks/grid.h"

namespace camber::benchmarks {

/// The rows of a grid that takes hours, in a file that is whole after every cell: a run that was stopped goes on with
/// the cells that are not in it. Its first line says how they were measured, and rows measured otherwise are refused.
class GridRows {
 public:
  /// Reads what is there. An empty path keeps nothing. Throws std::invalid_argument for a file of something else.
  GridRows(std::filesystem::path path, const GridBench& bench);
  /// Nothing when the cell is still to be measured.
  const GridRow* find(const GridCell& cell) const;
  void add(const GridRow& row);

 private:
  void read();

  std::filesystem::path path_;
  std::string conditions_;
  std::map<std::string, GridRow> rows_;
};

}  // namespace camber::benchmarks
