#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <camber/episodes/example_set.h>
#include <camber/episodes/image_sets.h>
#include <camber/runs/fewshot_options.h>

namespace camber::runs {

/// The data of a run, divided.
struct EpisodeData {
  episodes::ExampleSet train{};
  episodes::ExampleSet test{};
  std::optional<episodes::FixedEpisodes> runs{};
  std::vector<std::string> support_domains{};  ///< of the test, in the domain setting
  std::vector<std::string> query_domains{};
  std::string setting{};             ///< "novel classes" or "domain generalisation over the same 7 classes"
  std::vector<std::string> notes{};  ///< what a reader must know: classes dropped because training has them, ...
};

/// Reads and divides. Training and test never share an example (checked); where they share a class that is not by
/// design, it is a std::invalid_argument that counts and names them, or, with drop_shared_classes, a note.
EpisodeData load_episode_data(const SourceOptions& options);

/// A relative path that does not exist here is looked for below CAMBER_DATA, by default ../shared/data.
std::filesystem::path find_data(const std::string& path);

/// The glyphs as a set of examples.
episodes::ExampleSet glyph_set(const simulation::GlyphOptions& options, std::uint64_t seed);

}  // namespace camber::runs
