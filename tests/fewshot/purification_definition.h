#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

/// Semantic anchor purification written down once more, in double and loops, without torch: what the module is held to.
namespace camber::fewshot {

struct DefinitionInputs {
  std::size_t rows = 0, domain_width = 0, intrinsic_width = 0, n_way = 0, k_shot = 0;
  bool centre = false;
  double scale = 25;
  double alpha = 0;
  std::vector<double> f_dom{}, f_phy{};
  std::vector<std::int64_t> labels{};
  std::vector<double> query_weight{}, query_bias{};      // [intrinsic, domain], [intrinsic]
  std::vector<double> project_weight{}, project_bias{};  // [domain, intrinsic], [domain]
  std::vector<double> orthogonal_weight{};               // [intrinsic, domain]
  std::vector<double> norm_weight{}, norm_bias{};        // [domain]
};

struct DefinitionOutputs {
  std::vector<double> purified{}, attention{};
  double orthogonality_loss = 0;
  double gate = 0, attention_entropy = 0, attention_max = 0, semantic_norm = 0, purification_ratio = 0,
         orthogonal_norm = 0, prototype_cosine = 0;
};

DefinitionOutputs purification_definition(const DefinitionInputs& in);

}  // namespace camber::fewshot
