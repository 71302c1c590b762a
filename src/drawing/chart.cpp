#include "camber/drawing/chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "drawing/chart_layout.h"

namespace camber::drawing {
namespace {

constexpr double kLeft = 66, kRight = 24, kTop = 40, kBottom = 54, kLegendLine = 20, kZoneLine = 16;
constexpr double kLetterWidth = 6.7;  // of the 12 px text, on average; wide enough for a legend
constexpr int kTicks = 6;

std::string hex(Colour colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        // XML allows no other control character, not even as an entity.
        if (static_cast<unsigned char>(letter) >= 0x20) result += letter;
    }
  }
  return result;
}

std::string text_at(double x, double y, const std::string& style, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>\n", x, y, style, escaped(text));
}

class ChartWriter {
 public:
  explicit ChartWriter(const LineChart& chart)
      : chart_(chart),
        legend_lines_(arrange_legend()),
        top_(kTop + kLegendLine * legend_lines_ + (chart.zones.empty() ? 0 : kZoneLine)),
        bottom_(height() - kBottom),
        right_(chart.width - kRight),
        x_(chart.x, range([](const ChartPoint& point) { return point.x; }), kLeft, right_),
        y_(chart.y, range([](const ChartPoint& point) { return point.y; }), bottom_, top_) {}

  /// The chart's height, and more where the legend takes more than one line.
  int height() const { return chart_.height + static_cast<int>(kLegendLine) * std::max(legend_lines_ - 1, 0); }

  std::string write() const { return title() + zones() + grid() + levels() + lines() + axes(); }

 private:
  template <class Coordinate>
  std::pair<double, double> range(Coordinate coordinate) const {
    std::vector<double> values;
    for (const Series& series : chart_.series) {
      for (const ChartPoint& point : series.points) values.push_back(coordinate(point));
      for (const ChartPoint& point : series.marks) values.push_back(coordinate(point));
    }
    return finite_range(values);
  }

  Colour colour(std::size_t series) const { return chart_.series[series].colour.value_or(series_colour(series)); }

  // Entries stand in rows below the title; the number of rows is what the plot gives up.
  int arrange_legend() {
    double x = kLeft;
    int line = 0;
    for (const Series& series : chart_.series) {
      const double entry_width = 44 + kLetterWidth * static_cast<double>(series.name.size());
      if (!series.name.empty() && x > kLeft && x + entry_width > chart_.width - kRight) {
        x = kLeft;
        ++line;
      }
      legend_.emplace_back(x, kTop + 4 + kLegendLine * line);
      if (!series.name.empty()) x += entry_width;
    }
    return x > kLeft ? line + 1 : 0;
  }

  std::string title() const {
    std::string text = text_at(kLeft, 24, "title", chart_.title);
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const Series& series = chart_.series[i];
      if (series.name.empty()) continue;
      const auto [x, y] = legend_[i];
      text += fmt::format("<path d=\"M{:.1f} {:.1f}h24\" class=\"line{}\" stroke=\"{}\"/>\n", x, y - 4,
                          series.dashed ? " dashed" : "", hex(colour(i)));
      text += text_at(x + 30, y, "label", series.name);
    }
    return text;
  }

  std::string zones() const {
    std::string text;
    for (const Zone& zone : chart_.zones) {
      const double from = x_.pixel(std::clamp(zone.from, x_.min(), x_.max()));
      const double to = x_.pixel(std::clamp(zone.to, x_.min(), x_.max()));
      if (to <= from) continue;
      text += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", from,
                          top_, to - from, bottom_ - top_, hex(zone.colour));
      // A name stands above its band; one that is wider than that would run into its neighbour's.
      if (to - from > kLetterWidth * static_cast<double>(zone.name.size()))
        text += text_at((from + to) / 2, top_ - 5, "zone", zone.name);
    }
    return text;
  }

  std::string grid() const {
    std::string path;
    for (const Tick& tick : y_.ticks(kTicks))
      path += fmt::format("M{:.1f} {:.1f}H{:.1f}", kLeft, y_.pixel(tick.value), right_);
    return fmt::format("<path d=\"{}\" class=\"grid\"/>\n", path);
  }

  std::string levels() const {
    std::string text;
    for (const Level& level : chart_.levels) {
      if (level.y < y_.min() || level.y > y_.max()) continue;
      const double y = y_.pixel(level.y);
      text += fmt::format("<path d=\"M{:.1f} {:.1f}H{:.1f}\" class=\"level\"/>\n", kLeft, y, right_);
      text += text_at(right_ - 4, y - 4, "level-name", level.name);
    }
    return text;
  }

  std::string lines() const {
    // An inner image cuts lines at the plot's border without an id that another image of the page might share.
    std::string text = fmt::format("<svg x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"{2:.1f}\" height=\"{3:.1f}\" ", kLeft,
                                   top_ - 2, right_ - kLeft, bottom_ - top_ + 4);
    text += fmt::format("viewBox=\"{0:.1f} {1:.1f} {2:.1f} {3:.1f}\">\n", kLeft, top_ - 2, right_ - kLeft,
                        bottom_ - top_ + 4);
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const Series& series = chart_.series[i];
      const std::string path = line_path(series);
      if (!path.empty())
        text += fmt::format("<path d=\"{}\" class=\"line{}\" stroke=\"{}\"/>\n", path, series.dashed ? " dashed" : "",
                            hex(colour(i)));
    }
    text += "</svg>\n";
    // Dots on the border stay whole.
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      for (const ChartPoint& mark : chart_.series[i].marks) {
        const bool inside = mark.x >= x_.min() && mark.x <= x_.max() && mark.y >= y_.min() && mark.y <= y_.max();
        if (inside)
          text += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" class=\"mark\" fill=\"{}\"/>\n",
                              x_.pixel(mark.x), y_.pixel(mark.y), hex(colour(i)));
      }
    }
    return text;
  }

  std::string line_path(const Series& series) const {
    std::string path;
    bool drawing = false;
    for (const ChartPoint& point : series.points) {
      const double x = x_.pixel(point.x), y = y_.pixel(point.y);
      const bool finite = std::isfinite(x) && std::isfinite(y);
      // Far outside is as good as just outside, and keeps the numbers short.
      if (finite)
        path += fmt::format("{}{:.2f} {:.2f}", drawing ? "L" : "M", std::clamp(x, -1e4, 1e4), std::clamp(y, -1e4, 1e4));
      drawing = finite;
    }
    return path;
  }

  std::string axes() const {
    std::string path = fmt::format("M{:.1f} {:.1f}V{:.1f}H{:.1f}", kLeft, top_, bottom_, right_);
    std::string text;
    const int x_ticks = std::max(2, static_cast<int>((right_ - kLeft) / 60));
    for (const Tick& tick : x_.ticks(x_ticks)) {
      path += fmt::format("M{:.1f} {:.1f}v5", x_.pixel(tick.value), bottom_);
      text += text_at(x_.pixel(tick.value), bottom_ + 19, "tick x", tick.label);
    }
    for (const Tick& tick : y_.ticks(kTicks)) {
      path += fmt::format("M{:.1f} {:.1f}h-5", kLeft, y_.pixel(tick.value));
      text += text_at(kLeft - 9, y_.pixel(tick.value) + 4, "tick y", tick.label);
    }
    text += text_at((kLeft + right_) / 2, bottom_ + 41, "axis-title", chart_.x.title);
    text += fmt::format("<text transform=\"translate(18 {:.1f}) rotate(-90)\" class=\"axis-title\">{}</text>\n",
                        (top_ + bottom_) / 2, escaped(chart_.y.title));
    return fmt::format("<path d=\"{}\" class=\"axis\"/>\n", path) + text;
  }

  const LineChart& chart_;
  std::vector<std::pair<double, double>> legend_;  // where each series' entry stands
  int legend_lines_;
  double top_, bottom_, right_;
  Scale x_, y_;
};

// The prefix keeps the rules off the page that an image is put into.
constexpr const char* kStyle =
    "<style>"
    ".camber-chart text{font:12px 'Helvetica Neue',Helvetica,Arial,'Liberation Sans',sans-serif;fill:#333}"
    ".camber-chart .title{font-size:15px;font-weight:600;fill:#111}"
    ".camber-chart .zone{text-anchor:middle;font-size:11px;fill:#555}"
    ".camber-chart .level-name{text-anchor:end;font-size:11px;fill:#666}"
    ".camber-chart .x,.camber-chart .axis-title{text-anchor:middle}"
    ".camber-chart .y{text-anchor:end}"
    ".camber-chart .axis-title{font-size:13px}"
    ".camber-chart .grid{stroke:#000;stroke-opacity:.08;fill:none}"
    ".camber-chart .level{stroke:#888;stroke-dasharray:2 4;fill:none}"
    ".camber-chart .axis{stroke:#666;fill:none}"
    ".camber-chart .line{stroke-width:2.2;fill:none;stroke-linejoin:round;stroke-linecap:round}"
    ".camber-chart .dashed{stroke-dasharray:7 5}"
    ".camber-chart .mark{stroke:#fff;stroke-width:1.2}"
    "</style>\n";

}  // namespace

std::string to_svg(const std::vector<LineChart>& charts) {
  int width = 0, height = 0;
  std::string body, title;
  for (const LineChart& chart : charts) {
    const ChartWriter writer(chart);
    body += fmt::format("<g transform=\"translate(0 {})\">\n{}</g>\n", height, writer.write());
    title += (title.empty() ? "" : "; ") + chart.title;
    width = std::max(width, chart.width);
    height += writer.height();
  }
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "class=\"camber-chart\" role=\"img\">\n",
      width, height);
  svg += fmt::format("<title>{}</title>\n", escaped(title));
  svg += kStyle;
  svg += fmt::format("<rect width=\"{}\" height=\"{}\" fill=\"#ffffff\"/>\n", width, height);
  return svg + body + "</svg>\n";
}

}  // namespace camber::drawing
