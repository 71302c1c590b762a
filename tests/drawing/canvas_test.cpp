#include "camber/drawing/canvas.h"

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

#include <gtest/gtest.h>
#include <png.h>

#include "camber/drawing/label_layout.h"

namespace camber::drawing {
namespace {

constexpr Colour kRed{255, 0, 0};

// The ink on a white canvas, in whole pixels.
double ink(const Canvas& canvas) {
  double sum = 0;
  for (int row = 0; row < canvas.height(); ++row)
    for (int column = 0; column < canvas.width(); ++column) sum += (255 - canvas.pixel(column, row).green) / 255.0;
  return sum;
}

TEST(Canvas, FilledShapesCoverTheirArea) {
  Canvas canvas(100, 100);
  const std::array<Position, 3> triangle = {{{10.3, 20.7}, {80.1, 30.2}, {40.9, 90.4}}};
  canvas.fill_polygon(triangle, kRed);
  const double area = 0.5 * std::fabs((80.1 - 10.3) * (90.4 - 20.7) - (40.9 - 10.3) * (30.2 - 20.7));
  EXPECT_NEAR(ink(canvas), area, area * 0.005);

  Canvas second(100, 100);
  second.fill_rectangle({10.5, 10}, 20, 30.25, kRed);
  EXPECT_NEAR(ink(second), 20 * 30.25, 1);
  EXPECT_EQ(second.pixel(20, 20), kRed);
  EXPECT_EQ(second.pixel(10, 20), (Colour{255, 128, 128}));  // half covered

  Canvas third(100, 100);
  third.fill_circle({50, 50}, 30, kRed);
  EXPECT_NEAR(ink(third), 3.14159265 * 900, 15);
}

TEST(Canvas, StrokesCoverLengthTimesWidth) {
  Canvas canvas(200, 200);
  canvas.line({20, 30}, {160, 150}, {.colour = kRed, .width = 4});
  const double length = std::hypot(140, 120);
  EXPECT_NEAR(ink(canvas), length * 4 + 3.14159265 * 4, length * 0.08);  // with round ends
  EXPECT_EQ(canvas.pixel(90, 90), kRed);
  EXPECT_EQ(canvas.pixel(90, 100), kWhite);
  Canvas square(50, 50);
  const std::array<Position, 4> corners = {{{10, 10}, {40, 10}, {40, 40}, {10, 40}}};
  square.polygon(corners, {.colour = kRed, .width = 2});
  EXPECT_EQ(square.pixel(10, 25), kRed);  // the side back to the first corner
  EXPECT_EQ(square.pixel(25, 25), kWhite);
}

TEST(Canvas, OpacityMixesWithWhatLiesBelow) {
  Canvas canvas(4, 4, {0, 0, 200});
  canvas.fill_rectangle({0, 0}, 4, 4, {100, 0, 0}, 0.5);
  EXPECT_EQ(canvas.pixel(1, 1), (Colour{50, 0, 100}));
}

TEST(Canvas, CutsEverythingAtItsBorders) {
  Canvas canvas(20, 10);
  const double far = 1e9, never = std::numeric_limits<double>::infinity();
  canvas.line({-far, -far}, {far, far}, {.colour = kRed, .width = 3});
  canvas.line({-5, 3}, {-1, 3}, {.colour = kRed});
  canvas.line({never, 0}, {0, std::nan("")}, {.colour = kRed});
  canvas.circle({-10, -10}, 3, {.colour = kRed});
  canvas.fill_circle({25, 5}, 3, kRed);
  const std::array<Position, 4> around = {{{-far, -far}, {far, -far}, {far, far}, {-far, far}}};
  canvas.fill_polygon(around, {0, 255, 0});
  EXPECT_EQ(canvas.pixel(0, 0), (Colour{0, 255, 0}));
  EXPECT_EQ(canvas.pixel(19, 9), (Colour{0, 255, 0}));
  canvas.text({-3, -3}, "outside", kBlack, 3);
  canvas.text({1e300, 0}, "far", kBlack);
  const std::vector<std::uint8_t> grey(std::size_t{30} * 30 * 3, 77);
  canvas.image(-5, -5, grey, 30, 30);
  EXPECT_EQ(canvas.pixel(19, 9), (Colour{77, 77, 77}));
  canvas.image(100, 100, grey, 30, 30);
  EXPECT_THROW(canvas.image(0, 0, grey, 30, 29), std::invalid_argument);
}

TEST(Canvas, TextHasItsWidthAndEveryLetterItsImage) {
  Canvas canvas(60, 20);
  canvas.text({2, 3}, "Hi", kBlack);
  EXPECT_EQ(text_width("Hi", 2), 22);
  EXPECT_EQ(canvas.pixel(2, 3), kBlack);  // the H's left stem
  EXPECT_EQ(canvas.pixel(3, 3), kWhite);
  EXPECT_EQ(canvas.pixel(4, 6), kBlack);  // its bar
  std::set<std::string> images;
  for (char letter = '!'; letter <= '~'; ++letter) {
    Canvas one(5, 7);
    one.text({0, 0}, std::string(1, letter), kBlack);
    EXPECT_GT(ink(one), 0) << letter;
    EXPECT_TRUE(images.emplace(one.pixels().begin(), one.pixels().end()).second) << letter;
  }
}

TEST(Canvas, LargeTextIsDrawnWithSmoothStrokesThroughTheDots) {
  Canvas canvas(60, 40);
  canvas.text({2, 3}, "Hx", kBlack, 4);
  EXPECT_EQ(canvas.pixel(3, 15), kBlack);   // the middle of the H's left stem
  EXPECT_EQ(canvas.pixel(12, 16), kBlack);  // its bar
  EXPECT_EQ(canvas.pixel(12, 5), kWhite);   // between its stems
  bool grey = false;                        // the x's diagonals have smooth edges
  for (int column = 26; column < 46; ++column)
    for (int row = 3; row < 31; ++row) {
      const int green = canvas.pixel(column, row).green;
      grey = grey || (green > 40 && green < 215);
    }
  EXPECT_TRUE(grey);
  // A letter with a tail reaches below those without.
  Canvas tail(40, 40), none(40, 40);
  tail.text({2, 2}, "p", kBlack, 3);
  none.text({2, 2}, "n", kBlack, 3);
  const auto lowest = [](const Canvas& drawn) {
    int last = 0;
    for (int row = 0; row < drawn.height(); ++row)
      for (int column = 0; column < drawn.width(); ++column)
        if (drawn.pixel(column, row).green < 128) last = row;
    return last;
  };
  EXPECT_EQ(lowest(tail), lowest(none) + 3);
}

TEST(Canvas, DashedLinesCoverHalfOfTheirLength) {
  Canvas solid(220, 20), dashed(220, 20);
  solid.line({10, 10}, {210, 10}, {.colour = kRed, .width = 1});
  dashed.line({10, 10}, {210, 10}, {.colour = kRed, .width = 1, .dash = 10});
  EXPECT_EQ(dashed.pixel(15, 10).green, solid.pixel(15, 10).green);
  EXPECT_EQ(dashed.pixel(25, 10), kWhite);
  EXPECT_NEAR(ink(dashed), ink(solid) / 2 + 10 * 1.1, 2);  // ten dashes, each with round ends
}

TEST(LabelLayout, LabelsNeitherOverlapNorLeaveTheirView) {
  const Rectangle view{100, 50, 300, 150};
  LabelLayout layout(view);
  layout.avoid({100, 50, 180, 62});
  std::vector<Rectangle> placed;
  for (int i = 0; i < 40; ++i) {
    const double x = 90 + 7.0 * i, y = 45 + 3.0 * (i % 9);  // crowded, some at the very edge
    if (const auto at = layout.place({x, y, x + 20, y + 30}, 60, 12)) placed.push_back(*at);
  }
  EXPECT_GE(placed.size(), 10U);
  EXPECT_LT(placed.size(), 40U);  // there is no room for all
  for (std::size_t i = 0; i < placed.size(); ++i) {
    EXPECT_TRUE(placed[i].inside(view)) << i;
    EXPECT_FALSE(placed[i].overlaps({100, 50, 180, 62})) << i;
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(placed[i].overlaps(placed[j])) << i << " " << j;
  }
  EXPECT_FALSE(LabelLayout({0, 0, 50, 50}).place({10, 10, 20, 20}, 60, 12).has_value());
}

TEST(ImageFile, IsWhatItsNameEndsIn) {
  const Canvas canvas(8, 4, kRed);
  EXPECT_TRUE(encode_image(canvas, "a.png").starts_with("\x89PNG"));
  for (const char* name : {"a.jpg", "b.jpeg"}) EXPECT_TRUE(encode_image(canvas, name).starts_with("\xFF\xD8"));
  try {
    encode_image(canvas, "found.webp");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "[drawing] the name of an image must end in .png, .jpg or .jpeg, got 'found.webp'");
  }
  EXPECT_THROW(encode_image(canvas, "png"), std::invalid_argument);
}

TEST(Canvas, RefusesImpossibleSizes) {
  try {
    Canvas canvas(0, 5);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "[drawing] a canvas must measure 1 to 32768 pixels a side, got 0 x 5");
  }
}

TEST(Png, ReadsBackToTheSamePixels) {
  Canvas canvas(37, 21, {10, 20, 30});
  canvas.fill_circle({15, 10}, 8, kRed);
  canvas.text({3, 3}, "png", kWhite);
  const std::string bytes = encode_png(canvas);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  ASSERT_NE(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()), 0);
  EXPECT_EQ(image.width, 37U);
  EXPECT_EQ(image.height, 21U);
  image.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(image));
  ASSERT_NE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr), 0);
  EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), canvas.pixels().begin(), canvas.pixels().end()));
  EXPECT_THROW(encode_png(canvas.pixels(), 21, 36), std::invalid_argument);
  const DecodedPng decoded = decode_png(bytes, "made.png");
  EXPECT_EQ(decoded.width, 37);
  EXPECT_EQ(decoded.rgb, pixels);
  for (const std::string& broken : {std::string("not a PNG"), bytes.substr(0, bytes.size() / 2), std::string()})
    EXPECT_THROW(decode_png(broken, "broken.png"), std::runtime_error);
}

}  // namespace
}  // namespace camber::drawing
