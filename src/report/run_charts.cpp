#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "report/run_parts.h"

namespace camber::report {
namespace {

// Whether a name is one head's ("layer0/head3"); parts of a model may be called head too ("head.attention_bias.scale").
bool of_one_head(std::string_view label) {
  for (std::size_t at = label.find("head"); at != std::string_view::npos; at = label.find("head", at + 1)) {
    const bool begins = at == 0 || label[at - 1] == '/';
    if (begins && at + 4 < label.size() && label[at + 4] >= '0' && label[at + 4] <= '9') return true;
  }
  return false;
}

// One series a name that begins and ends so; what lies between is its label.
std::vector<RawSeries> matching(const SeriesByName& series, std::string_view prefix, std::string_view suffix) {
  std::vector<RawSeries> found;
  for (const auto& [name, one] : series) {
    if (name.size() <= prefix.size() + suffix.size() || !name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    const std::string label = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    if (!of_one_head(label)) found.push_back({label, one.steps, one.values});
  }
  return found;
}

void add_if_there(std::vector<RawSeries>& list, const SeriesByName& series, const std::string& name,
                  const std::string& label, SeriesRole role = SeriesRole::kLine) {
  if (const auto found = series.find(name); found != series.end())
    list.push_back({label, found->second.steps, found->second.values, role});
}

std::set<std::string> groups(const SeriesByName& series, std::string_view prefix, std::string_view field) {
  std::set<std::string> names;
  for (const RawSeries& one : matching(series, prefix, field)) names.insert(one.name);
  return names;
}

// The curve of every scale first, what explains it after.
Section scale_section(const SeriesByName& series, const RunReportOptions& options) {
  Section section{.title = "Scale",
                  .lead =
                      "The learnable scale step by step, between its bounds. It should settle inside them and below "
                      "the warn line."};
  const std::set<std::string> names = groups(series, "scale/", "/value");
  for (const std::string& name : names) {
    const std::string group = "scale/" + name + "/";
    std::vector<RawSeries> course;
    add_if_there(course, series, group + "value", "scale");
    add_if_there(course, series, group + "min", "min", SeriesRole::kBound);
    add_if_there(course, series, group + "max", "max", SeriesRole::kBound);
    add_if_there(course, series, group + "warn_threshold", "warn", SeriesRole::kWarn);
    add_chart(section, {.title = scale_heading(name)}, course, options.points);
  }
  for (const std::string& name : names) {
    std::vector<RawSeries> gradient;
    add_if_there(gradient, series, "scale/" + name + "/gradient", "gradient");
    add_chart(section,
              {.title = "Gradient of " + scale_words(name),
               .note = "of the raw value; 0 for long means that it cannot learn"},
              gradient, options.points);
  }
  for (const std::string& name : names) {
    std::vector<RawSeries> bound;
    add_if_there(bound, series, "scale/" + name + "/headroom", "headroom");
    add_if_there(bound, series, "scale/" + name + "/at_bound", "steps at a bound");
    add_chart(section,
              {.title = "Room of " + scale_words(name),
               .note = "share of the range left above; share of all steps held at a bound",
               .y_min = 0,
               .y_max = 1},
              bound, options.points);
  }
  return section;
}

// One chart a sensor over all layers, and one with a line a layer where the run told of layers.
void add_biases(Section& section, const SeriesByName& series, const RunReportOptions& options) {
  std::map<std::string, std::vector<RawSeries>> by_layer;
  for (const RawSeries& one : matching(series, "effective_bias/layer", "/mean")) {
    const std::size_t slash = one.name.find('/');
    by_layer[one.name.substr(slash + 1)].push_back({"layer" + one.name.substr(0, slash), one.x, one.values});
  }
  for (const std::string& name : groups(series, "effective_bias/", "/mean")) {
    if (name.starts_with("layer")) continue;
    std::vector<RawSeries> bias;
    add_if_there(bias, series, "effective_bias/" + name + "/p05", "5th percentile", SeriesRole::kBandLow);
    add_if_there(bias, series, "effective_bias/" + name + "/p95", "95th percentile", SeriesRole::kBandHigh);
    add_if_there(bias, series, "effective_bias/" + name + "/p50", "median");
    add_if_there(bias, series, "effective_bias/" + name + "/mean", "mean");
    const bool whole = name.starts_with("segments/");
    add_chart(section,
              {.title = "Effective bias, " + bias_words(name),
               .note = whole ? "|w| * segment scale, over queries" : "|w| * scale * g, over queries"},
              bias, options.points);
    add_chart(section, {.title = "Effective bias by layer, " + bias_words(name), .note = "means"}, by_layer[name],
              options.points);
  }
}

Section bias_section(const SeriesByName& series, const RunReportOptions& options) {
  Section section{.title = "Bias and trust",
                  .lead =
                      "What the scale and the router's weights make together: the bias that scores really got, and how "
                      "far each sensor is trusted."};
  add_biases(section, series, options);
  add_chart(section,
            {.title = "Mean trust", .note = "+1 trusts fully, -1 not at all, 0 is no bias", .y_min = -1, .y_max = 1},
            matching(series, "trust/", "/mean"), options.points);
  add_chart(section,
            {.title = "Spread of trust", .note = "standard deviation over queries: 0 means one answer for all"},
            matching(series, "trust/", "/std"), options.points);
  add_chart(section,
            {.title = "Agreement of the sensors",
             .note = "correlation of their heat maps, mean over the frames of a batch: faulty frames pull it down"},
            matching(series, "agreement/", "/mean"), options.points);
  return section;
}

// The mean over layers of each sensor's mass, and the layers' own.
void add_mass(Section& section, const SeriesByName& series, const RunReportOptions& options) {
  std::map<std::string, std::vector<RawSeries>> by_sensor;
  for (const auto& [name, one] : series) {
    const std::size_t mass = name.find("/mass/");
    if (!name.starts_with("attention/") || mass == std::string::npos || name.find("/head") != std::string::npos)
      continue;
    by_sensor[name.substr(mass + 6)].push_back({name.substr(10, mass - 10), one.steps, one.values});
  }
  for (const auto& [sensor, layers] : by_sensor)
    add_chart(section,
              {.title = "Attention on " + sensor, .note = "share of the mass, by layer", .y_min = 0, .y_max = 1},
              layers, options.points);
}

Section attention_section(const SeriesByName& series, const RunReportOptions& options) {
  Section section{.title = "Attention",
                  .lead = "Is the softmax alive? Taken from the attention that the model really used, before dropout."};
  const auto add = [&](const std::string& field, Chart chart) {
    add_chart(section, std::move(chart), matching(series, "attention/", "/" + field), options.points);
  };
  add("entropy_share",
      {.title = "Entropy", .note = "H / ln(keys left): 1 looks everywhere, 0 at one key", .y_min = 0, .y_max = 1});
  add("saturated", {.title = "Saturated rows", .note = "share of rows with a weight over 0.9", .y_min = 0, .y_max = 1});
  add("largest_weight", {.title = "Largest weight", .note = "mean over rows", .y_min = 0, .y_max = 1});
  add("change",
      {.title = "Attention moved by the bias", .note = "half of the sum of |p - p0|", .y_min = 0, .y_max = 1});
  add_mass(section, series, options);
  return section;
}

Section heads_section(const SeriesByName& series, const RunReportOptions& options) {
  Section section{.title = "Heads", .lead = "The same by head.", .folded = true};
  std::map<std::string, std::vector<RawSeries>> by_layer[2];
  constexpr std::string_view kFields[] = {"/entropy_share", "/saturated"};
  for (const auto& [name, one] : series) {
    const std::size_t head = name.find("/head");
    if (!name.starts_with("attention/") || head == std::string::npos) continue;
    for (int field = 0; field < 2; ++field)
      if (name.ends_with(kFields[field]) && name.find("/mass/") == std::string::npos)
        by_layer[field][name.substr(10, head - 10)].push_back(
            {name.substr(head + 1, name.size() - head - 1 - kFields[field].size()), one.steps, one.values});
  }
  for (int field = 0; field < 2; ++field)
    for (const auto& [layer, heads] : by_layer[field])
      add_chart(section, {.title = (field == 0 ? "Entropy, " : "Saturated rows, ") + layer, .y_min = 0, .y_max = 1},
                heads, options.head_points);
  return section;
}

Section loss_section(const SeriesByName& series, const RunReportOptions& options) {
  Section section{.title = "Training"};
  std::vector<RawSeries> total, norm, rate, seconds;
  add_if_there(total, series, "loss/total", "total");
  add_chart(section, {.title = "Loss"}, total, options.points);
  std::vector<RawSeries> terms = matching(series, "loss/", "");
  std::erase_if(terms, [](const RawSeries& one) { return one.name == "total"; });
  add_chart(section, {.title = "Terms of the loss"}, terms, options.points);
  add_if_there(norm, series, "gradient_norm", "norm");
  add_chart(section, {.title = "Gradient norm", .note = "of all groups, before clipping"}, norm, options.points);
  add_if_there(rate, series, "learning_rate", "learning rate");
  add_chart(section, {.title = "Learning rate"}, rate, options.points);
  add_if_there(seconds, series, "seconds_a_step", "seconds");
  add_chart(section, {.title = "Time of a step", .note = "seconds", .y_min = 0}, seconds, options.points);
  return section;
}

Section prototype_section(const SeriesByName& series, const RunReportOptions& options) {
  Section section{.title = "Prototypes"};
  const auto add = [&](const std::string& name, const Chart& chart) {
    std::vector<RawSeries> one;
    add_if_there(one, series, "prototypes/" + name, chart.title);
    add_chart(section, chart, one, options.points);
  };
  add("mean_cosine", {.title = "Mean cosine", .note = "between prototypes: near 1 they are alike, and no scale helps"});
  add("gate", {.title = "Gate", .y_min = 0, .y_max = 1});
  add("purification_ratio", {.title = "Purification ratio"});
  return section;
}

}  // namespace

std::string bias_words(const std::string& name) {
  constexpr std::string_view kSegments = "segments/";
  return name.starts_with(kSegments) ? name.substr(kSegments.size()) + " as a whole" : name;
}

std::string scale_words(const std::string& name) {
  constexpr std::string_view kUsual = "head.attention_bias.";
  std::string words = name.starts_with(kUsual) ? name.substr(kUsual.size()) : name;
  if (words.ends_with("scale"))
    for (char& letter : words)
      if (letter == '_' || letter == '.') letter = ' ';
  return words;
}

std::string scale_heading(const std::string& name) {
  std::string title = scale_words(name);
  if (!title.ends_with("scale")) return "Scale " + title;
  if (title[0] >= 'a' && title[0] <= 'z') title[0] = static_cast<char>(title[0] - 'a' + 'A');
  return title;
}

void add_chart(Section& section, Chart chart, const std::vector<RawSeries>& series, std::size_t points) {
  if (series.empty()) return;
  put_series(chart, series, points);
  section.blocks.emplace_back(std::move(chart));
}

std::vector<Section> curve_sections(const SeriesByName& series, const RunReportOptions& options) {
  std::vector<Section> sections = {scale_section(series, options),     bias_section(series, options),
                                   attention_section(series, options), heads_section(series, options),
                                   prototype_section(series, options), loss_section(series, options)};
  std::erase_if(sections, [](const Section& section) { return section.blocks.empty(); });
  return sections;
}

}  // namespace camber::report
