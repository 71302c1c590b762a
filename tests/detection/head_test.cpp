#include <limits>

#include <gtest/gtest.h>

#include "camber/detection/box_coding.h"
#include "camber/detection/cmt_head.h"
#include "detection/example_batch.h"
#include "detection/pillars.h"
#include "detection/task_heads.h"
#include "support/comparison.h"

namespace camber::detection {
namespace {

using camber::proof::close;
using camber::proof::error_of;
using camber::proof::gradients_match;
using camber::proof::same_bits;
using examples::example_batch;

std::int64_t parameters_of(const torch::nn::Module& module, const std::string& start = "") {
  std::int64_t count = 0;
  for (const auto& parameter : module.named_parameters())
    if (parameter.key().compare(0, start.size(), start) == 0) count += parameter.value().numel();
  return count;
}

TEST(CmtHead, HasTheParametersOfTheReferenceSize) {
  const CmtHead head(DetectorOptions::reference());
  EXPECT_EQ(parameters_of(*head, "decoder.layers.0."), 1053440);
  EXPECT_EQ(parameters_of(*head, "decoder."), 6320640 + 512);
  EXPECT_EQ(parameters_of(*head, "positions.bev"), 197120);
  EXPECT_EQ(parameters_of(*head, "positions.rv"), 460032);
  EXPECT_EQ(parameters_of(*head, "shared_"), 1180160);
  EXPECT_EQ(parameters_of(*head, "task_heads."), 602232);
  EXPECT_EQ(parameters_of(*head, "reference_points"), 2700);
  EXPECT_EQ(parameters_of(*head), 6320640 + 512 + 197120 + 460032 + 1180160 + 602232 + 2700);
}

TEST(TaskHeads, EqualTheFormulaInDouble) {
  torch::manual_seed(4);
  TaskHeadsImpl heads(2, 8, 6, 3);
  const torch::NoGradGuard guard;
  for (auto& parameter : heads.parameters()) parameter.normal_();
  const auto state = torch::randn({2, 5, 8});
  const auto out = heads.forward(state, 1);
  const auto p = heads.named_parameters();
  const std::array<const char*, 6> names = {"centre", "height", "size", "heading", "velocity", "classes"};
  std::vector<torch::Tensor> expected;
  for (std::int64_t t = 0; t < 6; ++t) {
    const auto value = [&](const std::string& name) { return p[name][1].to(torch::kDouble); };
    const auto inner = torch::matmul(state.to(torch::kDouble), value("hidden").narrow(0, 6 * t, 6).t());
    const auto spread = torch::sqrt(inner.var(-1, false, true) + 1e-6);
    const auto normed = (inner - inner.mean(-1, true)) / spread * value("norm_weight")[t] + value("norm_bias")[t];
    const std::string name = names[static_cast<std::size_t>(t)];
    expected.push_back(torch::matmul(normed.clamp_min(0), value(name + "_weight").t()) + value(name + "_bias"));
  }
  EXPECT_TRUE(close(out.logits, expected[5], 1e-5));
  expected.pop_back();
  EXPECT_TRUE(close(out.raw, torch::cat(expected, -1), 1e-5));
}

TEST(CmtHead, FixedReferencesAreTheNearestPositionsOfAGrid) {
  const CmtHead head(DetectorOptions::small());
  const auto references = head->references();
  ASSERT_EQ(references.sizes(), (std::vector<std::int64_t>{120, 3}));
  const auto radius = references.narrow(1, 0, 2).norm(2, 1);
  EXPECT_LT(radius.max().item<double>(), 26.6);
  EXPECT_NEAR(references.narrow(1, 0, 2).sum().item<double>(), 0, 1e-3);  // as many on each side
  EXPECT_EQ(std::get<0>(at::unique_dim(references, 0)).size(0), 120);
}

// The whole detector in float with the fast operators against the same weights in double with the plain ones.
void expect_same_in_double(DetectorOptions options) {
  Detector detector(options, 2);
  detector->eval();
  const auto batch = example_batch(options, 2, 3);
  const torch::NoGradGuard guard;
  if (options.has_router())
    for (auto& parameter : detector->named_parameters())
      if (parameter.key().find("router.") != std::string::npos && parameter.value().dim() <= 2)
        parameter.value().add_(0.3 * torch::ones_like(parameter.value()));
  const auto quick = detector->forward(batch, {.statistics = true});
  detector->to(torch::kDouble);
  const auto plain = detector->forward(batch, {.statistics = true, .implementation = ops::Implementation::kReference});
  EXPECT_TRUE(close(quick.class_logits, plain.class_logits, 1e-5));
  EXPECT_TRUE(close(quick.codes, plain.codes, 1e-5));
  EXPECT_TRUE(close(quick.attention_mass, plain.attention_mass, 1e-5));
  if (options.has_router()) {
    EXPECT_TRUE(close(quick.trust, plain.trust, 1e-5));
  }
}

TEST(Detector, InFloatEqualsItselfInDouble) {
  expect_same_in_double(examples::tiny_options());
}

TEST(Detector, WithRouterAndSegmentsInFloatEqualsItselfInDouble) {
  auto options = examples::tiny_options();
  options.router.mode = nn::RouterMode::kLearned;
  options.bias.segments = true;
  expect_same_in_double(options);
}

TEST(Detector, WithCmtsChoicesInFloatEqualsItselfInDouble) {
  auto options = examples::tiny_options();
  options.head.position_embedding = PositionEmbedding::kCmt;
  options.head.references = References::kLearned;
  options.head.centre = Centre::kSigmoid;
  options.head.refine = false;
  options.head.dense_auxiliary = false;
  options.head.box_code = BoxCode::kCmt;
  expect_same_in_double(options);
}

TEST(Detector, CentreIsASigmoidOverTheSpaceOrAnOffset) {
  auto options = examples::tiny_options();
  options.head.centre = Centre::kSigmoid;
  options.head.refine = false;
  Detector detector(options, 2);
  detector->eval();
  const torch::NoGradGuard guard;
  for (auto& parameter : detector->named_parameters())
    if (parameter.key().find("task_heads.centre_weight") != std::string::npos ||
        parameter.key().find("task_heads.height_weight") != std::string::npos)
      parameter.value().zero_();
  const auto batch = example_batch(options, 1, 1);
  // Without any output, a query's box stands where its reference is.
  const auto output = detector->forward(batch);
  EXPECT_TRUE(close(output.codes.narrow(-1, 0, 3), output.references.unsqueeze(0).expand({2, -1, -1, -1}), 1e-4));
}

TEST(ScatterMax, TakesTheLargestOfEachCellAndItsGradient) {
  torch::manual_seed(3);
  auto values = torch::rand({7, 3}, torch::kDouble).requires_grad_();
  const auto cell = torch::tensor({4, 0, 4, 2, 0, 4, 2});
  const auto map = scatter_max(values, cell, 5);
  EXPECT_TRUE(
      close(map[4].narrow(0, 0, 3), std::get<0>(values.index_select(0, torch::tensor({0, 2, 5})).max(0)), 1e-15));
  EXPECT_NEAR(map[4][3].item<double>(), std::log(4.0), 1e-15);
  EXPECT_EQ(map[1].abs().sum().item<double>(), 0);
  const auto weights = torch::rand({5, 4}, torch::kDouble);
  EXPECT_TRUE(gradients_match([&] { return (scatter_max(values, cell, 5) * weights).sum(); }, {{"values", values}}));
}

TEST(ScatterMax, KeepsWhatIsNoNumberWhereverItStands) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& values : {torch::tensor({nan, 1.0}), torch::tensor({1.0, nan})})
    EXPECT_TRUE(scatter_max(values.view({2, 1}), torch::tensor({0, 0}), 1)[0][0].isnan().item<bool>());
}

TEST(Pillars, LeaveOutPointsBeyondTheSpace) {
  const auto space = DetectorOptions::small().space;
  const auto points = torch::tensor({{0.1F, 0.1F, -1.0F, 0.5F, 0.0F},
                                     {30.0F, 0.0F, 0.0F, 0.5F, 0.0F},
                                     {-25.5F, 25.5F, 0.0F, 0.5F, 0.1F},
                                     {0.0F, 0.0F, 9.0F, 0.5F, 0.0F}});
  const auto pillars = pillar_points(points, torch::tensor({0, 3, 4}), torch::tensor({0, 1}), space);
  EXPECT_TRUE(torch::equal(pillars.cell, torch::tensor({32 * 64 + 32, 63 * 64})));
  EXPECT_TRUE(close(pillars.features[0],
                    torch::tensor({-0.375F, -0.375F, 0.0F, -1.0F, 1.0F, 0.1F / 25.6F, 0.1F / 25.6F, 0.0F}), 1e-5));
}

TEST(Pillars, GiveEarlierSweepsAMapOfTheirOwn) {
  auto options = DetectorOptions::small();
  options.encoder.previous_sweeps = 3;
  options.encoder.split_lag = 0.3;
  const auto points = torch::tensor(
      {{0.1F, 0.1F, -1.0F, 0.5F, 0.0F}, {0.1F, 0.1F, -1.0F, 0.5F, 0.1F}, {0.1F, 0.1F, -1.0F, 0.5F, 0.5F}});
  const auto pillars =
      pillar_points(points, torch::tensor({0, 3}), torch::tensor({0}), options.space, options.encoder.split_lag);
  const std::int64_t pillar = 32 * 64 + 32;
  EXPECT_TRUE(torch::equal(pillars.cell, torch::tensor({2 * pillar, 2 * pillar, 2 * pillar + 1})));
  PillarEncoder encoder(options.space, 4, 2);
  const auto map = encoder->forward(pillars, 1);
  EXPECT_EQ(map.sizes(), (std::vector<std::int64_t>{1, 10, 64, 64}));
  EXPECT_TRUE(map.is_contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_NEAR(map[0][4][32][32].item<double>(), std::log(3.0), 1e-6);  // of the key frame and one just before it
  EXPECT_NEAR(map[0][9][32][32].item<double>(), std::log(2.0), 1e-6);
  EXPECT_EQ(map.sum({0, 1}).nonzero().size(0), 1);
}

TEST(DenseMotion, IsAddedToBoxesWhereTheLayerBeforeFoundTheirCentre) {
  auto options = examples::tiny_options();
  options.head.dense_motion = true;
  Detector detector(options, 1);
  detector->eval();
  const torch::NoGradGuard guard;
  auto batch = examples::example_batch(options, 2, 2);
  batch.available[1][0] = false;
  auto maps = detector->encode(batch);
  ASSERT_EQ(maps.bev.size(1), options.encoder.bev_channels + 4);
  EXPECT_EQ(maps.bev[1].abs().sum().item<double>(), 0);  // without LiDAR nothing is known
  const auto codes_with = [&](double speed) {
    maps.bev.narrow(1, options.encoder.bev_channels, 4).zero_();
    maps.bev[0].select(0, options.encoder.bev_channels + 2).fill_(speed);  // vx, the same everywhere
    return detector->head()->forward(maps, batch, {}, {}, std::nullopt).codes;
  };
  auto expected = codes_with(0).clone();
  expected[1][0].select(1, 8).add_(3);  // the second layer's, in the frame with LiDAR
  EXPECT_TRUE(close(codes_with(3), expected, 1e-5));
}

TEST(DenseMotion, TeachesItsBranch) {
  auto options = examples::tiny_options();
  options.head.dense_motion = true;
  Detector detector(options, 1);
  const auto batch = examples::example_batch(options, 2, 2);
  const auto losses = detector->losses(detector->forward(batch), batch);
  bool named = false;
  for (const auto& [name, term] : losses.terms) named = named || name == "dense_motion";
  EXPECT_TRUE(named);
  losses.total.backward();
  for (const auto& parameter : detector->named_parameters()) {
    if (parameter.key().find("lidar_encoder.motion") == std::string::npos) continue;
    EXPECT_GT(parameter.value().grad().abs().sum().item<double>(), 0) << parameter.key();
  }
  options.head.refine = false;
  EXPECT_THROW(options.validate(), std::invalid_argument);
}

TEST(DetectorOptions, RefuseAMapOfEarlierSweepsWithoutAny) {
  auto options = DetectorOptions::small();
  options.encoder.split_lag = 0.3;
  EXPECT_THROW(options.validate(), std::invalid_argument);
  options.encoder.previous_sweeps = 3;
  EXPECT_NO_THROW(options.validate());
  options.encoder.kind = EncoderKind::kReference;
  EXPECT_THROW(options.validate(), std::invalid_argument);
}

TEST(CmtHead, TrustsEachCameraByItselfWhereTheRouterAnswersForEach) {
  DetectorOptions options = examples::tiny_options();
  options.router.mode = nn::RouterMode::kLearned;
  options.bias.segments = options.bias.per_camera = true;
  const DetectorBatch batch = example_batch(options, 2, 3);
  torch::NoGradGuard no_grad;
  EXPECT_EQ(error_of([&] { Detector(options, 3)->forward(batch, {}); }),
            "[Detector] router.num_sensors must be 1 + the number of cameras with bias.per_camera, 4, got 2");
  options.router.num_sensors = 4;
  EXPECT_EQ(Detector(options, 3)->forward(batch, {}).trust.size(-1), 4);
}

}  // namespace
}  // namespace camber::detection
