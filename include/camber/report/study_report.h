#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "camber/report/page.h"
#include "camber/study/analysis.h"
#include "camber/study/results.h"

namespace camber::report {

/// The page of a study, finished or not, from its records alone: gates, the primary comparison, arms by faults, the
/// forest plot of paired differences, controls, the price of wrong cues, scale and bias curves of all seeds, time.
/// Throws std::invalid_argument when the folder holds no study.
Page study_page(const std::filesystem::path& study);

/// Paired differences as an SVG image: a row a comparison with its mean, its 95 % interval and its verdict, the zero
/// line and the margin of equivalence shaded.
std::string forest_plot(const study::StudyPlan& plan, const std::vector<study::Comparison>& comparisons);

/// mAP of every arm under every condition as an SVG image: a row an arm, a column a condition, the reference's mAP in
/// its row, in the others the difference in points (over the seeds that both have), blue where better, red where worse.
/// Arms from scratch stand beside the one from scratch that they name; one that names none shows its mAP.
std::string arm_map(const study::StudyResults& results);

/// An image of a study that stands alone.
struct StudyImage {
  std::string name{};  ///< of its file, without .svg
  std::string title{};
  std::string svg{};
};
/// arms, differences, exploratory, scales, trust: those for which there are records.
///
///   for (const StudyImage& image : study_images(study::read_study("study/records")))
///     storage::write_file("study/" + image.name + ".svg", image.svg);
std::vector<StudyImage> study_images(const study::StudyResults& results);

}  // namespace camber::report
