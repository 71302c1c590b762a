// Gradients and the training loss against the original's, in double.
#include <fstream>

#include <nlohmann/json.hpp>

#include "cmt/golden_fixture.h"
#include "detection/cmt/sparse_encoder.h"
#include "detection/denoising.h"
#include "detection/losses.h"
#include "support/comparison.h"

namespace camber::cmt_tests {
namespace {

using namespace detection;
using camber::proof::close_to_largest;

class CmtGradients : public CmtGolden {};

TEST_F(CmtGradients, SparseEncoder) {
  const Golden golden("grads_sparse_encoder_f64.safetensors");
  const auto detector = detector_in(torch::kDouble);
  const auto points = detector->voxelise(batch_in(torch::kDouble));
  // The stored gradients start from the means that the float run rounded.
  const auto features = Golden("goldens_f32.safetensors")["vfe"].to(torch::kDouble).requires_grad_();
  const auto encoder = part_of<cmt::SparseEncoderImpl>(*detector, "lidar_encoder.pts_middle_encoder");
  const auto map = encoder->forward(features, points.cell, 1);
  const auto loss = (map * probe("probe.pts_middle_encoder", map.sizes())).sum();
  EXPECT_NEAR(loss.item<double>(), golden["loss"].item<double>(), 1e-9);
  loss.backward();
  EXPECT_TRUE(close_to_largest(features.grad(), golden["d.input_features"], 1e-9));
  std::int64_t compared = 0;
  for (const auto& [name, gradient] : gradients_in_cmt_names(detector)) {
    if (!golden.has("d." + name)) continue;
    EXPECT_TRUE(close_to_largest(gradient, golden["d." + name], 1e-9)) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 63);
}

TEST_F(CmtGradients, WholeDetector) {
  const Golden golden("grads_detector.safetensors");
  const auto detector = detector_in(torch::kDouble);
  auto batch = batch_in(torch::kDouble);
  batch.images[0].requires_grad_();
  auto points = detector->voxelise(batch);
  points.features = points.features.clone().requires_grad_();
  const auto maps = detector->encode(batch, points);
  const auto output = detector->head()->forward(maps, batch, {}, {}, std::nullopt);
  auto loss = torch::zeros({}, torch::kDouble);
  for (const auto& head : kHeads) {
    const auto value = head_output(output, head);
    loss = loss + (value * probe("probe.out." + head, value.sizes())).sum();
  }
  loss.backward();
  EXPECT_TRUE(close_to_largest(batch.images[0].grad()[0], golden["d.images"], 1e-6));
  EXPECT_TRUE(close_to_largest(points.features.grad(), golden["d.vfe"], 1e-6));
  std::int64_t compared = 0;
  for (const auto& [name, gradient] : gradients_in_cmt_names(detector)) {
    if (!golden.has("d." + name)) continue;
    ++compared;
    // The first self-attention looks at zeros: its projection has no gradient but rounding.
    if (name == "pts_bbox_head.transformer.decoder.layers.0.attentions.0.attn.in_proj_weight")
      EXPECT_LT(gradient.abs().max().item<double>(), 1e-9);
    else
      EXPECT_TRUE(close_to_largest(gradient, golden["d." + name], 1e-6)) << name;
  }
  EXPECT_GT(compared, 300);
}

class CmtTraining : public CmtGolden {
 protected:
  void SetUp() override {
    CmtGolden::SetUp();
    if (IsSkipped()) return;
    golden_ = nlohmann::json::parse(std::ifstream(golden_folder() / "small" / "train_loss.json"));
  }
  // The stored objects; their boxes stand on the ground there.
  Targets targets() const {
    const auto boxes = golden_.at("gt_boxes_bottom_centre").get<std::vector<std::vector<double>>>();
    Targets result{.boxes = torch::empty({6, 9}, torch::kFloat)};
    for (std::size_t g = 0; g < boxes.size(); ++g)
      result.boxes[static_cast<std::int64_t>(g)] = torch::tensor(boxes[g], torch::kFloat);
    result.boxes.select(1, 2) += result.boxes.select(1, 5) / 2;
    result.labels = torch::tensor(golden_.at("gt_labels").get<std::vector<std::int64_t>>(), torch::kLong);
    return result;
  }
  // Ten groups of the six objects, noised as the original was; shares of the space become metres.
  DenoisingQueries denoising(const torch::Tensor& references) const {
    const auto labels = golden_.at("dn_labels").get<std::vector<std::int64_t>>();
    const auto low = torch::tensor({-12.8, -12.8, -5.0}, torch::kDouble);
    const auto extent = torch::tensor({25.6, 25.6, 8.0}, torch::kDouble);
    return {.groups = 10,
            .count = 60,
            .references = references.narrow(1, 0, 60) * extent + low,
            .object = torch::arange(6).repeat({10}).unsqueeze(0),
            .background = torch::tensor(labels, torch::kLong).eq(10).unsqueeze(0)};
  }
  nlohmann::json golden_;
};

TEST_F(CmtTraining, LossesAndGradients) {
  const Golden outputs("train_outputs_f64.safetensors");
  auto detector = detector_in(torch::kDouble);
  auto batch = batch_in(torch::kDouble);
  batch.targets = {targets()};
  const auto queries = denoising(outputs["reference_points"]);
  EXPECT_TRUE(denoising_mask(queries, 60)[0][0].equal(outputs["self_attn_mask"]));
  const auto maps = detector->encode(batch, detector->voxelise(batch));
  const auto output = detector->head()->forward(maps, batch, queries, {}, std::nullopt);
  const DetectorOutput noised{.class_logits = output.denoising_logits, .codes = output.denoising_codes};
  for (const auto& head : kHeads) {
    EXPECT_TRUE(camber::proof::close(head_output(output, head), outputs["out." + head], 1e-10)) << head;
    EXPECT_TRUE(camber::proof::close(head_output(noised, head), outputs["out.dn_" + head], 1e-10)) << head;
  }
  const auto object = match_batch(output, batch, detector->options());
  const auto assigned = golden_.at("assignment_per_layer").get<std::vector<std::vector<std::int64_t>>>();
  // The original numbers objects from 1 on, after sorting them by class.
  const auto rank = torch::argsort(torch::argsort(batch.targets[0].labels, /*stable=*/true));
  for (std::size_t l = 0; l < assigned.size(); ++l) {
    const auto ours = object[static_cast<std::int64_t>(l)][0];
    const auto numbered =
        torch::where(ours.ge(0), rank.index_select(0, ours.clamp_min(0)) + 1, torch::zeros_like(ours));
    EXPECT_TRUE(numbered.equal(torch::tensor(assigned[l], torch::kLong))) << l;
  }
  const auto losses = detector->losses(output, batch);
  const auto& expected = golden_.at("losses_f64");
  ASSERT_EQ(losses.terms.size(), 12);
  for (const auto& [name, value] : losses.terms) {
    const std::string layer = name.substr(name.size() - 1);
    const std::string original = std::string(layer == "2" ? "" : "d" + layer + ".") +
                                 (name.starts_with("denoising_") ? "dn_" : "") +
                                 (name.find("class") != std::string::npos ? "loss_cls" : "loss_bbox");
    EXPECT_NEAR(value.item<double>(), expected.at(original).get<double>(), 1e-6) << name;
  }
  EXPECT_NEAR(losses.total.item<double>(), expected.at("total").get<double>(), 1e-5);
  losses.total.backward();
  const auto& statistics = golden_.at("grad_stats_f64");
  std::size_t compared = 0;
  for (const auto& [name, gradient] : gradients_in_cmt_names(detector)) {
    if (!statistics.contains(name)) continue;
    ++compared;
    const auto& of = statistics.at(name);
    const double largest = std::max(of.at("absmax").get<double>(), 1e-6);  // one gradient is 0 but for rounding
    EXPECT_NEAR(gradient.norm().item<double>(), of.at("l2").get<double>(), 1e-6 * of.at("l2").get<double>() + 1e-9)
        << name;
    const auto first = of.at("first8").get<std::vector<double>>();
    const auto flat = gradient.flatten();
    for (std::size_t i = 0; i < first.size(); ++i)
      EXPECT_NEAR(flat[static_cast<std::int64_t>(i)].item<double>(), first[i], 1e-6 * largest) << name << " " << i;
  }
  EXPECT_EQ(compared, statistics.size());
}

}  // namespace
}  // namespace camber::cmt_tests
