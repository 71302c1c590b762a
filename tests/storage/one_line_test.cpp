#include "camber/storage/one_line.h"

#include <string>

#include <gtest/gtest.h>

namespace camber::storage {
namespace {

TEST(OneLine, KeepsShortTextsAndTakesOutWhatWouldBreakALine) {
  EXPECT_EQ(one_line("a 'name' of \xC3\xA9"), "a 'name' of \xC3\xA9");
  EXPECT_EQ(one_line("a\nb\x7F\x01"), "a?b??");
}

TEST(OneLine, CutsLongTextsBetweenLetters) {
  const std::string long_text = one_line(std::string(599, 'x') + "\xC3\xA9 and more");
  EXPECT_EQ(long_text, std::string(599, 'x') + "...");
  EXPECT_EQ(one_line(std::string(5000, 'x')), std::string(600, 'x') + "...");
}

}  // namespace
}  // namespace camber::storage
