#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "camber/report/page.h"

namespace camber::report {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

std::vector<double> common_x(const std::vector<RawSeries>& series) {
  std::vector<double> x;
  for (const RawSeries& one : series) x.insert(x.end(), one.x.begin(), one.x.end());
  std::sort(x.begin(), x.end());
  x.erase(std::unique(x.begin(), x.end()), x.end());
  return x;
}

// Values on the common x; of several at one x the last.
std::vector<double> aligned(const RawSeries& series, const std::vector<double>& x) {
  if (series.x.size() != series.values.size())
    throw std::invalid_argument(fmt::format("[report] series {} must have a value for every x, got {} for {}",
                                            series.name, series.values.size(), series.x.size()));
  std::vector<double> values(x.size(), kNothing);
  for (std::size_t index = 0; index < series.x.size(); ++index) {
    const auto position = std::lower_bound(x.begin(), x.end(), series.x[index]);
    values[static_cast<std::size_t>(position - x.begin())] = series.values[index];
  }
  return values;
}

// Of every stretch the least and the greatest, at its two ends, in the order in which they came.
std::vector<double> extremes(const std::vector<double>& values, std::size_t stretches) {
  std::vector<double> kept;
  for (std::size_t stretch = 0; stretch < stretches; ++stretch) {
    const std::size_t begin = values.size() * stretch / stretches, end = values.size() * (stretch + 1) / stretches;
    std::size_t low = end, high = end;
    for (std::size_t index = begin; index < end; ++index) {
      if (!std::isfinite(values[index])) continue;
      if (low == end || values[index] < values[low]) low = index;
      if (high == end || values[index] > values[high]) high = index;
    }
    kept.push_back(low == end ? kNothing : values[std::min(low, high)]);
    kept.push_back(low == end || low == high ? kNothing : values[std::max(low, high)]);
  }
  return kept;
}

// A gap in a curve may be a step without a value, or one whose value broke: the note tells.
void note_broken(Chart& chart, const std::vector<RawSeries>& series) {
  std::ptrdiff_t broken = 0;
  for (const RawSeries& one : series)
    broken += std::count_if(one.values.begin(), one.values.end(), [](double value) { return !std::isfinite(value); });
  if (broken == 0) return;
  chart.note += fmt::format("{}{} not finite and not drawn", chart.note.empty() ? "" : "; ",
                            broken == 1 ? "1 value is" : fmt::format("{} values are", broken));
}

}  // namespace

void put_series(Chart& chart, const std::vector<RawSeries>& series, std::size_t most) {
  const std::vector<double> x = common_x(series);
  chart.points = x.size();
  const std::size_t stretches = std::max<std::size_t>(1, most / 2);
  const bool decimate = x.size() > most;
  chart.x = x;
  if (decimate) {
    chart.x.clear();
    for (std::size_t stretch = 0; stretch < stretches; ++stretch) {
      chart.x.push_back(x[x.size() * stretch / stretches]);
      chart.x.push_back(x[x.size() * (stretch + 1) / stretches - 1]);
    }
  }
  note_broken(chart, series);
  for (const RawSeries& one : series) {
    std::vector<double> values = aligned(one, x);
    chart.series.push_back({one.name, decimate ? extremes(values, stretches) : std::move(values), one.role});
  }
}

}  // namespace camber::report
