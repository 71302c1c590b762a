#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "camber/report/page.h"
#include "camber/study/analysis.h"

namespace camber::report {

/// The page of a study, finished or not, from its records alone: gates, the primary comparison, arms by faults, the
/// forest plot of paired differences, controls, the price of wrong cues, scale and lean curves of all seeds, time.
/// Throws std::invalid_argument when the folder holds no study.
Page study_page(const std::filesystem::path& study);

/// Paired differences as an SVG picture: a row a comparison with its mean, its 95 % interval and its verdict, the zero
/// line and the margin of equivalence shaded.
std::string forest_plot(const study::StudyPlan& plan, const std::vector<study::Comparison>& comparisons);

}  // namespace camber::report
