#pragma once
#include <string>
#include <vector>

#include "camber/nn/attention_bias.h"
#include "camber/nn/bounded_scale.h"
#include "camber/weights/load.h"

namespace camber::weights {

/// A module of one kind in a model.
template <class Impl>
struct Found {
  std::string prefix;  ///< of the names of its tensors: "head.attention_bias.scale."
  Impl* module;
};

template <class Impl>
std::vector<Found<Impl>> find_modules(const torch::nn::Module& model) {
  std::vector<Found<Impl>> found;
  if (const auto* self = dynamic_cast<const Impl*>(&model)) found.push_back({"", const_cast<Impl*>(self)});
  for (const auto& entry : model.named_modules("", /*include_self=*/false))
    if (auto* module = dynamic_cast<Impl*>(entry.value().get())) found.push_back({entry.key() + ".", module});
  return found;
}

/// Brings the values of a file's scales onto the bounds, constraints and spaces of a model's own, and says what is
/// otherwise than in the file.
class ScaleTransfer {
 public:
  ScaleTransfer(const StateFile& file, const std::string& prefix, torch::nn::Module& model, const LoadOptions& options);

  /// Whether this tensor is the raw value of a scale, which is not to be copied as it stands.
  bool takes(const std::string& name) const;
  /// A sentence for each difference.
  std::vector<std::string> apply();

 private:
  struct Pair {
    std::string name;
    nn::BoundedScaleImpl* to;
    nn::BoundedScale from{nullptr};
    bool learnable_known = false;
  };
  nn::BoundedScale scale_in_file(const std::string& prefix, const nn::BoundedScaleOptions& options) const;
  void compare_clips(std::vector<std::string>& notes) const;

  const StateFile& file_;
  std::string prefix_;
  torch::nn::Module& model_;
  const LoadOptions& options_;
  std::vector<Pair> pairs_;
};

}  // namespace camber::weights
