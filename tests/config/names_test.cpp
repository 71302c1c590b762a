#include "camber/config/names.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "camber/config/numbers.h"
#include "camber/random/stream.h"

namespace camber::config {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsSubstitutionsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("softmax", "softmax"), 0U);
  EXPECT_EQ(edit_distance("sofmax", "softmax"), 1U);
  EXPECT_EQ(edit_distance("sofmtax", "softmax"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("SGD", "sgd"), 0U);
}

TEST(NearestName, TakesTheFirstOfTheNearest) {
  EXPECT_EQ(nearest_name("bond", {"softmax", "bound", "run"}), "bound");
  EXPECT_EQ(nearest_name("x", {"a", "b"}), "a");
  EXPECT_EQ(nearest_name("x", {}), "");
}

TEST(JoinNames, ReadsLikeASentence) {
  EXPECT_EQ(join_names({"a"}), "a");
  EXPECT_EQ(join_names({"a", "b"}), "a or b");
  EXPECT_EQ(join_names({"a", "b", "c"}, " and "), "a, b and c");
}

TEST(Numbers, ReadWhatPeopleWrite) {
  EXPECT_EQ(read_number("-.6"), -0.6);
  EXPECT_EQ(read_number("+1e-3"), 1e-3);
  EXPECT_EQ(read_number("2."), 2.0);
  EXPECT_EQ(read_number("inf"), std::numeric_limits<double>::infinity());
  for (const char* bad : {"", "abc", "1x", "1 ", " 1", "--1", "+-1", "++1", "1,2"})
    EXPECT_FALSE(read_number(bad)) << bad;
  EXPECT_EQ(read_integer("-12"), -12);
  for (const char* bad : {"", "1.0", "1e3", "9223372036854775808"}) EXPECT_FALSE(read_integer(bad)) << bad;
  EXPECT_EQ(read_unsigned("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_FALSE(read_unsigned("-1"));
}

TEST(Numbers, ReadBackToTheSameBits) {
  EXPECT_EQ(write_number(2), "2.0");
  EXPECT_EQ(write_number(0.1), "0.1");
  EXPECT_EQ(write_number(-0.0), "-0.0");
  random::Stream stream(1, "numbers");
  for (int i = 0; i < 20000; ++i) {
    const auto value = std::bit_cast<double>(stream.bits64());
    if (std::isnan(value)) continue;
    const auto read = read_number(write_number(value));
    ASSERT_TRUE(read.has_value());
    ASSERT_EQ(std::bit_cast<std::uint64_t>(*read), std::bit_cast<std::uint64_t>(value)) << write_number(value);
  }
}

}  // namespace
}  // namespace camber::config
