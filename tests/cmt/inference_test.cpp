// The inference form of CMT's detector: norms folded into convolutions, and bfloat16.
#include <cstdlib>
#include <thread>

#include "cmt/golden_fixture.h"
#include "detection/normed_convolution.h"
#include "support/comparison.h"

namespace camber::cmt_tests {
namespace {

using camber::proof::close_to_largest;
using camber::proof::error_of;
using camber::proof::same_bits;
using namespace detection;

torch::Tensor drawn(const std::string& name, torch::IntArrayRef shape, torch::ScalarType type = torch::kDouble) {
  return probe(name, shape).to(type);
}

// A convolution and a norm that has seen something, in evaluation mode.
struct Layer {
  torch::nn::Conv2d conv{nullptr};
  nn::BatchNorm2d norm{nullptr};
  NormedConvolution normed;

  explicit Layer(const torch::nn::Conv2dOptions& options, torch::ScalarType type = torch::kDouble)
      : conv(options), norm(torch::nn::BatchNorm2dOptions(options.out_channels()).eps(1e-3)) {
    const torch::NoGradGuard guard;
    conv->to(type);
    norm->to(type);
    conv->weight.copy_(drawn("weight", conv->weight.sizes()));
    if (conv->bias.defined()) conv->bias.copy_(drawn("bias", conv->bias.sizes()));
    norm->weight.copy_(1 + 0.5 * drawn("norm weight", norm->weight.sizes()));
    norm->bias.copy_(drawn("norm bias", norm->bias.sizes()));
    norm->running_mean.copy_(drawn("mean", norm->bias.sizes()));
    norm->running_var.copy_(1 + 0.7 * drawn("variance", norm->bias.sizes()));
    conv->eval();
    norm->eval();
  }
  torch::Tensor folded(const torch::Tensor& x, const NormedConvolution::Options& options) {
    const torch::NoGradGuard guard;
    return normed(*conv, *norm, x, options);
  }
  torch::Tensor plain(const torch::Tensor& x, const NormedConvolution::Options& options) {
    return normed(*conv, *norm, x, options).detach();
  }
};

TEST(CmtFolding, EqualsTheLayersInEveryForm) {
  using Options = torch::nn::Conv2dOptions;
  for (const auto& options :
       {Options(5, 7, 3).padding(1).bias(false), Options(5, 7, 1), Options(5, 16, 7).stride(2).padding(3)})
    for (const auto& [type, tolerance] : {std::pair(torch::kDouble, 1e-13), std::pair(torch::kFloat, 2e-6)})
      for (const auto& shape : {std::vector<std::int64_t>{2, 5, 9, 8}, {1, 5, 1, 1}, {1, 5, 16, 16}}) {
        Layer layer(options, type);
        const auto x = drawn("x", shape, type);
        const auto like = layer.plain(x, {});
        const auto added = drawn("added", like.sizes(), type), kept = added.clone();
        for (const auto activation : {Activation::kRelu, Activation::kNone}) {
          EXPECT_TRUE(close_to_largest(layer.folded(x, {activation}), layer.plain(x, {activation}), tolerance));
          const auto sum = layer.plain(x, {activation, added});
          EXPECT_TRUE(close_to_largest(layer.folded(x, {activation, added}), sum, tolerance));
          EXPECT_TRUE(same_bits(added, kept)) << "what is added belongs to the caller";
          EXPECT_TRUE(close_to_largest(layer.folded(x, {activation, added.clone(), true}), sum, tolerance));
        }
      }
}

TEST(CmtFolding, TakesViewsAndKeepsNanInItsImage) {
  Layer layer(torch::nn::Conv2dOptions(5, 7, 3).padding(1), torch::kFloat);
  const auto whole = drawn("x", {3, 8, 9, 10}, torch::kFloat);
  const auto view = whole.permute({0, 2, 3, 1}).narrow(1, 1, 5);  // strides in no order
  EXPECT_TRUE(close_to_largest(layer.folded(view, {}), layer.plain(view, {}), 2e-6));
  const auto spread = drawn("y", {1, 5, 1, 1}, torch::kFloat).expand({2, 5, 6, 6});  // strides of zero
  EXPECT_TRUE(close_to_largest(layer.folded(spread, {}), layer.plain(spread, {}), 2e-6));
  auto broken = drawn("x", {2, 5, 8, 8}, torch::kFloat);
  broken[1][2][3][4] = std::nanf("");
  const auto found = layer.folded(broken, {Activation::kNone}).isnan();
  EXPECT_FALSE(found[0].any().item<bool>());
  EXPECT_EQ(found[1].any(0).sum().item<std::int64_t>(), 9);
}

TEST(CmtFolding, FollowsItsTensors) {
  Layer layer(torch::nn::Conv2dOptions(5, 7, 3).padding(1), torch::kFloat);
  const auto x = drawn("x", {1, 5, 8, 8}, torch::kFloat);
  const auto before = layer.folded(x, {});
  EXPECT_TRUE(same_bits(layer.folded(x, {}), before));
  const auto expect_followed = [&](const char* what) {
    EXPECT_TRUE(close_to_largest(layer.folded(x, {}), layer.plain(x, {}), 2e-6)) << what;
  };
  {
    const torch::NoGradGuard guard;
    layer.conv->weight.mul_(1.5);
    expect_followed("a weight that was written to");
    layer.norm->running_var.add_(0.5);
    expect_followed("statistics that moved");
  }
  layer.conv->weight.set_data(layer.conv->weight.detach() * 2);
  expect_followed("a weight that was replaced");
  layer.norm->train();
  layer.plain(x, {});  // moves the statistics
  layer.norm->eval();
  expect_followed("a step of training");
  layer.conv->to(torch::kDouble);
  layer.norm->to(torch::kDouble);
  const auto exact = x.to(torch::kDouble);
  EXPECT_TRUE(close_to_largest(layer.folded(exact, {}), layer.plain(exact, {}), 1e-13)) << "another type";
}

TEST(CmtFolding, NeverInTraining) {
  Layer layer(torch::nn::Conv2dOptions(5, 7, 3).padding(1), torch::kFloat);
  const auto x = drawn("x", {2, 5, 8, 8}, torch::kFloat);
  layer.conv->train();
  layer.norm->train();
  const auto found = layer.folded(x, {Activation::kNone});  // without gradients, but by the batch's own statistics
  EXPECT_LT((found.mean({0, 2, 3}) - layer.norm->bias).abs().max().item<double>(), 1e-4);
}

TEST(CmtFolding, RaisesAMapByATransposedConvolution) {
  torch::nn::ConvTranspose2d conv(torch::nn::ConvTranspose2dOptions(6, 4, 2).stride(2).bias(false));
  Layer like(torch::nn::Conv2dOptions(6, 4, 1));
  conv->to(torch::kDouble);
  conv->eval();
  NormedConvolution normed;
  const auto x = drawn("x", {2, 6, 5, 3});
  const auto plain = normed(*conv, *like.norm, x).detach();
  const torch::NoGradGuard guard;
  EXPECT_TRUE(close_to_largest(normed(*conv, *like.norm, x), plain, 1e-13));
}

// |found - expected| / |expected| by the norms of whole tensors.
double relative_difference(const torch::Tensor& found, const torch::Tensor& expected) {
  return ((found - expected).norm() / expected.norm()).item<double>();
}

class CmtInference : public CmtGolden {
 protected:
  static Detector detector_with(Precision precision) {
    auto options = small_options();
    options.precision = precision;
    Detector detector(options);
    import_cmt(Golden("weights.safetensors").all(), *detector, "weights.safetensors");
    detector->eval();
    return detector;
  }
  static bool has_bfloat16() {
    auto options = small_options();
    options.precision = Precision::kBfloat16;
    return error_of([&] { options.validate(); }) == "(no error)";
  }
};

TEST_F(CmtInference, LeavesStateAndExportAlone) {
  const torch::NoGradGuard guard;
  auto detector = detector_with(Precision::kFloat32);
  const auto before = export_cmt(*detector, SpconvLayout::kTwo);
  detector->forward(batch_in(torch::kFloat));
  const auto after = export_cmt(*detector, SpconvLayout::kTwo);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].name, after[i].name);
    EXPECT_TRUE(same_bits(before[i].tensor, after[i].tensor)) << before[i].name;
  }
}

TEST_F(CmtInference, ManyThreadsFoldOnce) {
  auto detector = detector_with(Precision::kFloat32);
  const auto batch = batch_in(torch::kFloat);
  std::array<torch::Tensor, 3> found;
  std::vector<std::thread> threads;
  threads.reserve(found.size());
  for (auto& result : found)
    threads.emplace_back([&] {
      const torch::NoGradGuard guard;
      result = detector->forward(batch).codes;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(same_bits(found[0], found[1]));
  EXPECT_TRUE(same_bits(found[0], found[2]));
}

TEST_F(CmtInference, Bfloat16IsNearAndTheSameAgain) {
  if (!has_bfloat16()) GTEST_SKIP() << "this processor has no products of bfloat16";
  const torch::NoGradGuard guard;
  const auto batch = batch_in(torch::kFloat);
  auto exact = detector_with(Precision::kFloat32), rounded = detector_with(Precision::kBfloat16);
  const auto expected = exact->forward(batch), found = rounded->forward(batch);
  EXPECT_EQ(rounded->encode(batch).bev.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(rounded->encode(batch).cameras.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(found.codes.scalar_type(), torch::kFloat);
  EXPECT_LT(relative_difference(found.class_logits, expected.class_logits), 0.05);
  EXPECT_LT(relative_difference(found.codes, expected.codes), 0.05);
  EXPECT_FALSE(same_bits(found.codes, expected.codes)) << "nothing was rounded";
  EXPECT_TRUE(same_bits(rounded->forward(batch).codes, found.codes));
  const auto pair = rounded->forward(batch_in(torch::kFloat, true));
  EXPECT_LT(relative_difference(pair.codes.narrow(1, 0, 1), found.codes), 0.05);
}

TEST_F(CmtInference, Bfloat16WithoutASensorAndWithKeptPositions) {
  if (!has_bfloat16()) GTEST_SKIP() << "this processor has no products of bfloat16";
  const torch::NoGradGuard guard;
  auto exact = detector_with(Precision::kFloat32), rounded = detector_with(Precision::kBfloat16);
  for (const bool lidar : {true, false}) {
    auto batch = batch_in(torch::kFloat);
    auto off = lidar ? batch.available.narrow(1, 0, 1) : batch.available.narrow(1, 1, 6);
    off.fill_(false);
    const auto positions = rounded->kept_key_positions(batch.scene);
    EXPECT_EQ(positions.scalar_type(), torch::kBFloat16);
    const auto found = rounded->run(batch, {.denoising = false, .attention_mass = true}, positions);
    EXPECT_LT(relative_difference(found.codes, exact->forward(batch).codes), 0.05);
    EXPECT_TRUE(found.attention_mass.isfinite().all().item<bool>());
  }
}

TEST_F(CmtInference, Bfloat16IsRefusedWhereItCannotBe) {
  if (!has_bfloat16()) GTEST_SKIP() << "this processor has no products of bfloat16";
  auto detector = detector_with(Precision::kBfloat16);
  const auto batch = batch_in(torch::kFloat);
  EXPECT_EQ(error_of([&] { detector->forward(batch); }),
            "[Detector] precision must be float32 where gradients are asked for, got bfloat16 (without them: "
            "torch::NoGradGuard)");
  detector->train();
  EXPECT_EQ(error_of([&] { detector->forward(batch); }),
            "[Detector] precision must be float32 in training, got bfloat16");
}

TEST(CmtPrecision, IsRefusedForOtherEncodersAndProcessors) {
  auto small = DetectorOptions::small();
  small.precision = Precision::kBfloat16;
  EXPECT_EQ(error_of([&] { small.validate(); }),
            "[Detector] precision must be float32 with other encoders than CMT's, got bfloat16");
  auto options = small_options();
  options.precision = Precision::kBfloat16;
  ::setenv("CAMBER_ISA", "scalar", 1);
  EXPECT_EQ(error_of([&] { options.validate(); }),
            "[Detector] precision must be float32 where the kernels have no products of bfloat16 (they run on scalar), "
            "got bfloat16");
  ::unsetenv("CAMBER_ISA");
}

}  // namespace
}  // namespace camber::cmt_tests
