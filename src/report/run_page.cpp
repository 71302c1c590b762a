#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "camber/health/run_diagnosis.h"
#include "camber/storage/file.h"
#include "report/run_parts.h"

namespace camber::report {
namespace {

std::string grouped(std::int64_t value) {
  std::string text = std::to_string(value);
  for (std::ptrdiff_t position = static_cast<std::ptrdiff_t>(text.size()) - 3; position > 0; position -= 3)
    text.insert(static_cast<std::size_t>(position), ",");
  return text;
}

std::string duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

double last_value(const SeriesByName& series, const std::string& name) {
  const auto found = series.find(name);
  return found == series.end() || found->second.values.empty() ? std::nan("") : found->second.values.back();
}

Section health_section(const health::Findings& findings) {
  Section section{.title = "Health"};
  Sentences sentences;
  for (const health::Finding& finding : findings)
    sentences.push_back({.severity = std::string(name(finding.severity)),
                         .text = finding.sentence,
                         .position = "step " + grouped(finding.step)});
  if (sentences.empty())
    sentences.push_back({.severity = "good",
                         .text = "No rule had anything to say: scale, softmax, gradient and trust "
                                 "stayed within their limits.",
                         .position = "whole run"});
  section.blocks.emplace_back(std::move(sentences));
  return section;
}

std::string health_words(const health::Findings& findings) {
  std::string words;
  for (const health::Severity severity :
       {health::Severity::kAlarm, health::Severity::kWarning, health::Severity::kNote}) {
    const auto count = std::count_if(findings.begin(), findings.end(), [severity](const health::Finding& finding) {
      return finding.severity == severity;
    });
    if (count > 0)
      words += fmt::format("{}{} {}{}", words.empty() ? "" : ", ", count, name(severity), count > 1 ? "s" : "");
  }
  return words.empty() ? "nothing to say" : words;
}

std::vector<Tile> scale_tiles(const SeriesByName& series) {
  constexpr std::size_t kMost = 3;  // one a head would fill the page
  std::vector<Tile> tiles;
  for (const auto& [name, one] : series) {
    if (!name.starts_with("scale/") || !name.ends_with("/value") || one.values.empty()) continue;
    const std::string group = name.substr(0, name.size() - 5);
    tiles.push_back({scale_heading(name.substr(6, name.size() - 12)), readable(one.values.back()),
                     "bounds " + readable(last_value(series, group + "min")) + " to " +
                         readable(last_value(series, group + "max"))});
    if (tiles.size() == kMost) break;
  }
  return tiles;
}

std::vector<Tile> tiles_of(const std::filesystem::path& run, const std::vector<health::Record>& records,
                           const SeriesByName& series, const health::Findings& findings) {
  std::vector<Tile> tiles;
  if (!records.empty()) {
    const double seconds = records.back().time - records.front().time;
    tiles.push_back({"Steps", grouped(records.back().step), "in " + duration(seconds)});
  }
  if (const auto loss = series.find("loss/total"); loss != series.end())
    tiles.push_back({"Loss", readable(loss->second.values.back()), "from " + readable(loss->second.values.front())});
  for (Tile& tile : scale_tiles(series)) tiles.push_back(std::move(tile));
  if (auto reached = result_tile(run))
    tiles.push_back(std::move(*reached));
  else if (series.contains("validation/mean_ap"))
    tiles.push_back({"mAP", percent(last_value(series, "validation/mean_ap")),
                     "NDS " + percent(last_value(series, "validation/nd_score"))});
  tiles.push_back(
      {"Health", findings.empty() ? "good" : std::string(name(findings.front().severity)), health_words(findings)});
  return tiles;
}

void add_texts(std::vector<Section>& sections, const std::filesystem::path& run) {
  Section section{.title = "Configuration", .folded = true};
  for (const auto& [file, title] :
       {std::pair{"config.toml", "Configuration as used"}, {"environment.json", "Environment"}})
    if (std::filesystem::exists(run / file)) {
      storage::check_inside(run, run / file);
      section.blocks.emplace_back(Text{title, storage::read_file(run / file)});
    }
  if (!section.blocks.empty()) sections.push_back(std::move(section));
}

}  // namespace

std::string readable(double value) {
  if (!std::isfinite(value)) return "not finite";
  if (std::abs(value) >= 10000) return grouped(std::llround(value));
  return fmt::format("{:.4g}", value);
}

std::string percent(double share) {
  return std::isfinite(share) ? fmt::format("{:.1f} %", 100 * share) : "not finite";
}

Page run_page(const std::filesystem::path& run, const RunReportOptions& options) {
  if (!std::filesystem::exists(run / "metrics.jsonl"))
    throw std::invalid_argument(
        fmt::format("[report] PATH must be the folder of a run with metrics.jsonl, got {}", run.string()));
  const std::vector<health::Record> records = health::read_records(run / "metrics.jsonl");
  const SeriesByName series = health::to_series(records);
  const health::Findings findings = health::diagnose(records, health::read_findings(run / "health.jsonl")).findings;
  const bool finished = std::filesystem::exists(run / "result.json");
  const std::filesystem::path named = run.has_filename() ? run : run.parent_path();
  Page page{.title = named.filename().string(),
            .subtitle = finished ? "a finished run" : "a run without a result yet",
            .tiles = tiles_of(run, records, series, findings),
            .refresh_seconds = finished ? 0 : options.refresh_seconds};
  constexpr double kYear9999 = 253402300800;  // seconds
  if (!records.empty() && records.back().time >= 0 && records.back().time < kYear9999)
    page.subtitle +=
        fmt::format(", last record {:%Y-%m-%d %H:%M} UTC", fmt::gmtime(static_cast<std::time_t>(records.back().time)));
  // The scale first: it is what a run of this library is about.
  std::vector<Section> curves = curve_sections(series, options);
  const bool scaled = !curves.empty() && curves.front().title == "Scale";
  if (scaled) page.sections.push_back(std::move(curves.front()));
  page.sections.push_back(health_section(findings));
  for (Section& section : result_sections(run, series, options)) page.sections.push_back(std::move(section));
  for (std::size_t i = scaled ? 1 : 0; i < curves.size(); ++i) page.sections.push_back(std::move(curves[i]));
  add_texts(page.sections, run);
  return page;
}

}  // namespace camber::report
