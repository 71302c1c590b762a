#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <torch/types.h>

#include "camber/detection/detector.h"
#include "camber/weights/state_file.h"

/// Numbers, weights and inputs that stand for CMT without its trained weights: functions of a name and a seed.
namespace camber::cmt_tests {

/// u of element i of the stream: with s = fnv1a64(name) + seed, splitmix64 of s at step i + 1, its upper 24 bits in
/// [0, 1).
double uniform_of(const std::string& name, std::uint64_t seed, std::uint64_t element);
/// 2 u - 1, of that shape, in double.
torch::Tensor probe(const std::string& name, torch::IntArrayRef shape);

/// The first rule whose pattern is found in a tensor's name says its values.
struct WeightRule {
  std::string pattern{}, kind{}, first{}, second{};
};
std::vector<WeightRule> read_rules(const std::filesystem::path& file);
/// Every tensor of a state_dict in CMT's names by the rules; shapes are those of `like`.
std::vector<weights::NamedTensor> recipe_weights(const std::vector<weights::NamedTensor>& like,
                                                 const std::vector<WeightRule>& rules, std::uint64_t seed);

/// The reduced model of the stage values.
detection::DetectorOptions small_options();

/// Where the stage values lie, below CAMBER_DATA.
std::filesystem::path golden_folder();

}  // namespace camber::cmt_tests
