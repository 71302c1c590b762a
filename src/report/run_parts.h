#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "camber/health/records.h"
#include "camber/report/run_report.h"

/// The sections of a run's page.
namespace camber::report {

using SeriesByName = std::map<std::string, health::Series>;

/// Sections drawn from the curves of metrics.jsonl; those without a curve are left out.
std::vector<Section> curve_sections(const SeriesByName& series, const RunReportOptions& options);

/// Results, precision over recall, images.
std::vector<Section> result_sections(const std::filesystem::path& run, const SeriesByName& series,
                                     const RunReportOptions& options);

/// A chart of one series, or none when it is not there.
void add_chart(Section& section, Chart chart, const std::vector<RawSeries>& series, std::size_t points);

/// What a finished run reached, in one value: mAP, or the accuracy of a few-shot run's first setting.
std::optional<Tile> result_tile(const std::filesystem::path& run);

/// How a scale is called on the page: without the path that every detector's has, "segment scale".
std::string scale_words(const std::string& name);
/// "segments/lidar" is added to a whole sensor, "lidar" in windows on it: "lidar as a whole", "lidar".
std::string bias_words(const std::string& name);
/// A scale's name as a heading: "Scale bias", "Segment scale", "Locality scale".
std::string scale_heading(const std::string& name);

/// "12,345"; "0.4213"; four significant digits.
std::string readable(double value);
/// "52.3 %".
std::string percent(double share);

}  // namespace camber::report
