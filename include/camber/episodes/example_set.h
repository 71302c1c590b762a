#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "camber/random/stream.h"

namespace camber::episodes {

/// Labelled examples of one shape: what episodes are drawn from. Images are planes of numbers, mostly in 0..1.
///
///   ExampleSet set = read_image_folder({.path = "birds", .size = 28});
///   set.class_names[set.class_of[7]];  // the class of the eighth example
struct ExampleSet {
  std::string name{};                     ///< where it comes from, for sentences
  std::vector<std::int64_t> shape{};      ///< of one example: {channels, height, width} or {features}
  std::vector<float> values{};            ///< [size(), width()]
  std::vector<std::int64_t> class_of{};   ///< index into class_names
  std::vector<std::int64_t> domain_of{};  ///< index into domain_names
  std::vector<std::string> class_names{};
  std::vector<std::string> domain_names{};  ///< one, "all", where the data know no domains
  std::vector<std::string> origins{};  ///< the file, line or drawing of each example: by which disjointness is checked

  std::int64_t size() const { return static_cast<std::int64_t>(class_of.size()); }
  std::int64_t num_classes() const { return static_cast<std::int64_t>(class_names.size()); }
  std::int64_t num_domains() const { return static_cast<std::int64_t>(domain_names.size()); }
  /// Numbers in one example.
  std::int64_t width() const;
  std::span<const float> example(std::int64_t index) const {
    return std::span(values).subspan(static_cast<std::size_t>(index * width()), static_cast<std::size_t>(width()));
  }
  /// Adds one example; its label is looked up by name and added when it is new.
  void add(std::span<const float> example_values, const std::string& class_name, const std::string& domain_name,
           std::string origin);
  /// A number that changes with any value or label: which data a run saw.
  std::uint64_t fingerprint() const;
};

/// The examples with these indices, in this order; classes and domains without any example left are dropped.
ExampleSet select_examples(const ExampleSet& set, std::span<const std::int64_t> indices, std::string name);

/// The examples of the classes whose name is in the list, or of all the others.
ExampleSet select_classes(const ExampleSet& set, std::span<const std::string> class_names, bool others = false);

/// The examples of the domains in the list, or of all the others; an unknown domain is an error that names those known.
ExampleSet select_domains(const ExampleSet& set, std::span<const std::string> domain_names, bool others = false);

/// Two sets without a common class: `count` classes drawn by the stream, and the rest.
struct SetPair {
  ExampleSet first, second;
};
SetPair split_classes(const ExampleSet& set, std::int64_t count, random::Stream stream);

/// Two sets without a common example: of every class in every domain the given share (rounded, at least one where there
/// are two), and the rest.
SetPair split_examples(const ExampleSet& set, double share, random::Stream stream);

/// Names of classes that occur in both, for training and test sets that must have none in common.
std::vector<std::string> shared_classes(const ExampleSet& a, const ExampleSet& b);

/// Origins that occur in both.
std::vector<std::string> shared_examples(const ExampleSet& a, const ExampleSet& b);

/// Every class turned by 90, 180 and 270 degrees as three classes more, "name@90" and so on. Square images only.
ExampleSet add_rotations(const ExampleSet& set);

}  // namespace camber::episodes
