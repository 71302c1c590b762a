#include "camber/nuscenes/splits.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>
#include <unordered_set>

#include "camber/json/file.h"
#include "camber/storage/file.h"

namespace camber::nuscenes {
namespace {

std::vector<std::string> read_names(json::Value value, std::string_view what) {
  std::vector<std::string> names;
  json::for_each_element(value, what,
                         [&](json::Value name) { names.emplace_back(json::text(name, "a scene's name")); });
  return names;
}

using SplitLists = std::map<std::string, std::vector<std::string>>;

SplitLists read_splits_file(const std::filesystem::path& path) {
  SplitLists splits;
  json::read_file(path, "find_split", [&](json::Value value) {
    json::for_each_field(value, "the list of splits", [&](std::string_view name, json::Value scenes) {
      const std::string key(name);
      splits[key] = read_names(scenes, "split '" + key + "'");
    });
  });
  return splits;
}

void choose_samples(const Dataset& dataset, Split& split) {
  split.samples = samples_of_scenes(dataset, split);
  if (split.samples.empty())
    throw std::invalid_argument("[find_split] split '" + split.name + "' (" + split.source + ") must name scenes of " +
                                (dataset.root() / dataset.version()).string() + ", but no sample is in its " +
                                std::to_string(split.scenes.size()) + " scenes");
}

}  // namespace

std::vector<Index> samples_of_scenes(const Dataset& dataset, const Split& split) {
  const std::unordered_set<std::string_view> wanted(split.scenes.begin(), split.scenes.end());
  const Tables& tables = dataset.tables();
  std::vector<Index> samples;
  for (std::size_t row = 0; row < tables.sample.size(); ++row) {
    const Sample& sample = tables.sample[static_cast<Index>(row)];
    if (wanted.contains(tables.scene[sample.scene].name)) samples.push_back(static_cast<Index>(row));
  }
  return samples;
}

std::vector<Index> fault_pool(const Dataset& dataset, const Split& split) {
  const Tables& tables = dataset.tables();
  const bool several = std::any_of(split.samples.begin(), split.samples.end(), [&](Index sample) {
    return tables.sample[sample].scene != tables.sample[split.samples.front()].scene;
  });
  return several ? split.samples : samples_of_scenes(dataset, split);
}

Split find_split(const Dataset& dataset, const std::string& name) {
  const std::string_view ending = official_version_ending(name);
  if (!ending.empty() && dataset.version().ends_with(ending)) {
    Split split{.name = name, .source = "official", .official = true, .scenes = official_split(name)};
    choose_samples(dataset, split);
    return split;
  }
  std::vector<std::string> known;
  for (const std::filesystem::path& folder : {dataset.root() / dataset.version(), dataset.root()}) {
    const std::filesystem::path file = folder / "splits.json";
    if (!std::filesystem::exists(file)) continue;
    const SplitLists splits = read_splits_file(file);
    if (const auto found = splits.find(name); found != splits.end()) {
      Split split{.name = name, .source = file.string(), .scenes = found->second};
      choose_samples(dataset, split);
      return split;
    }
    for (const auto& [other, scenes] : splits) known.push_back(other);
  }
  if (ending.empty()) {
    for (const std::string& official : official_split_names()) known.push_back(official);
    std::string list;
    for (const std::string& other : known) list += (list.empty() ? "" : ", ") + other;
    throw std::invalid_argument("[find_split] split must be one of " + list + ", got '" + name + "'");
  }
  throw std::invalid_argument("[find_split] the official split '" + name + "' wants a version that ends in '" +
                              std::string(ending) + "', got '" + dataset.version() + "'");
}

Split read_scenes(const Dataset& dataset, const std::filesystem::path& file) {
  Split split{.name = file.stem().string(), .source = file.string()};
  std::istringstream stream(storage::read_file(file));
  if ((stream >> std::ws).peek() == '[') {
    json::read_file(
        file, "read_scenes", [&](json::Value value) { split.scenes = read_names(value, "the list of scenes"); });
  } else {
    std::string line;
    while (std::getline(stream, line)) {
      while (!line.empty() && static_cast<unsigned char>(line.back()) <= ' ') line.pop_back();
      if (!line.empty()) split.scenes.push_back(line);
    }
  }
  std::unordered_set<std::string_view> known;
  for (const Scene& scene : dataset.tables().scene) known.insert(scene.name);
  for (const std::string& scene : split.scenes)
    if (!known.contains(scene))
      throw std::invalid_argument("[read_scenes] " + file.string() + " must name scenes of the data set, got '" +
                                  json::shown_text(scene) + "'");
  choose_samples(dataset, split);
  return split;
}

bool has_splits(const Dataset& dataset) {
  for (const std::filesystem::path& folder : {dataset.root() / dataset.version(), dataset.root()})
    if (std::filesystem::exists(folder / "splits.json")) return true;
  const std::vector<std::string> names = official_split_names();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return dataset.version().ends_with(official_version_ending(name));
  });
}

Split split_for(const Dataset& dataset, const std::string& name, SplitRole role) {
  if (has_splits(dataset)) return find_split(dataset, name);
  Split split = whole_data_set(dataset);
  const std::size_t count = split.scenes.size();
  if (count < 2) {
    split.source = "no splits.json, one scene: it trains and validates";
    return split;
  }
  constexpr std::size_t kEvery = 5;
  std::vector<std::string> chosen;
  for (std::size_t i = 0; i < count; ++i) {
    const bool validates = count < kEvery ? i + 1 == count : i % kEvery == kEvery - 1;
    if (validates == (role == SplitRole::kValidation)) chosen.push_back(split.scenes[i]);
  }
  split.name = name;
  split.source =
      count < kEvery ? "no splits.json: the last scene validates" : "no splits.json: every fifth scene validates";
  split.scenes = std::move(chosen);
  choose_samples(dataset, split);
  return split;
}

Split whole_data_set(const Dataset& dataset) {
  Split split{.name = "all", .source = "every scene"};
  for (const Scene& scene : dataset.tables().scene) split.scenes.emplace_back(scene.name);
  choose_samples(dataset, split);
  return split;
}

}  // namespace camber::nuscenes
