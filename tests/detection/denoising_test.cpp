#include "detection/denoising.h"

#include <algorithm>

#include <gtest/gtest.h>

#include <torch/nn/modules/batchnorm.h>

#include "detection/example_batch.h"
#include "support/comparison.h"

namespace camber::detection {
namespace {

using camber::proof::close;
using camber::proof::largest_difference;
using camber::proof::number_text;
using camber::proof::same_bits;
using examples::example_batch;

TEST(Denoising, NoisesEveryObjectOnceAGroup) {
  auto options = examples::tiny_options();
  const auto batch = example_batch(options, 2, 1);
  const auto queries = make_denoising_queries(batch, options, 1, 7);
  EXPECT_EQ(queries.groups, 3);
  EXPECT_EQ(queries.count, 9);
  EXPECT_TRUE(torch::equal(queries.object[0], torch::tensor({0, 1, 2, 0, 1, 2, 0, 1, 2})));
  EXPECT_TRUE(torch::equal(queries.object[1], torch::tensor({0, 1, -1, 0, 1, -1, 0, 1, -1})));
  for (std::int64_t i = 0; i < 9; ++i) {
    const auto box = batch.targets[0].boxes[queries.object[0][i].item<std::int64_t>()];
    const double reach = box[3].item<double>() / 2 + 1 + 1e-4;
    for (std::int64_t axis = 0; axis < 2; ++axis)
      EXPECT_LE(std::abs(queries.references[0][i][axis].item<double>() - box[axis].item<double>()), reach);
    EXPECT_FLOAT_EQ(queries.references[0][i][2].item<float>(), -1);
  }
  EXPECT_FALSE(queries.background.any().item<bool>());
}

TEST(Denoising, DrawsTheSameForTheSameSeedAndStep) {
  const auto options = examples::tiny_options();
  const auto batch = example_batch(options, 2, 1);
  const auto at = [&](std::uint64_t seed, std::int64_t step) {
    return make_denoising_queries(batch, options, seed, step).references;
  };
  EXPECT_TRUE(same_bits(at(1, 7), at(1, 7)));
  EXPECT_FALSE(torch::equal(at(1, 7), at(1, 8)));
  EXPECT_FALSE(torch::equal(at(1, 7), at(2, 7)));
}

TEST(Denoising, HasFewerGroupsThanWouldOutnumberTheQueriesAndNoneWithoutObjects) {
  auto options = examples::tiny_options();
  options.head.num_queries = 7;
  options.loss.denoising.max_groups = 10;
  auto batch = example_batch(options, 2, 1);
  EXPECT_EQ(make_denoising_queries(batch, options, 1, 0).groups, 2);
  for (auto& targets : batch.targets)
    targets = {targets.boxes.narrow(0, 0, 0), targets.labels.narrow(0, 0, 0), targets.trust.narrow(0, 0, 0), {}, {}};
  EXPECT_EQ(make_denoising_queries(batch, options, 1, 0).count, 0);
}

TEST(Denoising, CallsFarNoiseBackground) {
  auto options = examples::tiny_options();
  options.loss.denoising.background_beyond = 0.75;
  options.loss.denoising.max_groups = 10;
  options.head.num_queries = 900;
  const auto batch = example_batch(options, 2, 1);
  std::int64_t far = 0, all = 0;
  for (std::int64_t step = 0; step < 50; ++step) {
    const auto queries = make_denoising_queries(batch, options, 1, step);
    far += queries.background.sum().item<std::int64_t>();
    all += queries.object.ge(0).sum().item<std::int64_t>();
  }
  // 1 - pi / 6 * 0.75^3: what of the cube lies outside of the ball.
  EXPECT_NEAR(static_cast<double>(far) / static_cast<double>(all), 1 - 0.2209, 0.03);
}

TEST(DenoisingMask, KeepsGroupsApartAndPaddingUnseen) {
  const auto options = examples::tiny_options();
  const auto batch = example_batch(options, 2, 1);
  const auto queries = make_denoising_queries(batch, options, 1, 0);
  const auto blocked = denoising_mask(queries, 4);
  ASSERT_EQ(blocked.sizes(), (std::vector<std::int64_t>{2, 1, 13, 13}));
  const auto sees = [&](std::int64_t b, std::int64_t q, std::int64_t k) { return !blocked[b][0][q][k].item<bool>(); };
  EXPECT_FALSE(sees(0, 10, 2));  // learned -> denoising
  EXPECT_TRUE(sees(0, 10, 12));
  EXPECT_TRUE(sees(0, 1, 2));
  EXPECT_FALSE(sees(0, 1, 3));  // another group
  EXPECT_TRUE(sees(0, 1, 9));   // denoising -> learned
  EXPECT_TRUE(sees(0, 0, 2));
  EXPECT_FALSE(sees(1, 0, 2));  // padding of the second frame
}

DetectorOutput run(Detector& detector, const DetectorBatch& batch, bool denoising, ops::Implementation implementation) {
  const torch::NoGradGuard guard;
  return detector->forward(batch, {.seed = 1, .denoising = denoising, .implementation = implementation});
}

// Batch norms stay in evaluation, so that nothing but the further queries differs.
Detector training_detector(const DetectorOptions& options) {
  Detector detector(options, 1);
  detector->train();
  for (const auto& module : detector->modules(false))
    if (auto* norm = module->as<torch::nn::BatchNorm2d>()) norm->eval();
  return detector;
}

TEST(DenoisingQueries, LeaveTheLearnedQueriesAlone) {
  double in_float = 0, in_double = 0;
  for (const bool with_router : {false, true}) {
    auto options = examples::tiny_options();
    if (with_router) options.router.mode = nn::RouterMode::kLearned;
    const auto batch = example_batch(options, 2, 3);
    auto detector = training_detector(options);
    const auto plain = run(detector, batch, false, ops::Implementation::kAuto);
    const auto joined = run(detector, batch, true, ops::Implementation::kAuto);
    ASSERT_GT(joined.denoising.count, 0);
    EXPECT_TRUE(close(joined.class_logits, plain.class_logits, 1e-5));
    EXPECT_TRUE(close(joined.codes, plain.codes, 1e-5));
    in_float = std::max({in_float, largest_difference(joined.class_logits, plain.class_logits),
                         largest_difference(joined.codes, plain.codes)});
    detector->to(torch::kDouble);
    const auto exact = run(detector, batch, false, ops::Implementation::kReference);
    const auto exact_joined = run(detector, batch, true, ops::Implementation::kReference);
    EXPECT_TRUE(close(exact_joined.class_logits, exact.class_logits, 1e-12));
    EXPECT_TRUE(close(exact_joined.codes, exact.codes, 1e-12));
    in_double = std::max({in_double, largest_difference(exact_joined.class_logits, exact.class_logits),
                          largest_difference(exact_joined.codes, exact.codes)});
  }
  RecordProperty("float32", number_text(in_float));
  RecordProperty("float64", number_text(in_double));
}

}  // namespace
}  // namespace camber::detection
