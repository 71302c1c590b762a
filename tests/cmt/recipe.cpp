#include "cmt/recipe.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <regex>

#include <nlohmann/json.hpp>

namespace camber::cmt_tests {
namespace {

std::uint64_t fnv1a(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

double uniform_at(std::uint64_t start, std::uint64_t element) {
  std::uint64_t z = start + (element + 1) * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  z ^= z >> 31;
  return static_cast<double>(z >> 40) * 0x1p-24;
}

torch::Tensor by_rule(const weights::NamedTensor& like, const WeightRule& rule, std::uint64_t seed) {
  if (rule.kind == "zero") return torch::zeros_like(like.tensor);
  const auto& shape = like.tensor.sizes();
  const bool norm = rule.kind == "fan_or_norm" && shape.size() == 1;
  double low = 0.5, extent = 1;
  bool centred = false;
  if (rule.kind == "range") {
    low = std::stod(rule.first);
    extent = std::stod(rule.second) - low;
  } else if (!norm) {
    const std::int64_t fan = rule.second == "in_first" ? shape[0] : like.tensor.numel() / shape[0];
    extent = std::stod(rule.first) * std::sqrt(3.0 / static_cast<double>(fan));
    centred = true;
  }
  auto values = torch::empty(shape, torch::kFloat);
  const std::uint64_t start = fnv1a(like.name) + seed;
  auto* out = values.data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const double u = uniform_at(start, static_cast<std::uint64_t>(i));
    out[i] = static_cast<float>(centred ? (2 * u - 1) * extent : low + extent * u);
  }
  return values;
}

}  // namespace

double uniform_of(const std::string& name, std::uint64_t seed, std::uint64_t element) {
  return uniform_at(fnv1a(name) + seed, element);
}

torch::Tensor probe(const std::string& name, torch::IntArrayRef shape) {
  auto values = torch::empty(shape, torch::kDouble);
  const std::uint64_t start = fnv1a(name);
  for (std::int64_t i = 0; i < values.numel(); ++i)
    values.data_ptr<double>()[i] = 2 * uniform_at(start, static_cast<std::uint64_t>(i)) - 1;
  return values;
}

std::vector<WeightRule> read_rules(const std::filesystem::path& file) {
  std::vector<WeightRule> rules;
  for (const auto& rule : nlohmann::json::parse(std::ifstream(file)))
    rules.push_back({rule[0].get<std::string>(), rule[1].get<std::string>(), rule[2].get<std::string>(),
                     rule[3].get<std::string>()});
  return rules;
}

std::vector<weights::NamedTensor> recipe_weights(const std::vector<weights::NamedTensor>& like,
                                                 const std::vector<WeightRule>& rules, std::uint64_t seed) {
  std::vector<std::regex> patterns;
  patterns.reserve(rules.size());
  for (const auto& rule : rules) patterns.emplace_back(rule.pattern);
  std::vector<weights::NamedTensor> result;
  for (const auto& entry : like)
    for (std::size_t i = 0; i < rules.size(); ++i)
      if (std::regex_search(entry.name, patterns[i])) {
        result.push_back({entry.name, by_rule(entry, rules[i], seed)});
        break;
      }
  return result;
}

detection::DetectorOptions small_options() {
  using namespace detection;
  DetectorOptions options;
  options.space = {.x_min = -12.8, .x_max = 12.8, .y_min = -12.8, .y_max = 12.8};
  options.encoder = {.kind = EncoderKind::kCmt,
                     .image_width = 160,
                     .image_height = 64,
                     .bev_channels = 128,
                     .camera_channels = 64,
                     .cmt = {.sparse_channels = {8, 16, 32, 32},
                             .sparse_outputs = 32,
                             .bev_backbone_channels = {32, 64},
                             .stem_width = 16,
                             .backbone_width = 8}};
  options.head.box_code = BoxCode::kCmt;
  options.head.num_queries = 60;
  options.head.max_detections = 50;
  options.head.centre_limits = {-10, -10, -4, 10, 10, 4};
  options.head.decoder = {.num_layers = 3, .width = 64, .num_heads = 8, .feedforward_width = 256};
  return options;
}

std::filesystem::path golden_folder() {
  const char* data = std::getenv("CAMBER_DATA");
  const char* source = std::getenv("CAMBER_SOURCE");
  const std::filesystem::path base = source == nullptr ? "." : source;
  return base / (data == nullptr || *data == '\0' ? "../shared/data" : data) / "cmt_golden";
}

}  // namespace camber::cmt_tests
