#include "camber/random/stream.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "camber/random/noise_field.h"

namespace camber::random {
namespace {

TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Stream, IsAFunctionOfSeedNameAndIndexAlone) {
  Stream first(7, "data.order"), second(7, "data.order");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(first.bits32(), second.bits32());
  // Drawing from the parent does not move a sub-stream.
  EXPECT_EQ(first.at(3).bits64(), Stream(7, "data.order").at(3).bits64());
  EXPECT_NE(Stream(7, "a").bits64(), Stream(7, "b").bits64());
  EXPECT_NE(Stream(7, "a").bits64(), Stream(8, "a").bits64());
  EXPECT_NE(Stream(7, "a").at(0).bits64(), Stream(7, "a").bits64());
}

TEST(Stream, UniformAndNormalHaveTheirMoments) {
  Stream stream(1, "moments");
  constexpr int kDraws = 200000;
  double uniform_sum = 0, normal_sum = 0, normal_squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = stream.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    uniform_sum += u;
    const double n = stream.normal();
    normal_sum += n;
    normal_squares += n * n;
  }
  EXPECT_NEAR(uniform_sum / kDraws, 0.5, 0.003);
  EXPECT_NEAR(normal_sum / kDraws, 0.0, 0.01);
  EXPECT_NEAR(normal_squares / kDraws, 1.0, 0.015);
}

TEST(Stream, PermutationHoldsEveryIndexOnce) {
  auto order = Stream(3, "order").permutation(1000);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (std::int64_t i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(Stream, IntegerRefusesAnEmptyRange) {
  EXPECT_THROW(Stream(3, "x").integer(0), std::invalid_argument);
}

TEST(AttentionDropout, FourKeysShareACounterAndTheShareDroppedIsTheProbability) {
  const auto block = philox4x32({5, 2, 1, 0}, philox_key(99));
  for (std::uint32_t lane = 0; lane < 4; ++lane) EXPECT_EQ(attention_dropout_word(99, 0, 1, 2, 20 + lane), block[lane]);
  int dropped = 0;
  for (std::uint32_t key = 0; key < 100000; ++key)
    dropped += attention_dropout_word(4, 0, 0, 0, key) < dropout_threshold(0.1);
  EXPECT_NEAR(dropped / 1e5, 0.1, 0.005);
}

TEST(NoiseField, IsNormalAndAFunctionOfTheIndexAlone) {
  const NoiseField noise(Stream(5, "pixels"));
  double sum = 0, squares = 0, fourth = 0;
  constexpr int kCount = 50000;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const double x = NoiseField::normal(noise.words(i)[1]);
    sum += x, squares += x * x, fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.02);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
  EXPECT_NEAR(fourth / kCount, 3, 0.15);
  EXPECT_EQ(NoiseField(Stream(5, "pixels")).words(77), noise.words(77));
  EXPECT_NE(NoiseField(Stream(6, "pixels")).words(77), noise.words(77));
}

}  // namespace
}  // namespace camber::random
