#include "camber/json/text.h"

#include <limits>
#include <optional>

#include <gtest/gtest.h>

#include "camber/json/values.h"

namespace camber::json {
namespace {

TEST(Text, NumbersAreThoseThatPythonWrites) {
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(2), "2.0");
  EXPECT_EQ(number_text(2, true), "2");
  EXPECT_EQ(number_text(2.5, true), "2.5");
  EXPECT_EQ(number_text(1e300), "1e+300");
  EXPECT_EQ(number_text(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::infinity()), "-Infinity");
}

TEST(Text, NumbersReadBackToTheSameBits) {
  for (const double value : {1.0 / 3, -0.0, 5e-324, 1.7976931348623157e308, 123456789.123456789})
    EXPECT_EQ(read_number(number_text(value)), std::optional(value)) << value;
}

TEST(Text, StringsAreEscaped) {
  EXPECT_EQ(quoted("plain"), "\"plain\"");
  EXPECT_EQ(quoted("a\"b\\c\nd"), "\"a\\\"b\\\\c\\u000ad\"");
  EXPECT_EQ(quoted(""), "\"\"");
}

}  // namespace
}  // namespace camber::json
