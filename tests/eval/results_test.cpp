#include <algorithm>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "camber/eval/breakdown.h"
#include "camber/eval/metrics_report.h"
#include "nuscenes/small_world.h"

namespace camber::eval {
namespace {

using tests::message_of;

std::string box_text(const std::string& sample, const std::string& extra = "", const std::string& x = "1.5",
                     const std::string& name = "car") {
  return R"({"sample_token": ")" + sample + R"(", "translation": [)" + x +
         R"(, 205.0, 1.0], "size": [2, 4, 1.5], "rotation": [1, 0, 0, 0], "velocity": [0.5, NaN], "detection_name": ")" +
         name + R"(", "attribute_name": "" )" + extra + "}";
}

std::string results_text(const std::string& samples) {
  return R"({"meta": {"use_lidar": true}, "results": {)" + samples + "}}";
}

TEST(Results, AreReadInTheOrderOfTheFile) {
  const tests::TemporaryFolder folder;
  const auto path = folder.path() / "r.json";
  tests::write_text(path, results_text(R"("z": [)" + box_text("z", R"(, "detection_score": 1)") + "," +
                                       box_text("a", R"(, "detection_score": 0.25, "num_pts": 2.9)") +
                                       R"(], "a": [], "m": [)" + box_text("nowhere") + "]"));
  const ResultsFile results = read_results(path);
  EXPECT_EQ(results.meta, R"({"use_lidar": true})");
  EXPECT_EQ(results.boxes.tokens, (std::vector<std::string>{"z", "a", "m"}));
  ASSERT_EQ(results.boxes.boxes.size(), 3);
  EXPECT_EQ(results.boxes.of(0).size(), 2);
  EXPECT_EQ(results.boxes.boxes[0].score, 1);
  EXPECT_TRUE(std::isnan(results.boxes.boxes[0].velocity[1]));
  EXPECT_EQ(results.boxes.boxes[1].sample, 1);  // it names the second sample
  EXPECT_EQ(results.boxes.boxes[1].points, 2);
  EXPECT_EQ(results.boxes.boxes[2].score, -1);
  EXPECT_EQ(results.boxes.boxes[2].sample, -1);
}

TEST(Results, OfASampleThatStandsTwiceAreTheLastInTheFirstPlace) {
  const tests::TemporaryFolder folder;
  const auto path = folder.path() / "r.json";
  tests::write_text(path,
                    results_text(R"("a": [)" + box_text("a", "", "1") + "," + box_text("a", "", "2") + R"(], "b": [)" +
                                 box_text("b", "", "3") + R"(], "a": [)" + box_text("a", "", "4") + "]"));
  const SampleBoxes boxes = read_results(path).boxes;
  EXPECT_EQ(boxes.tokens, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(boxes.boxes.size(), 2);
  EXPECT_EQ(boxes.boxes[0].translation[0], 4);
  EXPECT_EQ(boxes.boxes[1].translation[0], 3);
}

TEST(Results, OfManyChunksAreTheSameForAnyNumberOfThreads) {
  const tests::TemporaryFolder folder;
  const auto path = folder.path() / "r.json";
  std::string samples;
  for (int sample = 0; sample < 400; ++sample) {
    samples += (sample > 0 ? ", \"s" : "\"s") + std::to_string(sample) + "\": [";
    for (int i = 0; i < 40; ++i)
      samples += (i > 0 ? "," : "") + box_text("s" + std::to_string(sample), "", std::to_string(sample + i * 0.01));
    samples += ']';
  }
  tests::write_text(path, results_text(samples));
  const SampleBoxes one = read_results(path, {.threads = 1}).boxes, four = read_results(path, {.threads = 4}).boxes;
  EXPECT_EQ(one.boxes.size(), 16000);
  EXPECT_EQ(one.tokens, four.tokens);
  EXPECT_EQ(one.offsets, four.offsets);
  for (std::size_t i = 0; i < one.boxes.size(); ++i) EXPECT_EQ(one.boxes[i].translation, four.boxes[i].translation);
  // A damaged box late in the file is named whichever thread meets it.
  samples.replace(samples.find("\"size\"", samples.find("\"s371\"")), 6, "\"sise\"");
  tests::write_text(path, results_text(samples));
  EXPECT_EQ(message_of([&] { read_results(path, {.threads = 4}); }),
            "[read_results] " + path.string() + ", sample 's371', box 1: field 'size' is missing");
}

TEST(GroundTruth, ComesFromAFileWithOrWithoutTheResultsAround) {
  const tests::TemporaryFolder folder;
  const auto path = folder.path() / "g.json";
  const std::string inner = R"("a": [)" + box_text("a", R"(, "num_pts": 0, "ego_translation": [3, 4, 9])") + "]";
  for (const std::string& text : {results_text(inner), R"({"results": {)" + inner + "}}", "{" + inner + "}"}) {
    tests::write_text(path, text);
    const SampleBoxes truth = read_ground_truth(path);
    ASSERT_EQ(truth.boxes.size(), 1);
    EXPECT_EQ(truth.boxes[0].points, 0);
    EXPECT_EQ(truth.boxes[0].ego_distance, 5);
  }
}

TEST(GroundTruth, WithFieldsAmongSamplesIsRefused) {
  const tests::TemporaryFolder folder;
  const auto path = folder.path() / "g.json";
  for (const char* name : {"results", "meta", "m\\u0065ta"}) {
    tests::write_text(path, R"({"a": [], ")" + std::string(name) + R"(": []})");
    const std::string message = message_of([&] { read_ground_truth(path); });
    EXPECT_NE(message.find("among samples: 'results' or 'meta' must be the file's first field"), std::string::npos)
        << message;
  }
}

TEST(Results, MaySpellTheirFieldsWithEscapes) {
  const tests::TemporaryFolder folder;
  const auto path = folder.path() / "r.json";
  tests::write_text(path, R"({"m\u0065ta": {"use_lidar": true}, "r\u0065sults": {"a": []}})");
  EXPECT_EQ(read_results(path).meta, R"({"use_lidar": true})");
  EXPECT_EQ(read_results(path).boxes.tokens, std::vector<std::string>{"a"});
}

// The small world, and results that place a car of the first scene exactly.
class SmallMetrics : public testing::Test {
 protected:
  void SetUp() override {
    tests::TableTexts tables = tests::small_tables();
    tests::write_small_world(folder_.path(), tables, false);
    tests::write_text(folder_.path() / "splits.json", R"({"one": ["small-0"], "both": ["small-0", "small-1"]})");
    std::string samples;
    for (int scene = 0; scene < 2; ++scene)
      for (int sample = 0; sample < 3; ++sample) {
        const std::string token = "sample-" + std::to_string(scene) + "-" + std::to_string(sample);
        samples += (samples.empty() ? "" : ", ") + ("\"" + token + "\": [") +
                   box_text(token, R"(, "detection_score": 0.9)", std::to_string(120 + sample) + ".25", "pedestrian") +
                   "," + box_text(token, R"(, "detection_score": 0.3)", "101.0", "pedestrian") + "]";
      }
    tests::write_text(folder_.path() / "results.json", results_text(samples));
  }

  MetricsRequest request(const std::string& split) const {
    return {.results = folder_.path() / "results.json",
            .data = folder_.path(),
            .version = tests::kSmallVersion,
            .split = split};
  }

  tests::TemporaryFolder folder_;
};

TEST_F(SmallMetrics, OfASplitPassOverOtherSamples) {
  const MetricsReport report = evaluate_results(request("one"));
  EXPECT_EQ(report.samples, 3);
  EXPECT_EQ(report.truth.total, 7);
  EXPECT_EQ(report.predictions.total, 6);
  const ClassMetrics& pedestrian = report.evaluation.metrics.classes[5];
  EXPECT_EQ(pedestrian.label, DetectionClass::kPedestrian);
  EXPECT_NEAR(pedestrian.mean_average_precision, 1, 0.05);
  EXPECT_NEAR(pedestrian.errors[0], 0.25, 1e-9);
  EXPECT_NEAR(pedestrian.errors[2], 1.5707963, 1e-6);
  EXPECT_TRUE(std::isnan(report.evaluation.metrics.classes[8].errors[2]));
  // Pedestrians stand about 20 m away and have 14 LiDAR points and one radar point.
  EXPECT_EQ(report.by_distance[1].true_objects + report.by_distance[2].true_objects, 7);
  EXPECT_EQ(report.by_points[1].true_objects, 4);  // and the cone, with 8
  EXPECT_EQ(report.by_points[1].found, 3);
}

TEST_F(SmallMetrics, AnswerInEveryFormat) {
  MetricsRequest both = request("both");
  both.bootstrap = 50;
  const MetricsReport report = evaluate_results(both);
  ASSERT_TRUE(report.intervals.has_value());
  EXPECT_EQ(report.intervals->scenes, 2);
  EXPECT_LE(report.intervals->mean_ap.low, report.evaluation.metrics.mean_ap + 1e-12);
  EXPECT_GE(report.intervals->mean_ap.high, report.evaluation.metrics.mean_ap - 1e-12);
  const std::string json = to_json(report), text = to_text(report), csv = to_csv(report), svg = curves_to_svg(report);
  for (const char* key : {"\"mean_ap\":", "\"nd_score\":", "\"label_aps\":", "\"mean_dist_aps\":", "\"tp_errors\":",
                          "\"label_tp_errors\":", "\"bootstrap\":", "\"by_distance\":", "\"vel_err\": NaN"})
    EXPECT_NE(json.find(key), std::string::npos) << key;
  EXPECT_NE(text.find("detection_cvpr_2019, both"), std::string::npos) << text;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 11);
  EXPECT_NE(svg.find("<svg"), std::string::npos);
  EXPECT_NE(svg.find("pedestrian"), std::string::npos);
  EXPECT_NE(details_to_json(report).find("\"car:0.5\""), std::string::npos);
}

TEST_F(SmallMetrics, WithAnotherConfigurationKnowItsClassesOnly) {
  tests::write_text(folder_.path() / "world.json",
                    R"({"class_range": {"pedestrian": 24, "car": 24}, "dist_fcn": "center_distance",
                        "dist_ths": [0.5, 1, 2.0, 4.0], "dist_th_tp": 2.0, "min_recall": 0.1, "min_precision": 0.1,
                        "max_boxes_per_sample": 500, "mean_ap_weight": 5})");
  MetricsRequest wanted = request("one");
  wanted.config = folder_.path() / "world.json";
  const MetricsReport report = evaluate_results(wanted);
  EXPECT_EQ(report.config.name, "world");
  ASSERT_EQ(report.evaluation.metrics.classes.size(), 2);
  EXPECT_EQ(report.evaluation.metrics.classes[0].label, DetectionClass::kPedestrian);
  EXPECT_EQ(report.truth.total, 6);  // the cone is not asked for
  EXPECT_EQ(report.config.distance_names, (std::vector<std::string>{"0.5", "1", "2.0", "4.0"}));
}

TEST_F(SmallMetrics, RefuseWhatDoesNotFitTogether) {
  EXPECT_EQ(message_of([&] { evaluate_results({.results = "x"}); }),
            "[metrics] either data (a data set's folder) or ground_truth (a file) must be given, got neither");
  MetricsRequest wanted = request("one");
  wanted.bootstrap = 10;
  EXPECT_EQ(message_of([&] { evaluate_results(wanted); }),
            "[bootstrap] scenes must be two or more to be resampled, got 1");
  wanted = request("one");
  wanted.distance_edges = {10, 5};
  EXPECT_EQ(message_of([&] { evaluate_results(wanted); }),
            "[breakdown] edges must be two or more ascending numbers, got 2 of them");
  tests::write_text(folder_.path() / "results.json", results_text(R"("sample-0-0": [])"));
  EXPECT_EQ(message_of([&] { evaluate_results(request("one")); }),
            "[pair_boxes] predictions must be for exactly the samples that are evaluated: sample 'sample-0-1' is "
            "missing in the results");
}

TEST(Bootstrap, OfEqualScenesHasNoWidthAndTheSameSeedGivesTheSameIntervals) {
  EvaluationBoxes boxes;
  for (int sample = 0; sample < 4; ++sample) {
    const std::string token = std::to_string(sample);
    boxes.truth.open_sample(token);
    boxes.predictions.open_sample(token);
    for (int i = 0; i < 5; ++i) {
      DetectionBox box{.translation = {10.0 * i, 0, 0}, .size = {1, 1, 1}, .rotation = {1, 0, 0, 0}, .sample = sample};
      boxes.truth.push(box);
      box.translation[0] += 0.1 * i;
      box.score = 0.1 * (i + 1);
      if (i > 0) boxes.predictions.push(box);
    }
    boxes.scene_of_sample.push_back(sample / 2);
  }
  const EvaluationConfig config;
  const Evaluation evaluation = evaluate(boxes, config);
  const BootstrapIntervals first = bootstrap(boxes, config, evaluation, 40, 7, 1),
                           again = bootstrap(boxes, config, evaluation, 40, 7, 3);
  EXPECT_EQ(first.mean_ap.low, first.mean_ap.high);
  EXPECT_NEAR(first.mean_ap.low, evaluation.metrics.mean_ap, 1e-12);
  // Now one scene is blind.
  for (DetectionBox& box : boxes.predictions.boxes)
    if (box.sample >= 2) box.translation[1] = 100;
  const Evaluation half = evaluate(boxes, config);
  const BootstrapIntervals wide = bootstrap(boxes, config, half, 200, 7, 1),
                           same = bootstrap(boxes, config, half, 200, 7, 2);
  EXPECT_LT(wide.mean_ap.low, 0.01);
  EXPECT_NEAR(wide.mean_ap.high, evaluation.metrics.mean_ap, 1e-9);
  EXPECT_EQ(wide.nd_score.low, same.nd_score.low);
  EXPECT_EQ(first.nd_score.high, again.nd_score.high);
}

}  // namespace
}  // namespace camber::eval
