// How far two sensors agree, against the definition in loops; what policies make of alarms with it.
#include "camber/detection/agreement.h"

#include <cmath>

#include <gtest/gtest.h>

#include "camber/detection/cmt_head.h"
#include "camber/detection/detector.h"
#include "detection/agreement_host.h"
#include "detection/example_batch.h"
#include "support/comparison.h"

namespace camber::detection {
namespace {

using camber::proof::error_of;
using camber::proof::same_bits;
using examples::example_batch;

struct HeatMaps {
  DetectorBatch batch{};
  torch::Tensor grid{}, cameras{}, references{};
  nn::QueryProjection places{};

  SensorAgreement agreement() const { return agreement_of(grid, cameras, places, batch.scene); }
};

// Logits in which some cells are hot, places all over the space.
HeatMaps heat_maps(std::int64_t frames, std::int64_t cameras) {
  const auto options = examples::tiny_options();
  HeatMaps maps{.batch = example_batch(options, frames, cameras)};
  const auto layout = maps.batch.scene.layout();
  torch::manual_seed(4);
  const auto logits = torch::randn({frames, layout.keys(), 3}, torch::kDouble) * 2 - 2;
  maps.grid = logits.narrow(1, 0, layout.maps[0].keys());
  maps.cameras = logits.slice(1, layout.maps[0].keys());
  maps.references = (torch::rand({frames, 40, 3}, torch::kDouble) - 0.5) * torch::tensor({44.0, 44.0, 0.4});
  maps.places = nn::project_queries(maps.references, maps.batch.scene, maps.batch.available);
  return maps;
}

double heat_of_loop(const torch::Tensor& logits, const geometry::KeyMap& map, std::int64_t column, std::int64_t row,
                    std::int64_t label) {
  double largest = 0;
  for (std::int64_t r = std::max<std::int64_t>(0, row - 1); r <= std::min(map.rows - 1, row + 1); ++r)
    for (std::int64_t c = std::max<std::int64_t>(0, column - 1); c <= std::min(map.columns - 1, column + 1); ++c)
      largest = std::max(largest, 1 / (1 + std::exp(-logits[r * map.columns + c][label].item<double>())));
  return largest;
}

// The definition, place by place: NaN where it is not known.
double agreement_of_loop(const HeatMaps& maps, std::int64_t frame, std::int64_t only_camera = -1) {
  const auto layout = maps.batch.scene.layout();
  double sum = 0, classes = 0;
  for (std::int64_t label = 0; label < maps.grid.size(2); ++label) {
    std::vector<double> lidar, camera;
    for (std::int64_t q = 0; q < maps.places.cell.size(1); ++q) {
      const auto cell = [&](std::int64_t m, std::int64_t i) {
        return maps.places.cell[frame][q][m][i].item<std::int64_t>();
      };
      double seen = -1;
      for (std::int64_t m = 1; m < std::ssize(layout.maps); ++m) {
        const auto& map = layout.maps[static_cast<std::size_t>(m)];
        if (cell(m, 0) < 0 || (only_camera >= 0 && m != only_camera + 1)) continue;
        const auto own = maps.cameras[frame].narrow(0, map.first_key - layout.maps[0].keys(), map.keys());
        seen = std::max(seen, heat_of_loop(own, map, cell(m, 0), cell(m, 1), label));
      }
      if (cell(0, 0) < 0 || seen < 0) continue;
      lidar.push_back(heat_of_loop(maps.grid[frame], layout.maps[0], cell(0, 0), cell(0, 1), label));
      camera.push_back(seen);
    }
    if (std::ssize(lidar) < kFewestPlaces) return kNotKnown;
    double a = 0, b = 0, aa = 0, bb = 0, ab = 0;
    for (std::size_t i = 0; i < lidar.size(); ++i) {
      a += lidar[i] / static_cast<double>(lidar.size());
      b += camera[i] / static_cast<double>(lidar.size());
    }
    for (std::size_t i = 0; i < lidar.size(); ++i) {
      aa += (lidar[i] - a) * (lidar[i] - a);
      bb += (camera[i] - b) * (camera[i] - b);
      ab += (lidar[i] - a) * (camera[i] - b);
    }
    sum += std::sqrt(aa * bb) <= 1e-12 ? 0 : ab / std::sqrt(aa * bb);
    ++classes;
  }
  return sum / classes;
}

TEST(Agreement, EqualsItsDefinition) {
  for (const std::int64_t cameras : {1, 3}) {
    const auto maps = heat_maps(2, cameras);
    const auto agreement = maps.agreement();
    for (std::int64_t frame = 0; frame < 2; ++frame) {
      EXPECT_NEAR(agreement.frame[frame].item<double>(), agreement_of_loop(maps, frame), 1e-12);
      for (std::int64_t v = 0; v < cameras; ++v) {
        const double wanted = agreement_of_loop(maps, frame, v), got = agreement.cameras[frame][v].item<double>();
        EXPECT_EQ(std::isnan(got), std::isnan(wanted));
        if (!std::isnan(wanted)) {
          EXPECT_NEAR(got, wanted, 1e-12);
        }
      }
    }
  }
}

// Loops on the host have the bits of the tensor operations, whatever the shapes, with numbers that are none as well.
TEST(Agreement, LoopsHaveTheBitsOfTensorOperations) {
  const auto expect_same = [](const HeatMaps& maps, const std::string& words) {
    const auto loops = agreement_on_host(maps.grid, maps.cameras, maps.places, maps.batch.scene);
    const auto tensors = agreement_by_tensors(maps.grid, maps.cameras, maps.places, maps.batch.scene);
    EXPECT_TRUE(same_bits(loops.frame.nan_to_num(9), tensors.frame.nan_to_num(9))) << words;
    EXPECT_TRUE(same_bits(loops.by_class.nan_to_num(9), tensors.by_class.nan_to_num(9))) << words;
    EXPECT_TRUE(same_bits(loops.cameras.nan_to_num(9), tensors.cameras.nan_to_num(9))) << words;
  };
  for (const std::int64_t frames : {1, 2, 3, 4})
    for (const std::int64_t cameras : {0, 1, 3, 6})
      for (const std::int64_t classes : {1, 4, 10})
        for (const std::int64_t places : {1, 7, 120, 900}) {
          auto maps = heat_maps(frames, cameras);
          const auto wide = torch::cat({maps.grid, maps.cameras}, 1).select(2, 0).unsqueeze(2);
          const auto logits = (wide + torch::randn({1, wide.size(1), classes}, torch::kDouble)).to(torch::kFloat);
          maps.grid = logits.narrow(1, 0, maps.grid.size(1));
          maps.cameras = logits.slice(1, maps.grid.size(1));
          maps.references = (torch::rand({frames, places, 3}, torch::kDouble) - 0.5) * torch::tensor({60.0, 60.0, 0.4});
          if (frames > 1) maps.batch.available[0][0] = false;
          if (cameras > 1) maps.batch.available[frames - 1][2] = false;
          maps.places = nn::project_queries(maps.references, maps.batch.scene, maps.batch.available);
          const std::string words = std::to_string(frames) + " frames, " + std::to_string(cameras) + " cameras, " +
                                    std::to_string(classes) + " classes, " + std::to_string(places) + " places";
          expect_same(maps, words);
          maps.grid = maps.grid.clone();
          maps.grid[frames - 1].slice(0, 300, 700).select(1, 0).fill_(kNotKnown);
          expect_same(maps, words + ", some of them no number");
        }
  auto views = heat_maps(2, 3);  // in double, and of stride 0
  views.grid = views.grid.select(2, 0).unsqueeze(2).expand({2, -1, 3});
  expect_same(views, "views");
}

TEST(Agreement, IsOneOfTheSameMapAndMinusOneOfItsOpposite) {
  auto maps = heat_maps(1, 1);
  const auto layout = maps.batch.scene.layout();
  // One camera that shows at every place what the grid does: heat of a place, cell by cell, is made equal.
  const auto heat = torch::linspace(-2, 2, maps.grid.size(1), torch::kDouble).view({1, -1, 1});
  maps.grid = heat.expand({1, -1, 3});  // a view of stride 0
  maps.cameras = torch::full({1, layout.maps[1].keys(), 3}, -3.0, torch::kDouble);
  for (std::int64_t q = 0; q < 40; ++q) {
    const auto cell = maps.places.cell[0][q];
    if (cell[0][0].item<std::int64_t>() < 0 || cell[1][0].item<std::int64_t>() < 0) continue;
    const double hot =
        heat_of_loop(maps.grid[0], layout.maps[0], cell[0][0].item<std::int64_t>(), cell[0][1].item<std::int64_t>(), 0);
    maps.cameras[0][cell[1][1].item<std::int64_t>() * layout.maps[1].columns + cell[1][0].item<std::int64_t>()].fill_(
        std::log(hot / (1 - hot)));
  }
  EXPECT_GT(maps.agreement().frame.item<double>(), 0.9);
}

TEST(Agreement, IsNotKnownWhereASensorIsAbsentOrNothingIsThere) {
  for (const std::int64_t absent : {0, 1}) {
    auto maps = heat_maps(2, 1);
    maps.batch.available[0][absent] = false;
    maps.places = nn::project_queries(maps.references, maps.batch.scene, maps.batch.available);
    const auto agreement = maps.agreement();
    EXPECT_TRUE(std::isnan(agreement.frame[0].item<double>()));
    EXPECT_FALSE(std::isnan(agreement.frame[1].item<double>())) << "the other frame";
    EXPECT_EQ(agreement.numbers()[0].abs().max().item<double>(), 0);
    EXPECT_EQ(agreement.numbers()[1][3].item<double>(), 1);
  }
  auto nothing = heat_maps(1, 3);  // a world without objects: neither map shows one
  nothing.grid = torch::full_like(nothing.grid, -9);
  nothing.cameras = torch::full_like(nothing.cameras, -9);
  EXPECT_TRUE(std::isnan(nothing.agreement().frame.item<double>()));
  auto blank = heat_maps(1, 3);  // an empty map beside one with objects: no agreement at all
  blank.grid = torch::full_like(blank.grid, -9);
  EXPECT_EQ(blank.agreement().frame.item<double>(), 0);
  const auto none = heat_maps(1, 0);  // no camera at all
  EXPECT_TRUE(std::isnan(none.agreement().frame.item<double>()));
  EXPECT_EQ(none.agreement().cameras.size(1), 0);
}

TEST(Agreement, ANumberThatIsNoneStaysInItsFrame) {
  auto maps = heat_maps(2, 3);
  const auto before = maps.agreement();
  maps.grid = maps.grid.clone();
  maps.grid[0].select(1, 1).fill_(kNotKnown);
  const auto after = maps.agreement();
  EXPECT_TRUE(std::isnan(after.frame[0].item<double>()));
  EXPECT_EQ(after.frame[1].item<double>(), before.frame[1].item<double>());
}

TEST(Agreement, ShapesMustBeThoseOfTheScene) {
  const auto maps = heat_maps(1, 1);
  EXPECT_NE(error_of([&] {
              agreement_of(maps.grid.slice(1, 1), maps.cameras, maps.places, maps.batch.scene);
            }).find("[agreement] logits must be [B, "),
            std::string::npos);
}

TEST(Agreement, IsSmoothedOverWhatIsKnown) {
  EXPECT_EQ(smoothed({0.5, kNotKnown}, 0.25), 0.375);
  EXPECT_EQ(smoothed({0.5}, kNotKnown), 0.5);
  EXPECT_TRUE(std::isnan(smoothed({}, kNotKnown)));
}

DetectorBatch alarmed_batch() {
  DetectorBatch batch{.size = 3};
  batch.available = torch::ones({3, 3}, torch::kBool);
  batch.available[2][1] = false;
  batch.age = torch::tensor({1.0F, 0.1F, 0.6F, 1.0F, 0.1F, 0.6F, 0.5F, 1.0F, 0.9F}).view({3, 3});
  return batch;
}

TEST(Alarms, AreKeptOnlyWhereTheSensorsDisagree) {
  const auto batch = alarmed_batch();
  SensorAgreement agreement{.frame = torch::tensor({0.4, 0.1, kNotKnown}, torch::kDouble),
                            .cameras = torch::tensor({0.0, 0.4, 0.4, 0.0, 0.9, 0.9}, torch::kDouble).view({3, 2})};
  AlarmOptions options{.threshold = 0.2};
  const auto ages = [&](TrustPolicy policy) { return under_policy(batch, policy, options, agreement).age; };
  EXPECT_TRUE(torch::equal(ages(TrustPolicy::kBias), batch.age));
  const auto verified =
      torch::tensor({0.0F, 0.1F, 0.0F, 1.0F, 0.1F, 0.6F, 0.5F, 1.0F, 0.9F}).view({3, 3});  // the first frame agrees
  EXPECT_TRUE(torch::equal(ages(TrustPolicy::kVerifiedBias), verified));
  EXPECT_TRUE(torch::equal(under_policy(batch, TrustPolicy::kRule, options, agreement).available,
                           batch.available & (batch.age <= 0.75)));
  EXPECT_TRUE(torch::equal(under_policy(batch, TrustPolicy::kVerifiedRule, options, agreement).available,
                           batch.available & (verified <= 0.75)));
  options.by_camera =
      true;  // cameras by their own agreement: the third sensor's alarm falls in frame 2, none in frame 1
  const auto by_camera = torch::tensor({0.0F, 0.1F, 0.0F, 1.0F, 0.1F, 0.6F, 0.5F, 1.0F, 0.0F}).view({3, 3});
  EXPECT_TRUE(torch::equal(ages(TrustPolicy::kVerifiedBias), by_camera));
}

TEST(Alarms, TellWhatBecameOfThem) {
  const auto batch = alarmed_batch();
  const SensorAgreement agreement{.frame = torch::tensor({0.4, 0.1, kNotKnown}, torch::kDouble)};
  const AlarmOptions options{.threshold = 0.2};
  const auto states = [&](TrustPolicy policy) {
    std::string text;
    for (const auto& frame : alarms_of(batch, policy, options, agreement)) {
      for (const SensorAlarm& alarm : frame)
        text += std::string(!alarm.available ? "x" : &"-rkd"[static_cast<int>(alarm.state)], 1) +
                (alarm.taken_out ? "!" : "");
      text += ' ';
    }
    return text;
  };
  EXPECT_EQ(states(TrustPolicy::kNone), "r-r r-r -xr ");
  EXPECT_EQ(states(TrustPolicy::kBias), "r-r r-r -xr ");
  EXPECT_EQ(states(TrustPolicy::kRule), "r!-r r!-r -xr! ");
  EXPECT_EQ(states(TrustPolicy::kVerifiedBias), "d-d k-k -xk ");
  EXPECT_EQ(states(TrustPolicy::kVerifiedRule), "d-d k!-k -xk! ");
  EXPECT_EQ(alarms_of(batch, TrustPolicy::kVerifiedRule, options, agreement)[0][0].age, 1) << "as the cues said it";
}

Detector agreeing_detector(nn::RouterMode mode, double threshold) {
  auto options = examples::tiny_options();
  options.router.mode = mode;
  options.bias.segments = true;
  options.alarms.threshold = threshold;
  Detector detector(options, 1);
  detector->eval();
  return detector;
}

TEST(Policies, AreRefusedWhereTheyCannotBeFollowed) {
  auto options = examples::tiny_options();
  EXPECT_EQ(error_of([&] { check_policy(options, TrustPolicy::kVerifiedRule); }),
            "[Detector] alarms.policy must be none, rule or bias before alarms.threshold is known (camber "
            "calibrate-agreement finds it), got verified_rule");
  options.alarms.threshold = 0.1;
  EXPECT_EQ(error_of([&] { check_policy(options, TrustPolicy::kVerifiedBias); }),
            "[Detector] alarms.policy must be none, rule or verified_rule for a detector without a router, got "
            "verified_bias");
  EXPECT_NO_THROW(check_policy(options, TrustPolicy::kVerifiedRule));
  options.head.dense_auxiliary = false;
  EXPECT_EQ(error_of([&] { check_policy(options, TrustPolicy::kVerifiedRule); }),
            "[Detector] alarms.policy must be none, rule or bias without head.dense_auxiliary, whose maps the sensors' "
            "agreement comes from, got verified_rule");
  options.router.mode = nn::RouterMode::kAgree;
  EXPECT_EQ(
      error_of([&] { options.validate(); }),
      "[Detector] router.mode must not be agree without head.dense_auxiliary, whose maps the agreement comes from");
}

TEST(Policies, AreWhatTheySay) {
  const torch::NoGradGuard guard;
  auto detector = agreeing_detector(nn::RouterMode::kCues, 0.2);
  for (auto& parameter : detector->named_parameters())
    if (parameter.key().ends_with("age_gain")) parameter.value().fill_(3);
  auto batch = example_batch(detector->options(), 2, 3);
  batch.age = torch::tensor({1.0F, 0.1F, 0.1F, 0.1F, 1.0F, 0.1F, 0.1F, 0.1F}).view({2, 4});
  const auto codes = [&](TrustPolicy policy, const DetectorBatch& seen) {
    return detector->forward(seen, {.policy = policy}).codes;
  };
  const auto known = detector->forward(batch).agreement.frame;
  EXPECT_TRUE(
      same_bits(codes(TrustPolicy::kNone, batch), detector->forward(batch, {.trust = TrustControl::kZero}).codes));
  EXPECT_FALSE(torch::equal(codes(TrustPolicy::kNone, batch), codes(TrustPolicy::kBias, batch)));
  auto without = batch;
  without.available = batch.available.clone();
  without.available.select(1, 0).fill_(false);
  EXPECT_TRUE(same_bits(codes(TrustPolicy::kRule, batch), codes(TrustPolicy::kNone, without)));
  // A threshold that every frame's agreement passes drops the alarms; one that none passes keeps them.
  auto sound = batch;
  sound.age = torch::where(batch.age > 0.5, torch::zeros_like(batch.age), batch.age);
  detector->set_alarms({.threshold = known.min().item<double>() - 0.01});
  EXPECT_TRUE(same_bits(codes(TrustPolicy::kVerifiedBias, batch), codes(TrustPolicy::kBias, sound)));
  EXPECT_TRUE(same_bits(codes(TrustPolicy::kVerifiedRule, batch), codes(TrustPolicy::kNone, batch)));
  detector->set_alarms({.threshold = 1});
  EXPECT_TRUE(same_bits(codes(TrustPolicy::kVerifiedBias, batch), codes(TrustPolicy::kBias, batch)));
  EXPECT_TRUE(same_bits(codes(TrustPolicy::kVerifiedRule, batch), codes(TrustPolicy::kRule, batch)));
}

TEST(Policies, EarlierFramesSpeakForThisOne) {
  const torch::NoGradGuard guard;
  auto detector = agreeing_detector(nn::RouterMode::kCues, 0.2);
  for (auto& parameter : detector->named_parameters())
    if (parameter.key().ends_with("age_gain")) parameter.value().fill_(3);
  auto batch = example_batch(detector->options(), 1, 3);
  batch.age.fill_(1);
  const auto own = detector->forward(batch).agreement.frame.item<double>();
  detector->set_alarms({.threshold = own + 0.1});
  const ForwardOptions alone{.policy = TrustPolicy::kVerifiedBias},
      after{.policy = TrustPolicy::kVerifiedBias, .earlier_agreement = {own + 0.5}};
  EXPECT_LT(detector->forward(batch, alone).trust.max().item<double>(), 0);  // kept
  EXPECT_GT(detector->forward(batch, after).trust.min().item<double>(), 0);  // dropped: the mean lies above
  EXPECT_EQ(detector->forward(batch, after).agreement.frame.item<double>(), own) << "its own is still told";
}

TEST(AgreeRouter, LeavesTheOutputAloneUntrainedAndLearns) {
  auto options = examples::tiny_options();
  auto plain = Detector(options, 1);
  plain->eval();
  auto detector = agreeing_detector(nn::RouterMode::kAgree, 0);
  const auto batch = example_batch(options, 2, 3);
  {
    const torch::NoGradGuard guard;
    EXPECT_TRUE(same_bits(detector->forward(batch).codes, plain->forward(batch).codes));
  }
  detector->train();
  const auto output = detector->forward(batch);
  EXPECT_TRUE(output.agreement.defined());
  detector->losses(output, batch).total.backward();
  bool found = false;
  for (const auto& parameter : detector->named_parameters())
    if (parameter.key().ends_with("router.agreement_content.weight")) {
      found = true;
      EXPECT_GT(parameter.value().grad().abs().max().item<double>(), 0);
    }
  EXPECT_TRUE(found);
  const auto rules = parameter_rules(detector->options());
  ASSERT_EQ(rules.size(), 1U);
  EXPECT_EQ(rules[0].pattern, "router.agreement_");
  EXPECT_EQ(rules[0].learning_rate, 3);
}

TEST(AgreementInput, IsNeutralAtFirstAndReachesTheQueries) {
  const torch::NoGradGuard guard;
  auto options = examples::tiny_options();
  auto plain = Detector(options, 1);
  plain->eval();
  options.head.agreement_input = true;
  auto told = Detector(options, 1);
  told->eval();
  const auto batch = example_batch(options, 2, 3);
  EXPECT_TRUE(same_bits(told->forward(batch).codes, plain->forward(batch).codes));
  for (auto& parameter : told->named_parameters())
    if (parameter.key().ends_with("agreement_input.weight")) parameter.value().fill_(0.5);
  EXPECT_FALSE(torch::equal(told->forward(batch).codes, plain->forward(batch).codes));
}

}  // namespace
}  // namespace camber::detection
