#pragma once
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "camber/detection/cmt_head.h"
#include "camber/detection/cmt_weights.h"
#include "camber/storage/safetensors.h"
#include "cmt/recipe.h"
#include "detection/encoders.h"
#include "detection/task_heads.h"

namespace camber::cmt_tests {

/// Tensors of one of the files with stage values.
class Golden {
 public:
  explicit Golden(const std::string& file) : file_(golden_folder() / "small" / file) {}
  torch::Tensor operator[](const std::string& name) const { return weights::tensor_of(file_.at(name)); }
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  std::vector<weights::NamedTensor> all() const {
    std::vector<weights::NamedTensor> tensors;
    for (const auto& view : file_.tensors()) tensors.push_back({view.name, weights::tensor_of(view)});
    return tensors;
  }

 private:
  storage::SafetensorsFile file_;
};

/// The reduced original, its weights and its input; skipped with a word where they are not there.
class CmtGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(golden_folder() / "small" / "weights.safetensors"))
      GTEST_SKIP() << "no stage values of CMT in " << golden_folder() << " (set CAMBER_DATA)";
  }

  static detection::Detector detector_in(torch::ScalarType type);
  /// The stored frame; with `second` the frame of the batch of two beside it.
  static detection::DetectorBatch batch_in(torch::ScalarType type, bool second = false);
};

/// Rows of a sparse map in the order of their sites.
torch::Tensor by_site(const torch::Tensor& rows, const torch::Tensor& coordinates);

/// Module below a detector by its whole name.
template <class Module>
std::shared_ptr<Module> part_of(const torch::nn::Module& model, const std::string& name) {
  return std::dynamic_pointer_cast<Module>(model.named_modules("", false)[name]);
}

/// Our code [L, B, Q, 10] and logits as the original's heads.
torch::Tensor head_output(const detection::DetectorOutput& output, const std::string& head);
inline const std::vector<std::string> kHeads = {"center", "height", "dim", "rot", "vel", "cls_logits"};

/// The gradients of a detector's parameters under the original's names.
std::vector<weights::NamedTensor> gradients_in_cmt_names(const detection::Detector& detector);

}  // namespace camber::cmt_tests
