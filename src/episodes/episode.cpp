#include "camber/episodes/episode.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "camber/config/names.h"

namespace camber::episodes {
namespace {

[[noreturn]] void refuse_episode(const std::string& sentence) {
  throw std::invalid_argument("[episode] " + sentence);
}

std::vector<std::int64_t> indices_of(const ExampleSet& set, const std::vector<std::string>& names, const char* field) {
  std::vector<std::int64_t> indices;
  for (const std::string& name : names) {
    const auto found = std::find(set.domain_names.begin(), set.domain_names.end(), name);
    if (found == set.domain_names.end())
      refuse_episode(std::string(field) + " must be domains of " + set.name + " (" +
                     config::join_names(set.domain_names, ", ") + "), got '" + name + "'");
    indices.push_back(std::distance(set.domain_names.begin(), found));
  }
  return indices;
}

}  // namespace

void EpisodeOptions::validate() const {
  if (!cross_domain && !(support_domains.empty() && query_domains.empty()))
    refuse_episode("support_domains and query_domains must be empty unless cross_domain is true");
  if (support_domains.empty() && !query_domains.empty())
    refuse_episode("support_domains must be given where query_domains are");
  for (const std::string& name : support_domains)
    if (std::find(query_domains.begin(), query_domains.end(), name) != query_domains.end())
      refuse_episode("support_domains and query_domains must have no domain in common, got '" + name + "' in both");
}

EpisodeSampler::EpisodeSampler(const ExampleSet& set, EpisodeOptions options)
    : set_(&set), options_(std::move(options)) {
  options_.validate();
  if (set.num_classes() < options_.n_way)
    refuse_episode("n_way must be at most the " + std::to_string(set.num_classes()) + " classes of " + set.name +
                   ", got " + std::to_string(options_.n_way));
  if (options_.cross_domain && set.num_domains() < 2)
    refuse_episode("cross_domain needs at least two domains, but " + set.name + " has " +
                   std::to_string(set.num_domains()));
  cells_.resize(static_cast<std::size_t>(set.num_classes() * set.num_domains()));
  for (std::int64_t i = 0; i < set.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    cells_[static_cast<std::size_t>(set.class_of[at] * set.num_domains() + set.domain_of[at])].push_back(i);
  }
  all_domains_.resize(static_cast<std::size_t>(set.num_domains()));
  std::iota(all_domains_.begin(), all_domains_.end(), 0);
  support_domains_ = indices_of(set, options_.support_domains, "support_domains");
  query_domains_ = indices_of(set, options_.query_domains, "query_domains");
  if (!support_domains_.empty() && query_domains_.empty()) {
    std::copy_if(all_domains_.begin(), all_domains_.end(), std::back_inserter(query_domains_), [&](std::int64_t d) {
      return std::find(support_domains_.begin(), support_domains_.end(), d) == support_domains_.end();
    });
    if (query_domains_.empty()) refuse_episode("support_domains must leave a domain for the queries");
  }
  if (!options_.cross_domain) {
    check_counts(all_domains_, options_.k_shot + options_.queries);
  } else if (!support_domains_.empty()) {
    check_counts(support_domains_, options_.k_shot);
    check_counts(query_domains_, options_.queries);
  } else {
    // Any one domain may have to give the whole support, or all queries.
    for (const std::int64_t domain : all_domains_) check_counts({domain}, std::max(options_.k_shot, options_.queries));
  }
}

void EpisodeSampler::check_counts(const std::vector<std::int64_t>& domains, std::int64_t needed) const {
  for (std::int64_t c = 0; c < set_->num_classes(); ++c) {
    std::int64_t count = 0;
    std::vector<std::string> names;
    for (const std::int64_t domain : domains) {
      count += static_cast<std::int64_t>(cell(c, domain).size());
      names.push_back(set_->domain_names[static_cast<std::size_t>(domain)]);
    }
    if (count < needed)
      refuse_episode("class '" + set_->class_names[static_cast<std::size_t>(c)] + "' of " + set_->name + " has " +
                     std::to_string(count) + " examples" +
                     (options_.cross_domain ? " in " + config::join_names(names, ", ") : std::string()) +
                     ", but an episode of " + std::to_string(options_.k_shot) + " shots and " +
                     std::to_string(options_.queries) + " queries needs " + std::to_string(needed));
  }
}

std::vector<std::int64_t> EpisodeSampler::draw(std::int64_t class_index, const std::vector<std::int64_t>& domains,
                                               std::int64_t count, random::Stream& stream) const {
  std::vector<std::int64_t> pool;
  for (const std::int64_t domain : domains) {
    const auto& members = cell(class_index, domain);
    pool.insert(pool.end(), members.begin(), members.end());
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const auto left = static_cast<std::uint64_t>(pool.size()) - static_cast<std::uint64_t>(i);
    std::swap(pool[static_cast<std::size_t>(i)], pool[static_cast<std::size_t>(i) + stream.integer(left)]);
  }
  pool.resize(static_cast<std::size_t>(count));
  return pool;
}

Episode EpisodeSampler::sample(random::Stream stream) const {
  Episode episode{.n_way = options_.n_way, .k_shot = options_.k_shot};
  std::vector<std::int64_t> support_domains = support_domains_, query_domains = query_domains_;
  if (options_.cross_domain && support_domains.empty()) {
    auto order = stream.permutation(set_->num_domains());
    const auto cut = 1 + static_cast<std::ptrdiff_t>(stream.integer(order.size() - 1));
    support_domains.assign(order.begin(), order.begin() + cut);
    query_domains.assign(order.begin() + cut, order.end());
  }
  const auto classes = stream.permutation(set_->num_classes());
  std::vector<std::int64_t> queries;
  for (std::int64_t way = 0; way < options_.n_way; ++way) {
    const std::int64_t c = classes[static_cast<std::size_t>(way)];
    if (options_.cross_domain) {
      const auto support = draw(c, support_domains, options_.k_shot, stream);
      const auto asked = draw(c, query_domains, options_.queries, stream);
      episode.examples.insert(episode.examples.end(), support.begin(), support.end());
      queries.insert(queries.end(), asked.begin(), asked.end());
    } else {
      const auto drawn = draw(c, all_domains_, options_.k_shot + options_.queries, stream);
      const auto cut = drawn.begin() + options_.k_shot;
      episode.examples.insert(episode.examples.end(), drawn.begin(), cut);
      queries.insert(queries.end(), cut, drawn.end());
    }
  }
  episode.examples.insert(episode.examples.end(), queries.begin(), queries.end());
  for (const std::int64_t each : {options_.k_shot, options_.queries})
    for (std::int64_t way = 0; way < options_.n_way; ++way)
      episode.labels.insert(episode.labels.end(), static_cast<std::size_t>(each), way);
  return episode;
}

}  // namespace camber::episodes
