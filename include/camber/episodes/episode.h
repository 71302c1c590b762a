#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "camber/config/field.h"
#include "camber/episodes/example_set.h"
#include "camber/random/stream.h"

namespace camber::episodes {

/// The form of an episode: n_way classes, of each k_shot examples to learn from and `queries` to be asked about.
struct EpisodeOptions {
  std::int64_t n_way = 5;
  std::int64_t k_shot = 1;
  std::int64_t queries = 15;
  bool cross_domain = false;
  std::vector<std::string> support_domains{};
  std::vector<std::string> query_domains{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("n_way", n_way, "classes of an episode", config::Range{.min = 2});
    visitor("k_shot", k_shot, "examples of each class to learn from", config::Range{.min = 1});
    visitor("queries", queries, "examples of each class to ask about", config::Range{.min = 1});
    visitor("cross_domain", cross_domain, "support and queries from different domains");
    visitor("support_domains", support_domains, "domains of the support; empty: drawn anew for each episode");
    visitor("query_domains", query_domains, "domains of the queries; empty: all that the support does not take");
  }
  /// Throws std::invalid_argument with one sentence.
  void validate() const;
  friend bool operator==(const EpisodeOptions&, const EpisodeOptions&) = default;
};

/// One episode: indices into an example set, the support first, class by class, then the queries, class by class.
struct Episode {
  std::int64_t n_way = 0, k_shot = 0;
  std::vector<std::int64_t> examples{};
  std::vector<std::int64_t> labels{};  ///< 0 .. n_way-1, of every example

  std::int64_t num_support() const { return n_way * k_shot; }
};

/// Draws episodes from a set: a function of the stream alone. Support and queries never share an example. In the domain
/// setting the domains are cut in two at random for each episode (or as the options say): the support comes from the
/// one part, the queries from the other.
///
///   const EpisodeSampler sampler(set, {.n_way = 5, .k_shot = 1});
///   const Episode episode = sampler.sample(Stream(seed, "episodes").at(step));
///
/// The constructor throws std::invalid_argument when the set has too few classes or domains, or a class too few
/// examples for any episode it may be asked for; the sentence names the class and its count. The set must outlive it.
class EpisodeSampler {
 public:
  EpisodeSampler(const ExampleSet& set, EpisodeOptions options);
  Episode sample(random::Stream stream) const;
  const EpisodeOptions& options() const { return options_; }

 private:
  std::vector<std::int64_t> draw(std::int64_t class_index, const std::vector<std::int64_t>& domains, std::int64_t count,
                                 random::Stream& stream) const;
  void check_counts(const std::vector<std::int64_t>& domains, std::int64_t needed) const;
  const std::vector<std::int64_t>& cell(std::int64_t class_index, std::int64_t domain) const {
    return cells_[static_cast<std::size_t>(class_index * set_->num_domains() + domain)];
  }

  const ExampleSet* set_;
  EpisodeOptions options_;
  std::vector<std::int64_t> all_domains_, support_domains_, query_domains_;
  std::vector<std::vector<std::int64_t>> cells_;  // [class, domain]: examples
};

}  // namespace camber::episodes
