#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "camber/eval/detection_metrics.h"
#include "nuscenes/small_world.h"

namespace camber::eval {
namespace {

using Json = nlohmann::json;
using tests::message_of;

// Boxes of one class given by sample, x, y and score; sizes of one metre, heading 0.
struct Simple {
  int sample = 0;
  double x = 0, y = 0, score = -1;
  DetectionClass label = DetectionClass::kCar;
};

SampleBoxes boxes_of(const std::vector<Simple>& list, int samples = 2) {
  SampleBoxes boxes;
  for (int sample = 0; sample < samples; ++sample) {
    boxes.open_sample(std::to_string(sample));
    for (const Simple& simple : list)
      if (simple.sample == sample)
        boxes.push({.translation = {simple.x, simple.y, 0},
                    .size = {1, 1, 1},
                    .rotation = {1, 0, 0, 0},
                    .score = simple.score,
                    .sample = sample,
                    .label = simple.label});
  }
  return boxes;
}

MetricCurve car_curve(const std::vector<Simple>& truth, const std::vector<Simple>& predictions) {
  return make_curve(match_class({boxes_of(truth), boxes_of(predictions), {}}, DetectionClass::kCar, 2));
}

double car_precision(const std::vector<Simple>& truth, const std::vector<Simple>& predictions) {
  return average_precision(car_curve(truth, predictions), 0.1, 0.1);
}

double car_error(const std::vector<Simple>& truth, const std::vector<Simple>& predictions) {
  return tp_error(car_curve(truth, predictions), 0.1, TpError::kTranslation);
}

constexpr DetectionClass kPedestrian = DetectionClass::kPedestrian;
const Simple kTruth1{0, 1, 1}, kTruth2{0, 10, 10}, kTruth3{0, 20, 20};
const Simple kFound1{0, 1, 1, 1.0}, kFound2{0, 11, 10, 0.9}, kFalse{0, 100, 10, 0.8}, kFound4{0, 20, 20, 0.7},
    kFound5{0, 21, 20, 0.7};

TEST(AveragePrecision, OfSimpleCases) {
  EXPECT_DOUBLE_EQ(car_precision({kTruth1, kTruth2}, {kFound1, kFound2}), 1.0);
  EXPECT_NEAR(car_precision({kTruth1, kTruth2}, {kFound1}), 0.4444444444, 1e-10);
  EXPECT_NEAR(car_precision({kTruth1}, {kFound1, {0, 3, 3, 0.7}}), 0.9938271605, 1e-10);  // false, lower score
  EXPECT_NEAR(car_precision({{0, 3, 3}}, {kFound1, {0, 3, 3, 0.7}}), 0.2, 1e-10);         // false, higher score
  EXPECT_DOUBLE_EQ(car_precision({kTruth1}, {kFound1, {0, 3, 3, 0.7, kPedestrian}}), 1.0);
  EXPECT_NEAR(car_precision({kTruth1, {1, 1, 1}}, {kFound1}), 0.4444444444, 1e-10);  // missed in the second sample
  EXPECT_EQ(car_precision({}, {kFound1}), 0);
  EXPECT_EQ(car_precision({kTruth1}, {}), 0);
  EXPECT_EQ(car_precision({}, {}), 0);
}

TEST(TpErrors, OfSimpleCases) {
  EXPECT_DOUBLE_EQ(car_error({kTruth2}, {kFound2}), 1.0);
  EXPECT_NEAR(car_error({kTruth1, kTruth2}, {kFound1, kFound2}), 0.1416666667, 1e-10);
  EXPECT_NEAR(car_error({kTruth1, kTruth2}, {kFound1, kFound2, kFalse}), 0.1416666667, 1e-10);
  EXPECT_NEAR(car_error({kTruth1, kTruth2, kTruth3}, {kFound1, kFound2, kFound4}), 0.2487592593, 1e-10);
  EXPECT_DOUBLE_EQ(car_error({kTruth2, kTruth3}, {kFound2, kFound5}), 1.0);
  EXPECT_EQ(car_error({kTruth1}, {kFound1}), 0);
  EXPECT_EQ(car_error({kTruth1}, {{0, 3, 3, 0.9}}), 1);                                 // not nearer than 2 m
  EXPECT_EQ(car_error({kTruth1}, {{0, 1, 1, 1, kPedestrian}}), 1);                      // of another class
  EXPECT_EQ(tp_error(car_curve({kTruth1}, {kFound1}), 1.0, TpError::kTranslation), 1);  // no recall above 1
}

TEST(Matching, TakesTheNearestFreeObjectInTheOrderOfScores) {
  // Both lie near the first object; the better one takes it, the other takes the next one within reach.
  const ClassMatches matches =
      match_class({boxes_of({{0, 0, 0}, {0, 1.5, 0}}), boxes_of({{0, 0.2, 0, 0.5}, {0, 0.1, 0, 0.9}}), {}},
                  DetectionClass::kCar, 2);
  EXPECT_EQ(matches.matched_truth, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(matches.scores, (std::vector<double>{0.9, 0.5}));
  // Exactly at the threshold is not a match; of equal scores the later one chooses first.
  const ClassMatches ties =
      match_class({boxes_of({{0, 0, 0}}), boxes_of({{0, 1, 0, 0.5}, {0, -2, 0, 0.5}}), {}}, DetectionClass::kCar, 2);
  EXPECT_EQ(ties.matched_truth, (std::vector<std::int32_t>{-1, 0}));
  // Of equally near objects the first is taken.
  const ClassMatches near =
      match_class({boxes_of({{0, 1, 0}, {0, -1, 0}}), boxes_of({{0, 0, 0, 0.5}}), {}}, DetectionClass::kCar, 2);
  EXPECT_EQ(near.matched_truth, (std::vector<std::int32_t>{0}));
}

TEST(Matching, RefusesSizesOfZeroOnlyWhereTheyAreNeeded) {
  SampleBoxes flat = boxes_of({kFound1});
  flat.boxes[0].size[1] = 0;
  EXPECT_EQ(match_class({boxes_of({kTruth2}), flat, {}}, DetectionClass::kCar, 2).errors.size(), 0);
  EXPECT_EQ(
      message_of([&] {
        match_class({boxes_of({kTruth1}), flat, {}}, DetectionClass::kCar, 2);
      }),
      "[match_class] a car that was found must have a size above 0, got 1.000000 (true) and 0.000000 (predicted)");
}

TEST(Matching, RefusesScoresThatAreNoNumbers) {
  std::vector<Simple> found(60);
  for (std::size_t i = 0; i < found.size(); ++i)
    found[i].score = i % 3 == 1 ? std::nan("") : 0.01 * static_cast<double>(i);
  EXPECT_EQ(message_of([&] {
              match_class({boxes_of({kTruth1}), boxes_of(found), {}}, DetectionClass::kCar, 2);
            }),
            "[match_class] scores of car must not be NaN, got one in sample 0");
}

TEST(Evaluate, RefusesScoresBelowZeroWhenTheyMatch) {
  EvaluationBoxes boxes{boxes_of({kTruth1, kTruth2}), boxes_of({{0, 1, 1, -1}}), {}};
  EXPECT_EQ(
      message_of([&] { evaluate(boxes, {}); }),
      "[evaluate] scores of car must be finite and at least 0 (a box without a score counts as -1): at 0.500000 m "
      "the score does not fall with the recall");
  boxes.predictions.boxes[0].translation[0] = 100;
  EXPECT_EQ(message_of([&] { evaluate(boxes, {}); }), "(no error)");
}

TEST(Evaluate, GivesTheSameBitsForAnyNumberOfThreads) {
  std::vector<Simple> truth, predictions;
  for (int i = 0; i < 400; ++i) {
    const auto label = static_cast<DetectionClass>(i % 10);
    truth.push_back({i % 2, i * 0.37, std::sin(i) * 9, -1, label});
    predictions.push_back({i % 2, i * 0.37 + std::cos(i), std::sin(i) * 9, std::fmod(i * 0.618, 1.0), label});
  }
  const EvaluationBoxes boxes{boxes_of(truth), boxes_of(predictions), {}};
  const DetectionMetrics one = evaluate(boxes, {}, 1).metrics, many = evaluate(boxes, {}, 7).metrics;
  EXPECT_EQ(one.nd_score, many.nd_score);
  EXPECT_EQ(one.mean_ap, many.mean_ap);
  EXPECT_GT(one.mean_ap, 0.05);
}

DetectionBox box_of(const Json& json) {
  DetectionBox box;
  box.translation = json["translation"].get<geometry::Vector3>();
  box.size = json["size"].get<geometry::Vector3>();
  box.rotation = json["rotation"].get<std::array<double, 4>>();
  box.velocity = json["velocity"].get<std::array<double, 2>>();
  box.score = json["detection_score"].get<double>();
  box.label = *detection_class(json["detection_name"].get<std::string>());
  box.attribute = *attribute_number(json["attribute_name"].get<std::string>());
  return box;
}

SampleBoxes boxes_of_class(const Json& samples) {
  SampleBoxes boxes;
  for (const auto& [token, list] : samples.items()) {
    boxes.open_sample(token);
    for (const Json& json : list) {
      boxes.push(box_of(json));
      boxes.boxes.back().sample = static_cast<std::int32_t>(boxes.samples()) - 1;
    }
  }
  return boxes;
}

void expect_summary(const Json& expected, const DetectionMetrics& metrics, const EvaluationConfig& config) {
  constexpr double kTolerance = 1e-12;
  EXPECT_NEAR(metrics.mean_ap, expected["mean_ap"].get<double>(), kTolerance);
  EXPECT_NEAR(metrics.nd_score, expected["nd_score"].get<double>(), kTolerance);
  for (std::size_t e = 0; e < kTpErrorCount; ++e)
    EXPECT_NEAR(metrics.tp_errors[e], expected["tp_errors"][std::string(kTpErrorNames[e])].get<double>(), kTolerance);
  int checked = 0;
  for (const ClassMetrics& entry : metrics.classes) {
    const std::string name(name_of(entry.label));
    for (std::size_t d = 0; d < config.distance_thresholds.size(); ++d) {
      const std::string key = std::vector<std::string>{"0.5", "1.0", "2.0", "4.0"}[d];
      EXPECT_NEAR(entry.average_precisions[d], expected["label_aps"][name][key].get<double>(), kTolerance);
      ++checked;
    }
    for (std::size_t e = 0; e < kTpErrorCount; ++e) {
      const Json& value = expected["label_tp_errors"][name][std::string(kTpErrorNames[e])];
      if (value.is_null())
        EXPECT_TRUE(std::isnan(entry.errors[e])) << name << e;
      else
        EXPECT_NEAR(entry.errors[e], value.get<double>(), kTolerance);
      ++checked;
    }
  }
  EXPECT_EQ(checked, 90);
}

TEST(Evaluate, GivesTheValuesOfTheDevkitsOwnMockData) {
  const auto path = tests::real_data() / "nuscenes_metric" / "mock_fixture.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no mock data at " << path << " (set CAMBER_DATA)";
  const Json fixture = Json::parse(std::ifstream(path));
  EvaluationConfig config;
  std::vector<MetricCurve> at_two, at_each;
  for (const ClassRange& range : config.class_ranges) {
    const Json& of_class = fixture["classes"][std::string(name_of(range.label))];
    // The fixture's sample keys come sorted as text here, not in the order of the file: it has no equal scores.
    const EvaluationBoxes boxes{boxes_of_class(of_class["gt"]), boxes_of_class(of_class["pred"]), {}};
    for (const double distance : config.distance_thresholds) {
      at_two.push_back(make_curve(match_class(boxes, range.label, 2.0)));
      at_each.push_back(make_curve(match_class(boxes, range.label, distance)));
    }
  }
  const DetectionMetrics as_in_its_test = summarize(config, at_two);
  EXPECT_NEAR(as_in_its_test.nd_score, fixture["expected_nd_score_devkit"].get<double>(), 1e-12);
  std::printf("mock data: NDS %.17g against %.17g\n", as_in_its_test.nd_score,
              fixture["expected_nd_score_devkit"].get<double>());
  expect_summary(fixture["expected_devkit"], as_in_its_test, config);
  expect_summary(fixture["expected_true_thresholds"], summarize(config, at_each), config);
}

}  // namespace
}  // namespace camber::eval
