#include "camber/runs/fewshot_source.h"

#include <cstdlib>
#include <set>
#include <stdexcept>

#include "camber/config/names.h"
#include "camber/episodes/tabular_sets.h"

namespace camber::runs {
namespace {

episodes::ExampleSet read_set(const SourceOptions& options, const std::string& path, const std::string& split) {
  const episodes::ImageSetOptions images{
      .path = find_data(path), .size = options.size, .colour = options.colour, .ink = options.ink};
  switch (options.kind) {
    case SourceKind::kGlyphs:
      return glyph_set(options.glyphs, static_cast<std::uint64_t>(options.split_seed));
    case SourceKind::kOmniglot:
      return episodes::read_omniglot(images);
    case SourceKind::kDomainFolders:
      return episodes::read_domain_folder(images);
    case SourceKind::kImageFolders:
      return episodes::read_image_folder(images);
    case SourceKind::kLibFewShot:
      return episodes::read_libfewshot(images, split);
    case SourceKind::kLetter:
      return episodes::read_letter(images.path);
    case SourceKind::kFeatures:
      return episodes::read_features(images.path);
  }
  throw std::logic_error("[source] unknown kind");
}

std::string some_of(std::vector<std::string> names) {
  const std::size_t all = names.size();
  if (all > 3) names.resize(3);
  return config::join_names(names, ", ") + (all > 3 ? ", ..." : "");
}

// A target domain apart, of the source domains a share of every class apart.
void hold_out_domain(const SourceOptions& options, const episodes::ExampleSet& all, const random::Stream& stream,
                     EpisodeData& result) {
  const std::vector<std::string> target{options.target_domain};
  const auto sources = episodes::select_domains(all, target, /*others=*/true);
  if (sources.num_domains() < 2)
    throw std::invalid_argument("[source] target_domain must leave two domains or more to learn from, and leaves " +
                                std::to_string(sources.num_domains()));
  auto parts = episodes::split_examples(sources, options.held_out_share, stream.at("examples"));
  result.train = std::move(parts.second);
  std::vector<std::int64_t> kept;
  const std::set<std::string> held(parts.first.origins.begin(), parts.first.origins.end());
  for (std::int64_t i = 0; i < all.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::string& domain = all.domain_names[static_cast<std::size_t>(all.domain_of[at])];
    if (domain == options.target_domain || held.contains(all.origins[at])) kept.push_back(i);
  }
  result.test = episodes::select_examples(all, kept, all.name);
  result.support_domains = sources.domain_names;
  result.query_domains = target;
  result.setting = "domain generalisation over the same " + std::to_string(all.num_classes()) + " classes";
  result.notes.push_back("support from held-out images of " + config::join_names(sources.domain_names, ", ") +
                         "; queries from " + options.target_domain + ", which training never saw");
}

void refuse_or_drop_shared(const SourceOptions& options, EpisodeData& result) {
  const auto shared = episodes::shared_classes(result.train, result.test);
  if (shared.empty()) return;
  const std::string sentence = std::to_string(shared.size()) + " of the test's " +
                               std::to_string(result.test.num_classes()) + " classes are training classes too (" +
                               some_of(shared) + ")";
  if (!options.drop_shared_classes)
    throw std::invalid_argument("[source] training and test must have no class in common, but " + sentence +
                                ": set drop_shared_classes to leave them out of the test");
  result.test = episodes::select_classes(result.test, shared, /*others=*/true);
  result.notes.push_back(sentence + " and were left out of the test");
}

}  // namespace

std::filesystem::path find_data(const std::string& path) {
  std::filesystem::path given(path);
  if (given.is_absolute() || std::filesystem::exists(given)) return given;
  const char* root = std::getenv("CAMBER_DATA");
  const auto below = std::filesystem::path(root != nullptr && *root != '\0' ? root : "../shared/data") / given;
  return std::filesystem::exists(below) ? below : given;
}

episodes::ExampleSet glyph_set(const simulation::GlyphOptions& options, std::uint64_t seed) {
  options.validate();
  episodes::ExampleSet set{.name = "glyphs", .shape = {1, options.size, options.size}};
  for (std::int64_t c = 0; c < options.classes; ++c)
    for (const std::string& domain : options.domains)
      for (std::int64_t hand = 0; hand < options.hands; ++hand)
        set.add(simulation::draw_glyph(options, seed, c, hand, domain), "glyph" + std::to_string(c), domain,
                std::to_string(c) + "/" + domain + "/" + std::to_string(hand));
  return set;
}

EpisodeData load_episode_data(const SourceOptions& options) {
  options.validate();
  const random::Stream stream(static_cast<std::uint64_t>(options.split_seed), "fewshot.split");
  EpisodeData result{.setting = "novel classes"};
  auto all = read_set(options, options.path, "train");
  if (!options.target_domain.empty()) {
    hold_out_domain(options, all, stream, result);
  } else if (!options.test_path.empty() || options.kind == SourceKind::kLibFewShot) {
    result.train = std::move(all);
    result.test = read_set(options, options.test_path.empty() ? options.path : options.test_path, "test");
    refuse_or_drop_shared(options, result);
  } else {
    auto parts = episodes::split_classes(all, options.test_classes, stream.at("classes"));
    result.test = std::move(parts.first);
    result.train = std::move(parts.second);
  }
  if (options.validation_classes > 0) {
    auto parts = episodes::split_classes(result.train, options.validation_classes, stream.at("validation"));
    result.train = std::move(parts.second);
    if (options.test_on_validation) {
      result.test = std::move(parts.first);
      result.notes.push_back("tested on " + std::to_string(options.validation_classes) +
                             " classes held out of the training set, to choose settings by");
    }
  }
  const auto shared = episodes::shared_examples(result.train, result.test);
  if (!shared.empty() && options.test_path.empty())
    throw std::logic_error("[source] training and test share " + some_of(shared));
  if (!options.runs_path.empty() && !options.test_on_validation)
    result.runs = episodes::read_omniglot_runs(
        {.path = find_data(options.runs_path), .size = options.size, .colour = options.colour, .ink = options.ink});
  if (options.rotations) result.train = episodes::add_rotations(result.train);
  return result;
}

}  // namespace camber::runs
