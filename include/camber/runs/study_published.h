#pragma once
#include <filesystem>
#include <functional>

#include <camber/runs/study_options.h>

namespace camber::runs {

/// A study as it is published: what its tables are made from, and the models that its arms start from. Another machine
/// goes on from there, or adds an arm to it, without training the bases again (they come out with other bits on another
/// instruction set).
struct PublishedStudy {
  std::filesystem::path path{};

  std::filesystem::path records() const { return path / "records"; }
  std::filesystem::path base(std::int64_t seed) const {
    return path / "bases" / (StudyRun{kBase, seed}.key() + ".safetensors");
  }
};

/// Copies the plan, all records and the base models' weights of a study's folder.
void publish(const StudyFolder& from, const PublishedStudy& to);

/// Takes over the records of runs whose arm is planned, and their base models, where the study's folder has none.
/// Throws std::invalid_argument when nothing is published there.
void import_published(const PublishedStudy& from, const StudyFolder& to,
                      const std::function<bool(const std::string& arm)>& is_planned);

/// Takes over base models alone, for a study that evaluates them anew, where the study's folder has none. Throws
/// std::invalid_argument when one of them is not published, and std::runtime_error when its weights are not those of
/// its record.
void import_bases(const PublishedStudy& from, const StudyFolder& to, const std::vector<StudyRun>& bases);

}  // namespace camber::runs
