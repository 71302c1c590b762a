#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "camber/nuscenes/dataset.h"

namespace camber::nuscenes {

/// The names of the official splits: train, val, test, mini_train, mini_val, train_detect, train_track.
std::vector<std::string> official_split_names();
/// The scenes of an official split, "scene-0001" and so on in ascending order; empty when the name is none.
std::vector<std::string> official_split(std::string_view name);
/// The versions' ending that the devkit demands for an official split: "trainval", "mini" or "test".
std::string_view official_version_ending(std::string_view name);

/// A choice of scenes, and what follows from where it comes from.
struct Split {
  std::string name{};
  std::string source{};  ///< "official", or the file that lists its scenes
  /// Official splits: predictions must be for exactly the split's samples and keep the order of their file. Others:
  /// further samples are ignored, and predictions follow the sample table.
  bool official = false;
  std::vector<std::string> scenes{};
  std::vector<Index> samples{};  ///< rows of the sample table in its order
};

/// The split of that name: the official one where the version has its ending, as in the devkit; else from
/// <root>/<version>/splits.json, else from <root>/splits.json ({"name": ["scene-0001", ...]}). A name that is nowhere
/// is refused with the names there are.
Split find_split(const Dataset& dataset, const std::string& name);
/// The scenes that a file lists: one name a line, or a JSON list of names.
Split read_scenes(const Dataset& dataset, const std::filesystem::path& file);
/// All samples of a split's scenes, also of a split whose samples were cut down.
std::vector<Index> samples_of_scenes(const Dataset& dataset, const Split& split);
/// Where the faults of an evaluation take frames of other scenes from: the split's samples. Where those are of one
/// scene there is no other, and all samples of the split's scenes are taken.
std::vector<Index> fault_pool(const Dataset& dataset, const Split& split);
/// Whether anything says what the data set's splits are: a splits.json, or a version with an official ending.
bool has_splits(const Dataset& dataset);
enum class SplitRole { kTraining, kValidation };
/// find_split for a data set that has splits. For one that has none, every fifth scene validates and the others train;
/// of fewer than five the last validates; one scene alone does both. `source` says so.
Split split_for(const Dataset& dataset, const std::string& name, SplitRole role);
/// Every scene of the data set.
Split whole_data_set(const Dataset& dataset);

}  // namespace camber::nuscenes
