#include <algorithm>
#include <set>
#include <stdexcept>

#include <camber/eval/detection_box.h>
#include <camber/random/stream.h>
#include <camber/runs/class_balance.h>
#include <fmt/format.h>

namespace camber::runs {
namespace {

// Classes that a frame shows, by their index in the list.
std::set<std::size_t> classes_in(const nuscenes::Dataset& dataset, nuscenes::Index sample,
                                 const std::vector<std::string>& classes) {
  std::set<std::size_t> shown;
  for (const nuscenes::Index row : dataset.tables().annotations_of(sample)) {
    const nuscenes::SampleAnnotation& annotation = dataset.tables().sample_annotation[row];
    const auto known = eval::class_of_category(dataset.category_of(annotation));
    if (!known || annotation.lidar_points + annotation.radar_points <= 0) continue;
    const auto at = std::find(classes.begin(), classes.end(), eval::name_of(*known));
    if (at != classes.end()) shown.insert(static_cast<std::size_t>(at - classes.begin()));
  }
  return shown;
}

}  // namespace

std::string ClassBalance::text() const {
  std::string rows, absent;
  for (const Class& entry : classes)
    if (entry.frames == 0)
      absent += (absent.empty() ? "; in no frame: " : ", ") + entry.name;
    else
      rows += fmt::format("{}{} {}", rows.empty() ? "" : ", ", entry.name, entry.frames);
  const auto each = std::max_element(classes.begin(), classes.end(), [](const Class& a, const Class& b) {
                      return a.drawn < b.drawn;
                    })->drawn;
  return fmt::format("class balance: {} frames drawn, {} for each class; frames that show it: {}{}", samples.size(),
                     each, rows, absent);
}

ClassBalance balance_classes(const nuscenes::Dataset& dataset, const std::vector<nuscenes::Index>& samples,
                             const std::vector<std::string>& classes, std::uint64_t seed) {
  std::vector<std::vector<nuscenes::Index>> frames_of(classes.size());
  for (const nuscenes::Index sample : samples)
    for (const std::size_t shown : classes_in(dataset, sample, classes)) frames_of[shown].push_back(sample);
  std::size_t occurrences = 0, occurring = 0;
  for (const auto& frames : frames_of) {
    occurrences += frames.size();
    occurring += frames.empty() ? 0 : 1;
  }
  if (occurring == 0) {
    throw std::invalid_argument(
        fmt::format("[train] data.class_balance must find an object of the detector's classes, got none in {} frames",
                    samples.size()));
  }
  ClassBalance balance;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto& frames = frames_of[i];
    const std::size_t drawn = frames.empty() ? 0 : occurrences / occurring;
    random::Stream stream = random::Stream(seed, "data.class_balance").at(classes[i]);
    for (std::size_t k = 0; k < drawn; ++k) balance.samples.push_back(frames[stream.integer(frames.size())]);
    balance.classes.push_back({classes[i], static_cast<std::int64_t>(frames.size()), static_cast<std::int64_t>(drawn)});
  }
  return balance;
}

}  // namespace camber::runs
