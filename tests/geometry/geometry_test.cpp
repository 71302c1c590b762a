#include <cmath>
#include <numbers>
#include <set>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "camber/geometry/box.h"
#include "camber/geometry/key_layout.h"
#include "camber/random/stream.h"

namespace camber::geometry {
namespace {

template <class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(BevGrid, ReferenceHas128By128CellsAndTheUpperBorderBelongsToTheLast) {
  const BevGrid grid = BevGrid::reference();
  EXPECT_EQ(grid.columns(), 128);
  EXPECT_EQ(grid.rows(), 128);
  EXPECT_EQ(grid.cell_at(-51.2, -51.2), (Cell{0, 0}));
  EXPECT_EQ(grid.cell_at(51.2, 51.2), (Cell{127, 127}));
  EXPECT_EQ(grid.cell_at(0.0, 0.79), (Cell{64, 64}));
  EXPECT_EQ(grid.cell_at(51.3, 0), std::nullopt);
  EXPECT_EQ(grid.cell_at(std::nan(""), 0), std::nullopt);
  for (std::int64_t i = 0; i < 128; ++i)
    EXPECT_EQ(grid.cell_at(grid.center_x(i), grid.center_y(127 - i)), (Cell{i, 127 - i}));
}

TEST(BevGrid, RefusesARangeThatItsCellsDoNotFill) {
  EXPECT_EQ(message_of([] { BevGrid(-54, 54, -54, 54, 0.8125); }),
            "[BevGrid] range of x must be filled by whole cells, got -54 to 54 m in cells of 0.8125 m (132.923 cells)");
  EXPECT_EQ(message_of([] { BevGrid(-54, 54, -54, 54, 0); }), "[BevGrid] cell must be above 0 m, got 0.000000");
}

TEST(Transform, InverseAndCompositionAgreeWithMatrices) {
  const auto a = RigidTransform::from({0.9, 0.1, -0.2, 0.3}, {1, 2, 3});
  const auto b = RigidTransform::from({0.5, -0.4, 0.3, 0.7}, {-2, 0.5, 4});
  const Matrix4 product = multiply(a.matrix(), b.matrix());
  const Matrix4 composed = (a * b).matrix();
  for (std::size_t i = 0; i < 16; ++i) EXPECT_NEAR(product[i], composed[i], 1e-12);
  const Matrix4 identity = multiply(inverse(product), product);
  for (std::size_t i = 0; i < 16; ++i) EXPECT_NEAR(identity[i], kIdentity4[i], 1e-12);
  const Vector3 back = a.inverse().apply(a.apply({7, -8, 9}));
  EXPECT_NEAR(back[0], 7, 1e-12);
  EXPECT_NEAR(back[1], -8, 1e-12);
  EXPECT_NEAR(back[2], 9, 1e-12);
  EXPECT_EQ(message_of([] { inverse(Matrix4{}); }), "[inverse] matrix must be invertible, got a singular one");
}

TEST(Transform, QuaternionYawComesBack) {
  for (const double yaw : {-3.0, -1.5, 0.0, 0.7, 3.1}) EXPECT_NEAR(Quaternion::from_yaw(yaw).yaw(), yaw, 1e-12);
  const Quaternion turned = Quaternion::from_yaw(0.4) * Quaternion::from_yaw(0.5);
  EXPECT_NEAR(turned.yaw(), 0.9, 1e-12);
}

TEST(Camera, SeesOnlyWhatLiesInFrontAndOnTheImage) {
  // A pinhole that looks along +y of the LiDAR frame: u to the right (x), v down (-z), depth y.
  const Camera camera{.name = "front",
                      .width = 100,
                      .height = 50,
                      .columns = 10,
                      .rows = 5,
                      .lidar_to_image = {50, 50, 0, 0, 0, 25, -50, 0, 0, 1, 0, 0, 0, 0, 0, 1}};
  EXPECT_EQ(camera.cell_at({0, 10, 0}), (Cell{5, 2}));
  EXPECT_EQ(camera.cell_at({-10, 10, 0}), (Cell{0, 2}));  // u = 0 belongs to the image
  EXPECT_EQ(camera.cell_at({10, 10, 0}), std::nullopt);   // u = width does not
  EXPECT_EQ(camera.cell_at({0, -10, 0}), std::nullopt);   // behind
  EXPECT_EQ(camera.cell_at({0, 0.1, 0}), std::nullopt);   // not beyond the minimum depth
  EXPECT_EQ(camera.cell_at({0, 0, 0}), std::nullopt);
}

TEST(Quaternion, OfAMatrixGivesTheMatrixBack) {
  for (const Quaternion& q : {Quaternion{}, Quaternion{0.57, -0.002, 0.012, -0.82}, Quaternion{0.1, 0.9, -0.3, 0.2},
                              Quaternion{-0.2, 0.1, 0.95, 0.1}, Quaternion{0, 0, 0, 1}, Quaternion{0, 1, 0, 0}}) {
    const Matrix3 rotation = q.matrix();
    const Matrix3 again = Quaternion::from_matrix(rotation).matrix();
    for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(again[i], rotation[i], 1e-15);
  }
}

TEST(ImageTransform, FitsAndFlipsAsTheReferencePreprocessing) {
  const auto image = ImageTransform::fit_bottom(1600, 900, 800, 320);
  EXPECT_EQ(image.resize, 0.5);
  EXPECT_EQ(image.crop_x, 0);
  EXPECT_EQ(image.crop_y, 130);
  auto flipped = image;
  flipped.flip = true;
  const Matrix3 m = flipped.matrix();
  EXPECT_EQ(m[0] * 200 + m[2], 800 - 0.5 * 200);
}

TEST(ImageTransform, CropsAsCmtsTraining) {
  // resize 0.47 of 1600 x 900: 752 x 423; too narrow for 800 columns, so that none is cut.
  const auto small = ImageTransform::crop_bottom(1600, 900, 800, 320, {.scale = 0.94, .left_share = 0.7});
  EXPECT_DOUBLE_EQ(small.resize, 0.47);
  EXPECT_EQ(small.crop_x, 0);
  EXPECT_EQ(small.crop_y, 423 - 320);
  // resize 0.625: 1000 x 562; of 200 columns too many, 0.7 are cut on the left.
  const auto large = ImageTransform::crop_bottom(1600, 900, 800, 320, {.scale = 1.25, .left_share = 0.7, .flip = true});
  EXPECT_EQ(large.crop_x, 140);
  EXPECT_EQ(large.crop_y, 562 - 320);
  const Matrix3 m = large.matrix();
  EXPECT_DOUBLE_EQ(m[0] * 400 + m[2], 800 - (0.625 * 400 - 140));
  EXPECT_DOUBLE_EQ(m[4] * 600 + m[5], 0.625 * 600 - 242);
  for (const auto& [width, height] : {std::pair{1600, 900}, {1280, 960}, {801, 321}, {300, 700}}) {
    const auto fitted = ImageTransform::fit_bottom(width, height, 800, 320);
    const auto middle = ImageTransform::crop_bottom(width, height, 800, 320, {});
    EXPECT_EQ(middle.matrix(), fitted.matrix());
    EXPECT_EQ(fitted.crop_x, std::max(0, static_cast<int>(fitted.resized(width)) - 800) / 2);
  }
  EXPECT_THROW(ImageTransform::crop_bottom(1600, 900, 800, 320, {.scale = 0}), std::invalid_argument);
  EXPECT_THROW(ImageTransform::crop_bottom(1600, 900, 800, 320, {.left_share = 1.5}), std::invalid_argument);
}

TEST(Box, ContainsItsCornersAndCenterInEveryHeading) {
  Box box{.center = {1, 2, 3}, .length = 4, .width = 2, .height = 1, .yaw = 0.3};
  for (const Vector3& corner : box.corners()) {
    Vector3 inside{}, outside{};
    for (std::size_t i = 0; i < 3; ++i) {
      inside[i] = box.center[i] + 0.999 * (corner[i] - box.center[i]);
      outside[i] = box.center[i] + 1.001 * (corner[i] - box.center[i]);
    }
    EXPECT_TRUE(box.contains(inside));
    EXPECT_FALSE(box.contains(outside));
  }
  // Length lies along the heading.
  EXPECT_TRUE(box.contains({1 + 1.9 * std::cos(0.3), 2 + 1.9 * std::sin(0.3), 3}));
}

TEST(KeyLayout, ReferenceHas22384Keys) {
  const KeyLayout layout = KeyLayout::reference();
  EXPECT_EQ(layout.keys(), 22384);
  EXPECT_EQ(layout.segment_offsets(), (std::vector<std::int64_t>{0, 16384, 17384, 18384, 19384, 20384, 21384, 22384}));
}

// The slow, obvious definition: every key of every map is asked whether it lies in the window.
std::vector<std::tuple<std::int64_t, int, std::int64_t>> obvious_row(const KeyLayout& layout, const Cell* center,
                                                                     const std::int32_t* size) {
  std::vector<std::tuple<std::int64_t, int, std::int64_t>> entries;
  for (std::size_t m = 0; m < layout.maps.size(); ++m) {
    const KeyMap& map = layout.maps[m];
    const bool on_map =
        center[m].column >= 0 && center[m].column < map.columns && center[m].row >= 0 && center[m].row < map.rows;
    for (std::int64_t key = 0; key < map.keys() && on_map; ++key) {
      const std::int64_t dx = key % map.columns - center[m].column, dy = key / map.columns - center[m].row;
      if (std::abs(dx) <= size[m] / 2 && std::abs(dy) <= size[m] / 2)
        entries.emplace_back(map.first_key + key, static_cast<int>(m), dx * dx + dy * dy);
    }
  }
  return entries;
}

TEST(WindowRows, EqualTheObviousLoopForRandomMapsCentresAndSizes) {
  random::Stream stream(11, "windows");
  for (int trial = 0; trial < 200; ++trial) {
    KeyLayout layout;
    std::int64_t next = 0;
    for (std::uint64_t m = 0, maps = 1 + stream.integer(4); m < maps; ++m) {
      KeyMap map{.columns = 1 + static_cast<std::int64_t>(stream.integer(12)),
                 .rows = 1 + static_cast<std::int64_t>(stream.integer(9)),
                 .first_key = next};
      next += map.keys();
      layout.maps.push_back(map);
    }
    const std::size_t maps = layout.maps.size();
    const std::int64_t queries = 5;
    std::vector<Cell> center;
    std::vector<std::int32_t> size;
    for (std::size_t i = 0; i < maps * queries; ++i) {
      center.push_back(
          {static_cast<std::int64_t>(stream.integer(15)) - 2, static_cast<std::int64_t>(stream.integer(12)) - 2});
      size.push_back(1 + 2 * static_cast<std::int32_t>(stream.integer(8)));
    }
    const WindowRows windows{layout, queries, center.data(), size.data()};
    std::vector<std::int64_t> offsets(queries + 1);
    const auto entries = static_cast<std::size_t>(windows.count(offsets.data()));
    std::vector<std::int32_t> key(entries), map(entries), distance(entries);
    windows.fill(offsets.data(), key.data(), map.data(), distance.data());
    for (std::int64_t q = 0; q < queries; ++q) {
      const auto expected =
          obvious_row(layout, &center[static_cast<std::size_t>(q) * maps], &size[static_cast<std::size_t>(q) * maps]);
      const auto first = static_cast<std::size_t>(offsets[static_cast<std::size_t>(q)]);
      ASSERT_EQ(offsets[static_cast<std::size_t>(q) + 1] - offsets[static_cast<std::size_t>(q)],
                static_cast<std::int64_t>(expected.size()));
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ((std::tuple<std::int64_t, int, std::int64_t>(key[first + i], map[first + i], distance[first + i])),
                  expected[i]);
    }
  }
}

}  // namespace
}  // namespace camber::geometry
