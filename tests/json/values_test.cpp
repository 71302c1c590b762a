#include "camber/json/values.h"

#include <string>

#include <gtest/gtest.h>
#include <simdjson.h>

namespace camber::json {
namespace {

// What skip() says of [VALUE], or nothing.
std::string refusal_of(const std::string& value) {
  const simdjson::padded_string text("[" + value + "]");
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document = parser.iterate(text);
  try {
    skip(document.get_value());
  } catch (const ValueError& error) {
    return error.what();
  }
  return "";
}

TEST(Values, SkippedOnesAreJsonToo) {
  for (const char* good : {"1", "-0.5e3", "NaN", "true", "null", "\"x\"", "[1, {\"a\": 2}]", "3 \n\t\r"})
    EXPECT_EQ(refusal_of(good), "") << good;
  for (const char* bad : {"01", "1.", "tru", "3\x01", "3 \x0b", "null\x7f", "[3\x1f]"})
    EXPECT_NE(refusal_of(bad), "") << bad;
}

}  // namespace
}  // namespace camber::json
