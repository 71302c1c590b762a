// Every stage from points and images to boxes against the original's values.
#include <torch/nn/modules/conv.h>

#include "cmt/golden_fixture.h"
#include "detection/cmt/bev_backbone.h"
#include "detection/cmt/sparse_encoder.h"
#include "detection/cmt/voxels.h"
#include "detection/resnet.h"
#include "support/comparison.h"

namespace camber::cmt_tests {
namespace {

using namespace detection;
using torch::indexing::Slice;

// Largest difference from the golden of a stage, in absolute terms.
::testing::AssertionResult within(const torch::Tensor& actual, const torch::Tensor& expected, double tolerance) {
  if (actual.sizes() != expected.sizes())
    return ::testing::AssertionFailure() << "shape " << actual.sizes() << ", expected " << expected.sizes();
  const auto worst = (actual.to(torch::kDouble) - expected.to(torch::kDouble)).abs().max().item<double>();
  if (worst <= tolerance) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "largest difference " << worst << " above " << tolerance;
}

// In float with the measured tolerances and in double against the double goldens; each with gradients asked for, layer
// by layer, and without, norms folded into convolutions.
using StageForm = std::tuple<torch::ScalarType, bool>;

class CmtStages : public CmtGolden, public ::testing::WithParamInterface<StageForm> {
 protected:
  void SetUp() override {
    CmtGolden::SetUp();
    if (IsSkipped()) return;
    golden_.emplace(is_double() ? "goldens_f64.safetensors" : "goldens_f32.safetensors");
    torch::GradMode::set_enabled(!std::get<1>(GetParam()));
    detector_ = detector_in(std::get<0>(GetParam()));
    batch_ = batch_in(std::get<0>(GetParam()));
  }
  void TearDown() override { torch::GradMode::set_enabled(true); }
  static bool is_double() { return std::get<0>(GetParam()) == torch::kDouble; }

  // Stages that the double file leaves out are checked in float alone.
  void expect_stage(const std::string& name, const torch::Tensor& actual, double float_tolerance) const {
    if (!golden_->has(name)) {
      ASSERT_TRUE(is_double()) << name;
      return;
    }
    EXPECT_TRUE(within(actual, (*golden_)[name], is_double() ? 1e-10 : float_tolerance)) << name;
  }
  const DetectorImpl& parts() const { return *detector_; }
  CmtHead head() const { return detector_->head(); }

  std::optional<Golden> golden_;
  Detector detector_{nullptr};
  DetectorBatch batch_;
};

TEST_P(CmtStages, LidarFromVoxelsToTheMap) {
  const auto points = parts().voxelise(batch_);
  expect_stage("vfe", points.features, 2e-5);
  const auto encoder = part_of<cmt::SparseEncoderImpl>(*detector_, "lidar_encoder.pts_middle_encoder");
  cmt::SparseStages stages;
  const auto dense = encoder->forward(points.features, points.cell, 1, &stages);
  EXPECT_EQ(stages.size(), 13);
  const Golden sites("goldens_f32.safetensors");
  for (const auto& [name, map] : stages) {
    if (!sites.has("sparse." + name + ".indices")) continue;
    const auto indices = sites["sparse." + name + ".indices"];
    EXPECT_TRUE(by_site(map.coordinates, map.coordinates).equal(by_site(indices, indices))) << name;
    if (!golden_->has("sparse." + name + ".features")) continue;
    EXPECT_TRUE(within(by_site(map.features, map.coordinates),
                       by_site((*golden_)["sparse." + name + ".features"], indices), is_double() ? 1e-10 : 2e-5))
        << name;
  }
  expect_stage("pts_middle_encoder", dense, 2e-5);
  const auto levels = part_of<cmt::SecondImpl>(*detector_, "lidar_encoder.pts_backbone")->forward(dense);
  expect_stage("pts_backbone.0", levels[0], 2e-5);
  expect_stage("pts_backbone.1", levels[1], 2e-5);
  const auto map = part_of<cmt::SecondFpnImpl>(*detector_, "lidar_encoder.pts_neck")->forward(levels);
  expect_stage("pts_neck", map, 2e-5);
}

TEST_P(CmtStages, ImagesToTheirMap) {
  const auto images = batch_.images[0][0];
  const auto backbone = part_of<ResNet50Impl>(*detector_, "camera_encoder.img_backbone");
  auto state = backbone->stem(images);
  expect_stage("img_backbone.stem", state, 1e-4);
  std::vector<torch::Tensor> levels;
  for (const char* name : {"layer1", "layer2", "layer3", "layer4"}) {
    state = backbone->named_children()[name]->as<torch::nn::Sequential>()->forward(state);
    expect_stage(std::string("img_backbone.") + name, state, 1e-4);
    levels.push_back(state);
  }
  for (const int level : {0, 1}) {
    const std::string number = std::to_string(level);
    const auto lateral =
        part_of<torch::nn::Conv2dImpl>(*detector_, "camera_encoder.img_neck.lateral_convs." + number + ".conv");
    expect_stage("img_neck.lateral" + number, lateral->forward(levels[2 + static_cast<std::size_t>(level)]), 3e-5);
  }
  expect_stage("img_neck.0", part_of<CameraEncoderImpl>(*detector_, "camera_encoder")->forward(images), 3e-5);
}

TEST_P(CmtStages, KeysAndEmbeddings) {
  const auto memory = head()->memory_of(parts().encode(batch_, parts().voxelise(batch_)), batch_);
  expect_stage("decoder.in.memory", memory.transpose(0, 1), 3e-5);
  expect_stage("head.shared_conv", memory.narrow(1, 0, 1024).transpose(1, 2).reshape({1, 64, 32, 32}), 2e-5);
  const auto positions = head()->key_positions(batch_.scene, 1);
  expect_stage("head.bev_pos_embed", positions[0].narrow(0, 0, 1024), 1e-5);
  expect_stage("head.rv_pos_embed", positions[0].narrow(0, 1024, 240).view({6, 4, 10, 64}), 1e-5);
  auto blind = batch_;
  blind.scene.cameras = {{}};
  const auto references = head()->references().unsqueeze(0);
  const auto bev = head()->query_positions(references, blind), both = head()->query_positions(references, batch_);
  expect_stage("head.bev_query_embed", bev, 1e-5);
  expect_stage("head.rv_query_embed", both - bev, 1e-5);
  expect_stage("head.query_embed", both[0], 1e-5);
}

TEST_P(CmtStages, DecoderLayerByLayer) {
  const auto memory = head()->memory_of(parts().encode(batch_, parts().voxelise(batch_)), batch_);
  const auto memory_position = head()->key_positions(batch_.scene, 1);
  const auto query = head()->query_positions(head()->references().unsqueeze(0), batch_);
  auto state = head()->query_start(query);
  auto decoder = head()->decoder;
  const auto tasks = part_of<TaskHeadsImpl>(*detector_, "head.task_heads");
  std::vector<torch::Tensor> normed, raw, logits;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto layer = decoder->layers[i]->as<nn::DecoderLayer>();
    const std::string name = "decoder.layer" + std::to_string(i);
    const auto own = layer->self_attention->forward({state, state, state, query, query}).output;
    expect_stage(name + ".self_attn_plus_identity", own.transpose(0, 1), 2e-4);
    state = layer->norm1->forward(own);
    const auto seen = layer->cross_attention->forward({state, memory, memory, query, memory_position}).output;
    expect_stage(name + ".cross_attn_plus_identity", seen.transpose(0, 1), 2e-4);
    state = layer->norm3->forward(layer->feedforward->forward(layer->norm2->forward(seen)));
    expect_stage(name, state.transpose(0, 1), 2e-4);
    normed.push_back(decoder->post_norm->forward(state));
    const auto outputs = tasks->forward(normed.back(), static_cast<std::int64_t>(i));
    raw.push_back(outputs.raw);
    logits.push_back(outputs.logits);
  }
  expect_stage("decoder.post_norm_stack", torch::stack(normed).transpose(1, 2), 2e-4);
  const DetectorOutput before{.class_logits = torch::stack(logits), .codes = torch::stack(raw)};  // [L, B, Q, c]
  for (const auto& name : kHeads)
    expect_stage("task_head.raw." + name, head_output(before, name).permute({1, 0, 3, 2}).flatten(1, 2), 1e-4);
}

TEST_P(CmtStages, OutputsAndBoxes) {
  const auto output = detector_->forward(batch_);
  for (const auto& name : kHeads)
    expect_stage("out." + name, head_output(output, name), name == "center" || name == "height" ? 1e-3 : 1e-4);
  const auto found = detector_->decode(output, batch_)[0];
  const auto boxes = (*golden_)["boxes"], scores = (*golden_)["scores"];
  const auto labels = Golden("goldens_f32.safetensors")["labels"];
  ASSERT_EQ(std::ssize(found), boxes.size(0));
  for (std::int64_t i = 0; i < boxes.size(0); ++i) {
    const detection::Detection& one = found[static_cast<std::size_t>(i)];
    const auto& [box, velocity] = std::tie(one.box, one.velocity);
    const auto ours = torch::tensor({box.center[0], box.center[1], box.center[2] - box.height / 2, box.length,
                                     box.width, box.height, box.yaw, velocity[0], velocity[1]},
                                    torch::kDouble);
    EXPECT_TRUE(within(ours, boxes[i], is_double() ? 1e-5 : 1e-3)) << i;
    EXPECT_NEAR(one.score, scores[i].item<double>(), is_double() ? 1e-10 : 1e-5) << i;
    EXPECT_EQ(one.label, labels[i].item<std::int64_t>()) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CmtStages,
                         ::testing::Combine(::testing::Values(torch::kFloat, torch::kDouble), ::testing::Bool()),
                         [](const auto& form) {
                           return c10::toString(std::get<0>(form.param)) +
                                  std::string(std::get<1>(form.param) ? "Folded" : "LayerByLayer");
                         });

TEST_F(CmtGolden, VoxelsEqualTheOriginals) {
  const Golden golden("goldens_f32.safetensors");
  const auto batch = batch_in(torch::kFloat);
  const auto voxels = cmt::voxelise(batch.points, batch.point_offsets, torch::tensor({std::int64_t{0}}),
                                    cmt::VoxelOptions::of(small_options(), false));
  EXPECT_TRUE(voxels.coordinates.equal(golden["coors"]));
  EXPECT_TRUE(voxels.counts.equal(golden["num_points"].to(torch::kLong)));
  EXPECT_TRUE(batch.points.index_select(0, voxels.rows).equal(golden["voxels.rows"]));
}

TEST_F(CmtGolden, VoxelLimitsKeepTheFirst) {
  const Golden golden("voxelize_limits.safetensors");
  const auto batch = batch_in(torch::kFloat);
  struct Case {
    std::string name;
    std::int64_t points, voxels;
  };
  for (const auto& [name, max_points, max_voxels] :
       {Case{"points3", 3, 160000}, Case{"voxels2000", 10, 2000}, Case{"both", 2, 1500}}) {
    auto options = cmt::VoxelOptions::of(small_options(), false);
    options.max_points = max_points;
    options.max_voxels = max_voxels;
    const auto voxels = cmt::voxelise(batch.points, batch.point_offsets, torch::tensor({std::int64_t{0}}), options);
    EXPECT_TRUE(voxels.coordinates.narrow(1, 1, 3).equal(golden[name + ".coors"])) << name;
    EXPECT_TRUE(voxels.counts.equal(golden[name + ".num_points"].to(torch::kLong))) << name;
    if (!golden.has(name + ".voxels")) continue;
    const auto rows = golden[name + ".voxels"];
    const auto filled = torch::arange(rows.size(1)).unsqueeze(0) < voxels.counts.unsqueeze(1);
    EXPECT_TRUE(batch.points.index_select(0, voxels.rows).equal(rows.index({filled}))) << name;
  }
}

TEST_F(CmtGolden, BatchOfTwo) {
  const torch::NoGradGuard guard;
  const Golden golden("batch2.safetensors");
  const auto batch = batch_in(torch::kFloat, true);
  auto detector = detector_in(torch::kFloat);
  const auto output = detector->forward(batch);
  for (const auto& name : kHeads)
    EXPECT_TRUE(
        within(head_output(output, name), golden["out." + name], name == "center" || name == "height" ? 1e-3 : 1e-4))
        << name;
  const auto found = detector->decode(output, batch);
  for (const std::size_t b : {std::size_t{0}, std::size_t{1}}) {
    const std::string number = std::to_string(b);
    const auto labels = golden["labels." + number], scores = golden["scores." + number];
    ASSERT_EQ(std::ssize(found[b]), labels.size(0));
    for (std::int64_t i = 0; i < labels.size(0); ++i) {
      EXPECT_EQ(found[b][static_cast<std::size_t>(i)].label, labels[i].item<std::int64_t>()) << number << " " << i;
      EXPECT_NEAR(found[b][static_cast<std::size_t>(i)].score, scores[i].item<double>(), 1e-5) << number << " " << i;
    }
  }
}

}  // namespace
}  // namespace camber::cmt_tests
