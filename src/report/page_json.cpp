#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "camber/json/text.h"
#include "camber/report/page.h"
#include "report/page_parts.h"

namespace camber::report {
namespace {

// Seven digits are more than a screen shows and half of what a double takes.
std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.7g}", value) : "null";
}

template <class Items, class Write>
std::string list(const Items& items, Write write) {
  std::string text = "[";
  for (const auto& item : items) {
    if (text.size() > 1) text += ',';
    text += write(item);
  }
  return text += ']';
}

std::string numbers(const std::vector<double>& values) {
  return list(values, number);
}

std::string_view name(SeriesRole role) {
  switch (role) {
    case SeriesRole::kBound:
      return "bound";
    case SeriesRole::kWarn:
      return "warn";
    case SeriesRole::kBandLow:
      return "band_low";
    case SeriesRole::kBandHigh:
      return "band_high";
    case SeriesRole::kLine:
      break;
  }
  return "line";
}

struct BlockWriter {
  std::string operator()(const Sentences& sentences) const {
    return "{\"kind\":\"sentences\",\"sentences\":" +
           list(
               sentences,
               [](const Sentence& sentence) {
                 return fmt::format("{{\"severity\":{},\"text\":{},\"position\":{}}}", json::quoted(sentence.severity),
                                    json::quoted(sentence.text), json::quoted(sentence.position));
               }) +
           "}";
  }
  std::string operator()(const Chart& chart) const {
    const auto end = [](const std::optional<double>& value) { return value ? number(*value) : "null"; };
    const std::string series = list(chart.series, [](const ChartSeries& one) {
      return fmt::format("{{\"name\":{},\"role\":\"{}\",\"values\":{}}}", json::quoted(one.name), name(one.role),
                         numbers(one.values));
    });
    return fmt::format(
        "{{\"kind\":\"chart\",\"title\":{},\"note\":{},\"x_label\":{},\"points\":{},\"y_min\":{},\"y_max\":{},\"x\":{},"
        "\"series\":{}}}",
        json::quoted(chart.title), json::quoted(chart.note), json::quoted(chart.x_label),
        chart.points > 0 ? chart.points : chart.x.size(), end(chart.y_min), end(chart.y_max), numbers(chart.x), series);
  }
  std::string operator()(const Table& table) const {
    const std::string rows = list(
        table.rows, [](const auto& row) { return list(row, json::quoted); });
    return fmt::format(
        "{{\"kind\":\"table\",\"title\":{},\"note\":{},\"columns\":{},\"rows\":{},\"bar_columns\":{},\"shades\":{}}}",
        json::quoted(table.title), json::quoted(table.note), list(table.columns, json::quoted), rows,
        list(table.bar_columns, [](std::size_t column) { return std::to_string(column); }),
        list(table.shades, numbers));
  }
  std::string operator()(const Intervals& plot) const {
    const std::string rows = list(plot.rows, [](const Interval& one) {
      return fmt::format("{{\"label\":{},\"low\":{},\"mean\":{},\"high\":{},\"words\":{}}}", json::quoted(one.label),
                         number(one.low), number(one.mean), number(one.high), json::quoted(one.words));
    });
    return fmt::format(
        "{{\"kind\":\"intervals\",\"title\":{},\"note\":{},\"margin\":{},\"from\":{},\"to\":{},\"ticks\":{},\"rows\":{}"
        "}}",
        json::quoted(plot.title), json::quoted(plot.note), number(plot.margin), number(plot.from), number(plot.to),
        numbers(plot.ticks), rows);
  }
  std::string operator()(const Images& images) const {
    return "{\"kind\":\"images\",\"images\":" +
           list(
               images,
               [](const Image& image) {
                 return fmt::format("{{\"caption\":{},\"source\":\"data:{};base64,{}\"}}", json::quoted(image.caption),
                                    image.media_type, base64(image.bytes));
               }) +
           "}";
  }
  std::string operator()(const Text& text) const {
    return fmt::format("{{\"kind\":\"text\",\"title\":{},\"content\":{}}}", json::quoted(text.title),
                       json::quoted(text.content));
  }
};

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t position = 0; position < bytes.size(); position += 3) {
    unsigned group = 0;
    for (std::size_t byte = 0; byte < 3; ++byte)
      group = group << 8 | (position + byte < bytes.size() ? static_cast<unsigned char>(bytes[position + byte]) : 0u);
    for (std::size_t letter = 0; letter < 4; ++letter)
      text += position + letter <= bytes.size() ? kLetters[group >> (18 - 6 * letter) & 63] : '=';
  }
  return text;
}

std::string to_json(const Page& page) {
  const std::string tiles = list(
      page.tiles,
      [](const Tile& tile) {
        return fmt::format("{{\"label\":{},\"value\":{},\"detail\":{}}}", json::quoted(tile.label),
                           json::quoted(tile.value), json::quoted(tile.detail));
      });
  const std::string sections = list(page.sections, [](const Section& section) {
    return fmt::format("{{\"title\":{},\"lead\":{},\"folded\":{},\"blocks\":{}}}", json::quoted(section.title),
                       json::quoted(section.lead), section.folded,
                       list(section.blocks, [](const Block& block) { return std::visit(BlockWriter{}, block); }));
  });
  return fmt::format("{{\"title\":{},\"subtitle\":{},\"refresh_seconds\":{},\"tiles\":{},\"sections\":{}}}",
                     json::quoted(page.title), json::quoted(page.subtitle), number(page.refresh_seconds), tiles,
                     sections);
}

}  // namespace camber::report
