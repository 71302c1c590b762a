#pragma once
#include <filesystem>
#include <map>
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

/// "12,345"; "0.4213"; four significant digits.
std::string readable(double value);

}  // namespace camber::report
