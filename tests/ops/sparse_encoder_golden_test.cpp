// A sparse encoder of twenty-one convolutions, built of the operator alone, beside what spconv and mmdet3d computed.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "camber/ops/sparse_convolution.h"
#include "camber/storage/safetensors.h"
#include "support/comparison.h"

namespace camber::ops {
namespace {

using namespace camber::proof;
namespace fs = std::filesystem;

const std::string kEncoder = "pts_middle_encoder.";

fs::path golden_folder() {
  const char* data = std::getenv("CAMBER_DATA");
  const char* source = std::getenv("CAMBER_SOURCE");
  return fs::path(source == nullptr ? "." : source) / (data == nullptr || *data == '\0' ? "../shared/data" : data) /
         "cmt_golden/small";
}

at::Tensor tensor_of(const storage::SafetensorsFile& file, const std::string& name) {
  const std::map<storage::DataType, at::ScalarType> types = {{storage::DataType::kF32, at::kFloat},
                                                             {storage::DataType::kF64, at::kDouble},
                                                             {storage::DataType::kI32, at::kInt},
                                                             {storage::DataType::kI64, at::kLong}};
  const auto& view = file.at(name);
  auto tensor = at::empty(view.shape, types.at(view.type));
  std::memcpy(tensor.data_ptr(), view.bytes.data(), view.bytes.size());
  return tensor;
}

// 2u - 1 of the goldens' named streams.
at::Tensor probe_of(const std::string& name, at::IntArrayRef shape) {
  std::uint64_t start = 0xcbf29ce484222325;
  for (const char c : name) start = (start ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  auto probe = at::empty(shape, at::kDouble);
  auto* to = probe.data_ptr<double>();
  for (std::int64_t i = 0; i < probe.numel(); ++i) {
    std::uint64_t z = start + static_cast<std::uint64_t>(i + 1) * 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z ^= z >> 31;
    to[i] = 2 * (static_cast<double>(z >> 40) * 0x1p-24) - 1;
  }
  return probe;
}

// Rows sorted by their sites, so that orders can be compared.
at::Tensor sorted_by_site(const at::Tensor& sites, const at::Tensor& rows) {
  const auto wide = sites.to(at::kLong);
  const auto key =
      ((wide.select(1, 0) * 4096 + wide.select(1, 1)) * 4096 + wide.select(1, 2)) * 4096 + wide.select(1, 3);
  return rows.index_select(0, key.argsort());
}

class GoldenEncoder {
 public:
  GoldenEncoder(const storage::SafetensorsFile& weights, at::ScalarType type) : weights_(weights), type_(type) {}

  // The features of the last sites; stages are kept by name.
  at::Tensor forward(const at::Tensor& input, const at::Tensor& sites) {
    indices_ = build_sparse_indices(sites, {41, 256, 256}, 1, {.submanifold = true});
    auto x = layer(input, "conv_input.0", "conv_input.1").relu();
    keep("conv_input", x);
    for (int stage = 1; stage <= 4; ++stage) {
      const std::string name = "encoder_layers.encoder_layer" + std::to_string(stage) + ".";
      for (const std::string block : {"0.", "1."}) {
        const auto inner = layer(x, name + block + "conv1", name + block + "bn1").relu();
        x = (layer(inner, name + block + "conv2", name + block + "bn2") + x).relu();
      }
      if (stage == 4) break;
      go_to({.stride = {2, 2, 2}, .padding = {stage == 3 ? 0 : 1, 1, 1}});
      x = layer(x, name + "2.0", name + "2.1").relu();
      keep("encoder_layer" + std::to_string(stage) + ".2", x);
      go_to({.submanifold = true});
    }
    go_to({.size = {3, 1, 1}, .stride = {2, 1, 1}});
    x = layer(x, "conv_out.0", "conv_out.1").relu();
    keep("conv_out", x);
    return x;
  }

  at::Tensor sites() const { return indices_.coordinates; }
  // [1, C * D, H, W] of the last sites.
  at::Tensor dense(const at::Tensor& rows) const {
    const auto& shape = indices_.spatial_shape;
    const auto at_sites = indices_.coordinates.to(at::kLong);
    const auto cell = (at_sites.select(1, 1) * shape[1] + at_sites.select(1, 2)) * shape[2] + at_sites.select(1, 3);
    return at::zeros({shape[0] * shape[1] * shape[2], rows.size(1)}, rows.options())
        .index_add(0, cell, rows)
        .t()
        .reshape({1, rows.size(1) * shape[0], shape[1], shape[2]});
  }

  std::map<std::string, std::pair<at::Tensor, at::Tensor>> stages;  // sites, features
  std::map<std::string, at::Tensor> parameters;

 private:
  at::Tensor parameter(const std::string& name) {
    auto& kept = parameters[kEncoder + name];
    if (!kept.defined()) kept = tensor_of(weights_, kEncoder + name).to(type_).requires_grad_(true);
    return kept;
  }
  at::Tensor layer(const at::Tensor& x, const std::string& convolution, const std::string& norm) {
    const auto y = sparse_convolution(x, parameter(convolution + ".weight"), indices_);
    const auto mean = tensor_of(weights_, kEncoder + norm + ".running_mean").to(type_);
    const auto variance = tensor_of(weights_, kEncoder + norm + ".running_var").to(type_);
    return at::batch_norm(y, parameter(norm + ".weight"), parameter(norm + ".bias"), mean, variance, false, 0.1, 1e-3,
                          false);
  }
  void go_to(const SparseKernel& kernel) {
    indices_ = build_sparse_indices(indices_.coordinates, indices_.spatial_shape, 1, kernel);
  }
  void keep(const std::string& name, const at::Tensor& x) { stages[name] = {indices_.coordinates, x.detach()}; }

  const storage::SafetensorsFile& weights_;
  at::ScalarType type_;
  SparseIndices indices_;
};

struct Goldens {
  storage::SafetensorsFile weights{golden_folder() / "weights.safetensors"};
  storage::SafetensorsFile f32{golden_folder() / "goldens_f32.safetensors"};
  storage::SafetensorsFile f64{golden_folder() / "goldens_f64.safetensors"};
  storage::SafetensorsFile gradients{golden_folder() / "grads_sparse_encoder_f64.safetensors"};
  at::Tensor sites = tensor_of(f32, "coors");

  // The mean of each voxel's points, in double.
  at::Tensor means() const {
    const auto points = tensor_of(f32, "voxels.rows").to(at::kDouble);
    const auto counts = tensor_of(f32, "num_points").to(at::kLong);
    const auto voxel = at::arange(counts.size(0), at::kLong).repeat_interleave(counts);
    return at::zeros({counts.size(0), 5}, at::kDouble).index_add(0, voxel, points) / counts.unsqueeze(1);
  }
};

class SparseEncoderGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(golden_folder() / "weights.safetensors"))
      GTEST_SKIP() << "no goldens of the original detector in " << golden_folder() << " (set CAMBER_DATA)";
  }
};

TEST_F(SparseEncoderGolden, FloatFeaturesOfEveryStage) {
  const Goldens golden;
  GoldenEncoder encoder(golden.weights, at::kFloat);
  const at::NoGradGuard no_gradients;
  const auto output = encoder.forward(tensor_of(golden.f32, "vfe"), golden.sites);
  for (const auto& [name, stage] : encoder.stages) {
    if (golden.f32.find("sparse." + name + ".features") == nullptr) continue;
    SCOPED_TRACE(name);
    const auto sites = tensor_of(golden.f32, "sparse." + name + ".indices");
    ASSERT_TRUE(sorted_by_site(stage.first, stage.first).equal(sorted_by_site(sites, sites)));
    const auto expected = sorted_by_site(sites, tensor_of(golden.f32, "sparse." + name + ".features"));
    EXPECT_LT(sorted_by_site(stage.first, stage.second).sub(expected).abs().max().item<double>(), 2e-5);
  }
  EXPECT_LT(encoder.dense(output).sub(tensor_of(golden.f32, "pts_middle_encoder")).abs().max().item<double>(), 2e-5);
}

// The loss sum(dense * probe) and its gradient for the input and every parameter, by name.
struct LossAndGradients {
  at::Tensor loss;
  std::map<std::string, at::Tensor> gradients;

  LossAndGradients(const Goldens& golden, at::ScalarType type) {
    GoldenEncoder encoder(golden.weights, type);
    const auto input = tensor_of(golden.f32, "vfe").to(type).requires_grad_(true);
    const auto dense = encoder.dense(encoder.forward(input, golden.sites));
    loss = (dense * probe_of("probe.pts_middle_encoder", dense.sizes()).to(type)).sum();
    std::vector<at::Tensor> leaves{input};
    for (const auto& [name, parameter] : encoder.parameters) leaves.push_back(parameter);
    auto found = torch::autograd::grad({loss}, leaves);
    gradients["d.input_features"] = found[0];
    std::size_t next = 1;
    for (const auto& [name, parameter] : encoder.parameters) gradients["d." + name] = found[next++];
  }

  void expect_golden(const Goldens& golden, double tolerance) const {
    EXPECT_EQ(gradients.size(), golden.gradients.tensors().size() - 1);  // one of them is the loss
    for (const auto& [name, gradient] : gradients)
      EXPECT_LT(gradient.sub(tensor_of(golden.gradients, name)).abs().max().item<double>(), tolerance) << name;
  }
};

TEST_F(SparseEncoderGolden, DoubleFeatures) {
  const Goldens golden;
  GoldenEncoder encoder(golden.weights, at::kDouble);
  const at::NoGradGuard no_gradients;
  const auto dense = encoder.dense(encoder.forward(golden.means(), golden.sites));
  EXPECT_LT(dense.sub(tensor_of(golden.f64, "pts_middle_encoder")).abs().max().item<double>(), 1e-12);
}

TEST_F(SparseEncoderGolden, DoubleGradients) {
  const Goldens golden;
  const LossAndGradients found(golden, at::kDouble);
  EXPECT_NEAR(found.loss.item<double>(), tensor_of(golden.gradients, "loss").item<double>(), 1e-9);
  found.expect_golden(golden, 1e-9);
}

// The kernels' gradients, to the accuracy that the original's own have in float.
TEST_F(SparseEncoderGolden, FloatGradients) {
  const Goldens golden;
  LossAndGradients(golden, at::kFloat).expect_golden(golden, 2e-4);
}

}  // namespace
}  // namespace camber::ops
