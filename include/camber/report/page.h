#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// A report as data: sections of sentences, charts, tables, intervals, images and text. What a run or a study wants to
/// show is put together from these; the page draws them.
namespace camber::report {

/// How a series is drawn: a line, a thin dashed line (a bound), or the two edges of a shaded band.
enum class SeriesRole { kLine, kBound, kWarn, kBandLow, kBandHigh };

/// One curve; values stand beside the chart's x. NaN: no point there.
struct ChartSeries {
  std::string name{};
  std::vector<double> values{};
  SeriesRole role = SeriesRole::kLine;
};

struct Chart {
  std::string title{};
  std::string note{};  ///< one line below it
  std::string x_label = "step";
  std::vector<double> x{};
  std::vector<ChartSeries> series{};
  std::optional<double> y_min{}, y_max{};  ///< fixed ends of the axis; else they follow the curves
  std::size_t points = 0;                  ///< before decimation; 0: as many as x
};

struct Table {
  std::string title{};
  std::string note{};
  std::vector<std::string> columns{};
  std::vector<std::vector<std::string>> rows{};
  /// A column drawn as bars behind its numbers, 0 .. 1; none by default.
  std::vector<std::size_t> bar_columns{};
  /// A heat map: the shade of each cell by row and column, -1 (worse) .. 1 (better), NaN for none; empty by default.
  std::vector<std::vector<double>> shades{};
};

/// A forest plot: rows of a mean with its interval, the zero line, and a margin round it shaded.
struct Interval {
  std::string label{};
  double low = 0, mean = 0, high = 0;  ///< ends that are NaN are not drawn
  std::string words{};
};
struct Intervals {
  std::string title{};
  std::string note{};
  double margin = 0;
  double from = 0, to = 0;  ///< ends of the axis
  std::vector<double> ticks{};
  std::vector<Interval> rows{};
};

struct Image {
  std::string caption{};
  std::string media_type{};  ///< "image/png"
  std::string bytes{};
};

/// A sentence with its severity ("note", "warning", "alarm", or none) and where it comes from.
struct Sentence {
  std::string severity{};
  std::string text{};
  std::string position{};  ///< "step 1,200"
};

struct Text {
  std::string title{};
  std::string content{};  ///< shown as it is, in equal widths
};

/// One value at the top of the page.
struct Tile {
  std::string label{};
  std::string value{};
  std::string detail{};
};

using Sentences = std::vector<Sentence>;
using Images = std::vector<Image>;
using Block = std::variant<Sentences, Chart, Table, Intervals, Images, Text>;

struct Section {
  std::string title{};
  std::string lead{};  ///< what is to be seen here, one or two sentences
  std::vector<Block> blocks{};
  bool folded = false;  ///< opens on demand
};

struct Page {
  std::string title{};
  std::string subtitle{};
  std::vector<Tile> tiles{};
  std::vector<Section> sections{};
  double refresh_seconds = 0;  ///< above 0: the page loads itself anew that often
};

/// Series of different steps on one common x, and no more than `most` points: where there are more, every stretch of
/// x keeps the least and the greatest value of each series, in the order in which they come. What is not finite cannot
/// be drawn: the chart's note counts it.
///
///   Chart chart{.title = "Loss"};
///   put_series(chart, {{"total", steps, values}}, 8000);
struct RawSeries {
  std::string name{};
  std::vector<double> x{};
  std::vector<double> values{};
  SeriesRole role = SeriesRole::kLine;
};
void put_series(Chart& chart, const std::vector<RawSeries>& series, std::size_t most);

/// One HTML file with everything in it: no request leaves it.
std::string to_html(const Page& page);
/// The data that the page is drawn from.
std::string to_json(const Page& page);

}  // namespace camber::report
