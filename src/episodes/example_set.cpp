#include "camber/episodes/example_set.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <unordered_set>

#include "camber/config/names.h"

namespace camber::episodes {
namespace {

// The index of a name in a list that is searched from its end, where the last one added stands; added when new.
std::int64_t index_of(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.rbegin(), names.rend(), name);
  if (found != names.rend()) return std::distance(found, names.rend()) - 1;
  names.push_back(name);
  return static_cast<std::int64_t>(names.size()) - 1;
}

std::vector<std::int64_t> indices_where(const ExampleSet& set, const std::function<bool(std::size_t)>& holds) {
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < set.class_of.size(); ++i)
    if (holds(i)) indices.push_back(static_cast<std::int64_t>(i));
  return indices;
}

std::vector<std::string> common(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const std::unordered_set<std::string> known(a.begin(), a.end());
  std::set<std::string> both;
  for (const std::string& name : b)
    if (known.contains(name)) both.insert(name);
  return {both.begin(), both.end()};
}

void refuse_unknown(const std::vector<std::string>& known, std::span<const std::string> wanted, const char* what) {
  for (const std::string& name : wanted)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw std::invalid_argument(std::string("[example_set] ") + what + " must be " + config::join_names(known) +
                                  ", got '" + name + "'");
}

}  // namespace

std::int64_t ExampleSet::width() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

void ExampleSet::add(std::span<const float> example_values, const std::string& class_name,
                     const std::string& domain_name, std::string origin) {
  if (static_cast<std::int64_t>(example_values.size()) != width())
    throw std::invalid_argument("[example_set] an example of " + name + " must have " + std::to_string(width()) +
                                " numbers, got " + std::to_string(example_values.size()) + " in " + origin);
  values.insert(values.end(), example_values.begin(), example_values.end());
  class_of.push_back(index_of(class_names, class_name));
  domain_of.push_back(index_of(domain_names, domain_name));
  origins.push_back(std::move(origin));
}

std::uint64_t ExampleSet::fingerprint() const {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto mix = [&hash](std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3; };
  for (const float value : values) mix(std::bit_cast<std::uint32_t>(value));
  for (std::size_t i = 0; i < class_of.size(); ++i) mix(static_cast<std::uint64_t>(class_of[i] << 20 | domain_of[i]));
  for (const std::string& word : class_names)
    for (const char letter : word) mix(static_cast<unsigned char>(letter));
  return hash;
}

ExampleSet select_examples(const ExampleSet& set, std::span<const std::int64_t> indices, std::string name) {
  ExampleSet part{.name = std::move(name), .shape = set.shape};
  part.values.reserve(indices.size() * static_cast<std::size_t>(set.width()));
  // The order of the names stays that of the whole set, whatever the order of the examples.
  std::set<std::int64_t> classes, domains;
  for (const std::int64_t index : indices) {
    classes.insert(set.class_of.at(static_cast<std::size_t>(index)));
    domains.insert(set.domain_of[static_cast<std::size_t>(index)]);
  }
  for (const std::int64_t c : classes) part.class_names.push_back(set.class_names[static_cast<std::size_t>(c)]);
  for (const std::int64_t d : domains) part.domain_names.push_back(set.domain_names[static_cast<std::size_t>(d)]);
  const auto rank = [](const std::set<std::int64_t>& kept, std::int64_t label) {
    return static_cast<std::int64_t>(std::distance(kept.begin(), kept.find(label)));
  };
  std::map<std::int64_t, std::int64_t> class_rank, domain_rank;
  for (const std::int64_t c : classes) class_rank[c] = rank(classes, c);
  for (const std::int64_t d : domains) domain_rank[d] = rank(domains, d);
  for (const std::int64_t index : indices) {
    const auto i = static_cast<std::size_t>(index);
    const auto example = set.example(index);
    part.values.insert(part.values.end(), example.begin(), example.end());
    part.class_of.push_back(class_rank[set.class_of[i]]);
    part.domain_of.push_back(domain_rank[set.domain_of[i]]);
    part.origins.push_back(set.origins[i]);
  }
  return part;
}

ExampleSet select_classes(const ExampleSet& set, std::span<const std::string> class_names, bool others) {
  if (!others) refuse_unknown(set.class_names, class_names, "class");
  const std::unordered_set<std::string> wanted(class_names.begin(), class_names.end());
  const auto keep = [&](std::size_t i) {
    return wanted.contains(set.class_names[static_cast<std::size_t>(set.class_of[i])]) != others;
  };
  return select_examples(set, indices_where(set, keep), set.name);
}

ExampleSet select_domains(const ExampleSet& set, std::span<const std::string> domain_names, bool others) {
  refuse_unknown(set.domain_names, domain_names, "domain");
  const std::unordered_set<std::string> wanted(domain_names.begin(), domain_names.end());
  const auto keep = [&](std::size_t i) {
    return wanted.contains(set.domain_names[static_cast<std::size_t>(set.domain_of[i])]) != others;
  };
  return select_examples(set, indices_where(set, keep), set.name);
}

SetPair split_classes(const ExampleSet& set, std::int64_t count, random::Stream stream) {
  if (count < 1 || count >= set.num_classes())
    throw std::invalid_argument("[split_classes] the number of classes held out of " + set.name +
                                " must be from 1 to " + std::to_string(set.num_classes() - 1) + ", got " +
                                std::to_string(count));
  const auto order = stream.permutation(set.num_classes());
  std::vector<std::string> chosen;
  chosen.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    chosen.push_back(set.class_names[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])]);
  return {select_classes(set, chosen), select_classes(set, chosen, true)};
}

SetPair split_examples(const ExampleSet& set, double share, random::Stream stream) {
  if (!(share > 0 && share < 1))
    throw std::invalid_argument("[split_examples] share must lie between 0 and 1, got " + std::to_string(share));
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::int64_t>> cells;
  for (std::size_t i = 0; i < set.class_of.size(); ++i)
    cells[{set.class_of[i], set.domain_of[i]}].push_back(static_cast<std::int64_t>(i));
  std::vector<std::int64_t> first, second;
  for (const auto& [labels, members] : cells) {
    const auto count = static_cast<std::int64_t>(members.size());
    auto cell = stream.at(static_cast<std::uint64_t>(labels.first << 20 | labels.second));
    const auto order = cell.permutation(count);
    const std::int64_t wanted = std::llround(share * static_cast<double>(count));
    const std::int64_t taken = count < 2 ? wanted : std::clamp<std::int64_t>(wanted, 1, count - 1);
    for (std::int64_t i = 0; i < count; ++i)
      (i < taken ? first : second).push_back(members[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])]);
  }
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  return {select_examples(set, first, set.name), select_examples(set, second, set.name)};
}

std::vector<std::string> shared_classes(const ExampleSet& a, const ExampleSet& b) {
  return common(a.class_names, b.class_names);
}

std::vector<std::string> shared_examples(const ExampleSet& a, const ExampleSet& b) {
  return common(a.origins, b.origins);
}

ExampleSet add_rotations(const ExampleSet& set) {
  if (set.shape.size() != 3 || set.shape[1] != set.shape[2])
    throw std::invalid_argument("[add_rotations] the examples of " + set.name + " must be square images");
  const auto channels = static_cast<std::size_t>(set.shape[0]), side = static_cast<std::size_t>(set.shape[1]);
  ExampleSet all = set;
  std::vector<float> source, turned(static_cast<std::size_t>(set.width()));
  for (int quarter = 1; quarter < 4; ++quarter) {
    const std::string suffix = "@" + std::to_string(90 * quarter);
    for (const std::string& name : set.class_names) all.class_names.push_back(name + suffix);
    for (std::size_t i = 0; i < set.class_of.size(); ++i) {
      // Each pass turns the previous one by another quarter: (row, column) goes to (side - 1 - column, row).
      const auto previous = all.example(static_cast<std::int64_t>(i) + (quarter - 1) * set.size());
      source.assign(previous.begin(), previous.end());
      for (std::size_t plane = 0; plane < channels; ++plane)
        for (std::size_t row = 0; row < side; ++row)
          for (std::size_t column = 0; column < side; ++column)
            turned[(plane * side + side - 1 - column) * side + row] = source[(plane * side + row) * side + column];
      all.values.insert(all.values.end(), turned.begin(), turned.end());
      all.class_of.push_back(set.class_of[i] + quarter * set.num_classes());
      all.domain_of.push_back(set.domain_of[i]);
      all.origins.push_back(set.origins[i] + suffix);
    }
  }
  return all;
}

}  // namespace camber::episodes
