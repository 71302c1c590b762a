#include "health/csv_log.h"

#include <charconv>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>

#include "camber/storage/atomic_file.h"
#include "camber/storage/file.h"

namespace camber::health {
namespace {

constexpr std::string_view kFirstColumns = "step,time";

std::string quoted(const std::string& name) {
  if (name.find_first_of(",\"\n") == std::string::npos) return name;
  std::string text = "\"";
  for (const char letter : name) text.append(letter == '"' ? 2 : 1, letter);
  return text += '"';
}

std::vector<std::string> split_header(std::string_view line) {
  std::vector<std::string> names(1);
  bool inside = false;
  for (std::size_t position = 0; position < line.size(); ++position)
    if (line[position] == '"' && inside && position + 1 < line.size() && line[position + 1] == '"')
      names.back() += line[++position];
    else if (line[position] == '"')
      inside = !inside;
    else if (line[position] == ',' && !inside)
      names.emplace_back();
    else
      names.back() += line[position];
  return names;
}

// Whole lines whose step is not beyond the last one to keep.
std::size_t bytes_until(std::string_view text, std::size_t position, std::int64_t last_step) {
  for (std::size_t end = text.find('\n', position); end != std::string_view::npos; end = text.find('\n', position)) {
    std::int64_t step = 0;
    const auto [after, error] = std::from_chars(text.data() + position, text.data() + end, step);
    if (error != std::errc() || step > last_step) break;
    position = end + 1;
  }
  return position;
}

}  // namespace

CsvLog::CsvLog(const std::filesystem::path& path, std::optional<std::int64_t> resume_step) : path_(path) {
  const std::string text = resume_step && std::filesystem::exists(path) ? storage::read_file(path) : "";
  const std::size_t header_end = text.find('\n');
  if (header_end == std::string::npos) {
    storage::write_file(path_, header());
    file_ = AppendFile(path_, -1);
    return;
  }
  const std::vector<std::string> names = split_header(std::string_view(text).substr(0, header_end));
  if (names.size() < 2 || names[0] != "step" || names[1] != "time")
    throw std::runtime_error(fmt::format("[sink] {} must begin with the columns {}", path.string(), kFirstColumns));
  for (std::size_t index = 2; index < names.size(); ++index) {
    columns_.emplace(names[index], names_.size());
    names_.push_back(names[index]);
  }
  file_ = AppendFile(path_, static_cast<std::int64_t>(bytes_until(text, header_end + 1, *resume_step)));
}

std::string CsvLog::header() const {
  std::string line(kFirstColumns);
  for (const std::string& name : names_) (line += ',') += quoted(name);
  return line += '\n';
}

void CsvLog::widen(const Metrics& metrics) {
  const std::size_t before = names_.size();
  for (const Metric& metric : metrics)
    if (columns_.emplace(metric.name, names_.size()).second) names_.push_back(metric.name);
  if (names_.size() == before) return;
  const std::string text = storage::read_file(path_);
  const std::string commas(names_.size() - before, ',');
  storage::AtomicFile wider(path_);
  wider.write(header());
  std::string rows;
  for (std::size_t position = text.find('\n') + 1; position < text.size();) {
    const std::size_t end = text.find('\n', position);
    rows.append(text, position, end - position).append(commas) += '\n';
    position = end + 1;
  }
  wider.write(rows);
  wider.commit();
  file_ = AppendFile(path_, -1);
}

void CsvLog::write(std::int64_t step, double time, const Metrics& metrics) {
  widen(metrics);
  std::vector<std::string> cells(names_.size());
  for (const Metric& metric : metrics) cells[columns_.at(metric.name)] = fmt::format("{}", metric.value);
  std::string row = fmt::format("{},{:.3f}", step, time);
  for (const std::string& cell : cells) (row += ',') += cell;
  file_.append(row += '\n');
}

}  // namespace camber::health
