#include "benchmarks/grid_rows.h"

#include <charconv>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "camber/storage/atomic_file.h"
#include "camber/storage/file.h"

namespace camber::benchmarks {
namespace {

constexpr const char* kHeader = "cell,milliseconds,torch_milliseconds";

std::string key_of(const GridCell& cell) {
  return fmt::format("{}/H{}/D{}", cell.name(), cell.heads, cell.width);
}

bool read_number(std::string_view text, double& value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc{} && result.ptr == text.data() + text.size() && value > 0;
}

}  // namespace

GridRows::GridRows(std::filesystem::path path, const GridBench& bench)
    : path_(std::move(path)),
      conditions_(fmt::format("# {}, {} threads, torch {} ({}), {} time, {} s and {} runs a cell at least, seed {}",
                              bench.processor, bench.options.threads, bench.torch_version, bench.torch_capability,
                              bench.options.processor_time ? "processor" : "wall", bench.options.seconds,
                              bench.options.repeats, bench.options.seed)) {
  if (path_.empty()) return;
  storage::check_writable(path_);
  if (std::filesystem::exists(path_)) read();
}

void GridRows::read() {
  std::istringstream lines(storage::read_file(path_));
  std::string line;
  if (!std::getline(lines, line) || line != conditions_)
    throw std::invalid_argument(
        fmt::format("--rows must be a new file or rows measured as now ('{}'), got {} with '{}'", conditions_,
                    path_.string(), line.substr(0, 200)));
  std::getline(lines, line);
  bool good = line == kHeader;
  while (good && std::getline(lines, line)) {
    const std::size_t first = line.find(','), second = line.find(',', first + 1);
    GridRow row;
    good = second != std::string::npos &&
           read_number(std::string_view(line).substr(first + 1, second - first - 1), row.ours) &&
           read_number(std::string_view(line).substr(second + 1), row.theirs);
    if (good) rows_[line.substr(0, first)] = row;
  }
  if (!good)
    throw std::invalid_argument(
        fmt::format("--rows must hold rows of '{}', got '{}' in {}", kHeader, line.substr(0, 200), path_.string()));
}

const GridRow* GridRows::find(const GridCell& cell) const {
  const auto found = rows_.find(key_of(cell));
  return found == rows_.end() ? nullptr : &found->second;
}

void GridRows::add(const GridRow& row) {
  if (path_.empty()) return;
  rows_[key_of(row.cell)] = row;
  std::string text = fmt::format("{}\n{}\n", conditions_, kHeader);
  for (const auto& [name, measured] : rows_) text += fmt::format("{},{},{}\n", name, measured.ours, measured.theirs);
  storage::write_file(path_, text);
}

}  // namespace camber::benchmarks
