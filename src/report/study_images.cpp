#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "camber/drawing/chart.h"
#include "report/study_parts.h"

namespace camber::report {
namespace {

bool moves(const study::RunCurve& curve) {
  return !curve.values.empty() && std::ranges::any_of(
                                      curve.values, [&](double one) { return one != curve.values[0]; });
}

// Every curve of that name that moves, of the arms of one role: one colour an arm, one line a seed.
drawing::LineChart chart_of(const study::StudyResults& results, study::ArmRole role, const std::string& curve) {
  drawing::LineChart chart{.title = fmt::format("{}, all seeds", curve), .x = {.title = "step"}, .y = {.title = curve}};
  std::size_t colour = 0;
  for (const study::StudyArm& arm : results.plan.arms) {
    if (arm.role != role) continue;
    bool named = false;
    for (const study::RunRecord& record : results.records) {
      const auto found = record.curves.find(curve);
      if (record.arm != arm.name || found == record.curves.end() || !moves(found->second)) continue;
      drawing::Series series{.name = named ? "" : arm.shown(), .colour = drawing::series_colour(colour)};
      for (std::size_t i = 0; i < found->second.values.size(); ++i)
        series.points.push_back({static_cast<double>(found->second.steps[i]), found->second.values[i]});
      chart.series.push_back(std::move(series));
      named = true;
    }
    colour += named ? 1 : 0;
  }
  return chart;
}

// The charts of all curves that begin and end so, below each other; empty when no run has one.
std::string charts_of(const study::StudyResults& results, std::initializer_list<study::ArmRole> roles,
                      const std::string& prefix, const std::string& ending) {
  std::set<std::string> names;
  for (const study::RunRecord& record : results.records)
    for (const auto& [name, curve] : record.curves)
      if (name.starts_with(prefix) && name.ends_with(ending) && moves(curve)) names.insert(name);
  std::vector<drawing::LineChart> charts;
  for (const study::ArmRole role : roles)
    for (const std::string& name : names)
      if (drawing::LineChart chart = chart_of(results, role, name); !chart.series.empty())
        charts.push_back(std::move(chart));
  return charts.empty() ? "" : to_svg(charts);
}

}  // namespace

std::vector<StudyImage> study_images(const study::StudyResults& results) {
  using enum study::ArmRole;
  const study::StudyAnalysis analysis = study::analyze(results.plan, results.records);
  const std::vector<study::Comparison> main = main_comparisons(analysis);
  std::vector<StudyImage> images = {{"arms", "Arms by faults", arm_map(results)}};
  if (!main.empty())
    images.push_back({"differences", "Main arms; the first row was fixed beforehand", forest_plot(results.plan, main)});
  if (!analysis.exploratory.empty())
    images.push_back({"exploratory", "Exploratory rows", forest_plot(results.plan, analysis.exploratory)});
  images.push_back({"scales", "The scales of all seeds", charts_of(results, {kMain, kNotes}, "scale/", "/value")});
  images.push_back({"trust", "The trust of all seeds", charts_of(results, {kMain}, "trust/", "/mean")});
  std::erase_if(images, [](const StudyImage& image) { return image.svg.empty(); });
  return images;
}

}  // namespace camber::report
