#pragma once
#include <vector>

#include "camber/report/study_report.h"

/// What the page of a study and its images that stand alone both show.
namespace camber::report {

/// The comparison that was fixed beforehand, where there is one, and all others of the main arms.
std::vector<study::Comparison> main_comparisons(const study::StudyAnalysis& analysis);

/// The rows of forest_plot, in points.
Intervals intervals_of(const study::StudyPlan& plan, const std::vector<study::Comparison>& comparisons);

/// The cells of arm_map.
Table arm_table(const study::StudyResults& results);

}  // namespace camber::report
