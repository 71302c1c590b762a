// Augmentation as CMT's training does it: the calibration follows the world and the images, exactly.
#include <cmath>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "camber/sensors/loader.h"
#include "nuscenes/small_world.h"
#include "sensors/simulated_world.h"

namespace camber::sensors {
namespace {

using tests::simulated_frames;
using tests::simulated_world;

// The published ranges; the resizes 0.47 to 0.625 of images that 0.5 fits are scales of 0.94 to 1.25.
const AugmentationOptions kPublished{.flip = true,
                                     .rotation = 44.977,
                                     .scale_min = 0.9,
                                     .scale_max = 1.1,
                                     .translation = 0.5,
                                     .image_flip = true,
                                     .image_scale_min = 0.94,
                                     .image_scale_max = 1.25,
                                     .image_variation = ImageVariation::kBottom};

LoaderOptions loaded_with(const AugmentationOptions& augmentation) {
  LoaderOptions options{.frame = simulated_frames(), .augmentation = augmentation, .batch_size = 1, .shuffle = false};
  options.frame.range = PointRange::everywhere();
  options.frame.image_width = 80;  // of 120 x 48: a fit, and room for crops
  options.frame.image_height = 24;
  options.frame.resampling = geometry::Resampling::kBilinear;
  options.faults.share = 0;
  return options;
}

geometry::Vector3 moved(const geometry::Matrix4& m, const geometry::Vector3& p) {
  geometry::Vector3 result{};
  for (std::size_t i = 0; i < 3; ++i)
    result[i] = m[4 * i] * p[0] + m[4 * i + 1] * p[1] + m[4 * i + 2] * p[2] + m[4 * i + 3];
  return result;
}

// From a pixel of the network's standard image over the camera's own to one of the varied image.
geometry::Projection through(const geometry::Matrix3& standard, const geometry::Matrix3& varied,
                             const geometry::Projection& p) {
  const double u = (p.u - standard[2]) / standard[0], v = (p.v - standard[5]) / standard[4];
  return {varied[0] * u + varied[2], varied[4] * v + varied[5], p.depth};
}

// Every corner of every box, in every camera, of `count` samples: where it falls after all changes, and where its pixel
// went. Returns how many were looked at.
int expect_same_spots(const nuscenes::Dataset& dataset, const std::vector<nuscenes::Index>& samples,
                      const LoaderOptions& options, int count) {
  Loader loader(dataset, samples, options, 3, 2);
  int checked = 0, flips = 0;
  for (int i = 0; i < count; ++i) {
    const LoadedSample sample = std::move(loader.next()->samples[0]);
    const KeyFrame& after = sample.sensor_frame.frame;
    const KeyFrame before = load_key_frame(dataset, after.sample, options.frame);
    const geometry::ImageCrop crop = sample.augmentation.crop.value();
    EXPECT_GE(crop.scale, 0.94);
    EXPECT_LE(crop.scale, 1.25);
    flips += crop.flip ? 1 : 0;
    for (std::size_t k = 0; k < before.objects.size(); ++k) {
      const auto corners = before.objects[k].box.corners(), turned = after.objects[k].box.corners();
      for (const geometry::Vector3& corner : corners) {
        const geometry::Vector3 here = moved(sample.augmentation.world, corner);
        double from_box = 1e9;  // mirroring swaps the corners of a box
        for (const geometry::Vector3& other : turned)
          from_box = std::min(from_box, std::hypot(here[0] - other[0], here[1] - other[1], here[2] - other[2]));
        EXPECT_LT(from_box, 1e-9);
        for (std::size_t c = 0; c < before.cameras.size(); ++c) {
          const geometry::Projection seen = before.cameras[c].camera.project(corner);
          if (seen.depth < 1) continue;
          const geometry::Projection cropped =
              through(before.cameras[c].transform.matrix(), after.cameras[c].transform.matrix(), seen);
          const geometry::Matrix3& turn = sample.augmentation.images[c];
          const geometry::Projection found = after.cameras[c].camera.project(here);
          const double pixel = 1e-9 * (1 + std::abs(cropped.u) + std::abs(cropped.v));  // some lie far outside
          EXPECT_NEAR(found.u, turn[0] * cropped.u + turn[1] * cropped.v + turn[2], pixel);
          EXPECT_NEAR(found.v, turn[3] * cropped.u + turn[4] * cropped.v + turn[5], pixel);
          EXPECT_NEAR(found.depth, seen.depth, 1e-9);
          ++checked;
        }
      }
    }
  }
  EXPECT_GT(flips, 0);
  EXPECT_LT(flips, count);
  return checked;
}

TEST(CmtAugmentation, BoxesProjectToTheSameSpotOfTheSceneBeforeAndAfter) {
  LoaderOptions options = loaded_with(kPublished);
  EXPECT_GT(expect_same_spots(simulated_world().dataset, simulated_world().all.samples, options, 8), 1000);
  options.augmentation.image_rotation = 8;  // which the published ranges leave out
  EXPECT_GT(expect_same_spots(simulated_world().dataset, simulated_world().all.samples, options, 8), 1000);
}

TEST(CmtAugmentation, TheSameOfTheRealKeyFrame) {
  const auto folder = tests::real_data() / "nuscenes_keyframe";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no key frame in " << folder << " (set CAMBER_DATA)";
  const nuscenes::Dataset dataset(folder, "v1.0-keyframe");
  LoaderOptions options = loaded_with(kPublished);
  options.frame.image_width = 800;
  options.frame.image_height = 320;
  options.cues = false;
  EXPECT_GT(expect_same_spots(dataset, nuscenes::whole_data_set(dataset).samples, options, 4), 1000);
}

// The images themselves: those of the camera resized by the drawn factor, cut and mirrored as the matrix says.
TEST(CmtAugmentation, ImagesAreTheCamerasOwnAsTheirTransformSays) {
  const auto& world = simulated_world();
  const LoaderOptions options = loaded_with(kPublished);
  Loader loader(world.dataset, world.all.samples, options, 4, 1);
  for (std::size_t i = 0; i < 4; ++i) {
    const LoadedSample sample = std::move(loader.next()->samples[0]);
    for (const CameraView& view : sample.sensor_frame.frame.cameras) {
      const auto& data = world.dataset.tables().sample_data[view.sample_data];
      const auto expected = geometry::ImageTransform::crop_bottom(data.width, data.height, 80, 24,
                                                                  *sample.augmentation.crop, options.frame.resampling);
      EXPECT_EQ(view.transform.matrix(), expected.matrix());
      EXPECT_EQ(view.image.pixels, load_image(world.dataset.path_of(data), {data.width, data.height}, expected).pixels);
    }
  }
}

TEST(CmtAugmentation, CuesAreThoseOfFramesThatNothingVaried) {
  const auto& world = simulated_world();
  Loader varied(world.dataset, world.all.samples, loaded_with(kPublished), 5, 2);
  Loader plain(world.dataset, world.all.samples, loaded_with(AugmentationOptions::none()), 5, 2);
  for (std::size_t i = 0; i < 6; ++i) {
    const auto a = varied.next(), b = plain.next();
    for (std::size_t k = 0; k < a->samples[0].cues.size(); ++k) {
      EXPECT_EQ(a->samples[0].cues[k].age, b->samples[0].cues[k].age);
      EXPECT_EQ(a->samples[0].cues[k].level, b->samples[0].cues[k].level);
    }
  }
}

TEST(CmtAugmentation, FaultsHappenToTheVariedImages) {
  const auto& world = simulated_world();
  LoaderOptions options = loaded_with(kPublished);
  for (const char* fault : {"black:5", "camera_off:3", "dark:3", "frozen:2:earlier"}) {
    options.fixed_faults = parse_faults(fault);
    Loader loader(world.dataset, world.all.samples, options, 6, 1, 3);
    const LoadedSample sample = std::move(loader.next()->samples[0]);
    FrameOptions cropped = options.frame;
    cropped.image_crop = *sample.augmentation.crop;
    const SensorFrame expected =
        load_sensor_frame(world.dataset, sample.sensor_frame.frame.sample, cropped, options.fixed_faults,
                          world.all.samples, random::Stream(6, "faults"));
    for (std::size_t c = 0; c < expected.frame.cameras.size(); ++c) {
      EXPECT_EQ(sample.sensor_frame.frame.cameras[c].available, expected.frame.cameras[c].available) << fault;
      EXPECT_EQ(sample.sensor_frame.frame.cameras[c].image.pixels, expected.frame.cameras[c].image.pixels) << fault;
    }
  }
}

TEST(CmtAugmentation, ResumesWithTheSameBytesOnAnyThread) {
  const auto& world = simulated_world();
  LoaderOptions options = loaded_with(kPublished);
  options.augmentation.shuffle_points = true;
  options.augmentation.grid_mask = 0.7;
  options.faults.share = 0.5;
  options.batch_size = 2;
  options.shuffle = true;
  Loader whole(world.dataset, world.all.samples, options, 8, 2),
      later(world.dataset, world.all.samples, options, 8, 1, 3);
  for (int step = 0; step < 3; ++step) whole.next();
  const auto a = whole.next(), b = later.next();
  for (std::size_t i = 0; i < 2; ++i) {
    const LoadedSample &x = a->samples[i], &y = b->samples[i];
    EXPECT_EQ(x.sensor_frame.frame.points, y.sensor_frame.frame.points);
    EXPECT_EQ(x.augmentation.world, y.augmentation.world);
    EXPECT_EQ(x.augmentation.crop, y.augmentation.crop);
    EXPECT_EQ(x.augmentation.grid_mask, y.augmentation.grid_mask);
    for (std::size_t c = 0; c < x.sensor_frame.frame.cameras.size(); ++c)
      EXPECT_EQ(x.sensor_frame.frame.cameras[c].image.pixels, y.sensor_frame.frame.cameras[c].image.pixels);
  }
}

TEST(CmtAugmentation, ShuffledPointsAreTheSamePoints) {
  const auto& world = simulated_world();
  AugmentationOptions shuffled = AugmentationOptions::none();
  shuffled.shuffle_points = true;
  Loader first(world.dataset, world.all.samples, loaded_with(AugmentationOptions::none()), 5, 1);
  Loader second(world.dataset, world.all.samples, loaded_with(shuffled), 5, 1);
  auto a = first.next()->samples[0].sensor_frame.frame.points, b = second.next()->samples[0].sensor_frame.frame.points;
  EXPECT_NE(a, b);
  const auto less = [](const LidarPoint& p, const LidarPoint& q) {
    return std::tie(p.x, p.y, p.z, p.intensity, p.ring, p.time_lag) <
           std::tie(q.x, q.y, q.z, q.intensity, q.ring, q.time_lag);
  };
  std::sort(a.begin(), a.end(), less);
  std::sort(b.begin(), b.end(), less);
  EXPECT_EQ(a, b);
}

TEST(CmtAugmentation, TheWorldMovesByTheDrawnDeviation) {
  const KeyFrame frame;
  AugmentationOptions options = AugmentationOptions::none();
  options.translation = 0.5;
  double sum = 0, squares = 0;
  constexpr int kDraws = 2000;
  for (int i = 0; i < kDraws; ++i) {
    const auto world =
        draw_augmentation(options, frame, random::Stream(1, "w").at(static_cast<std::uint64_t>(i))).world;
    for (const std::size_t at : {3, 7, 11}) {
      sum += world[at];
      squares += world[at] * world[at];
    }
  }
  EXPECT_NEAR(sum / (3 * kDraws), 0, 0.02);
  EXPECT_NEAR(std::sqrt(squares / (3 * kDraws)), 0.5, 0.02);
}

// The definition once more, pixel by pixel: a canvas of one and a half, zeros in stripes, the middle cut out, turned
// round.
std::vector<bool> kept_by_definition(const GridMask& mask, std::int64_t size, std::int64_t first) {
  const auto canvas = static_cast<std::int64_t>(1.5 * static_cast<double>(size));
  std::vector<bool> on_canvas(static_cast<std::size_t>(canvas), false);
  for (std::int64_t i = 0; i < canvas / mask.period; ++i)
    for (std::int64_t k = 0; k < mask.width; ++k)
      if (const std::int64_t at = mask.period * i + first + k; at < canvas)
        on_canvas[static_cast<std::size_t>(at)] = true;
  const auto begin = on_canvas.begin() + (canvas - size) / 2;
  return {begin, begin + size};
}

TEST(GridMask, StripesAreThoseOfItsDefinition) {
  int drawn = 0;
  std::set<std::int64_t> periods;
  for (std::uint64_t i = 0; i < 400; ++i) {
    const std::int64_t height = 20 + static_cast<std::int64_t>(i % 45);
    const auto mask = draw_grid_mask(0.7, 0.5, height, random::Stream(2, "mask").at(i));
    if (!mask) continue;
    ++drawn;
    periods.insert(mask->period);
    EXPECT_GE(mask->period, 2);
    EXPECT_LT(mask->period, height);
    EXPECT_EQ(mask->width, (mask->period + 1) / 2);
    EXPECT_LT(mask->first_row, mask->period);
    EXPECT_LT(mask->first_column, mask->period);
    EXPECT_EQ(mask->open_rows(height), kept_by_definition(*mask, height, mask->first_row));
    EXPECT_EQ(mask->open_columns(3 * height + 1), kept_by_definition(*mask, 3 * height + 1, mask->first_column));
  }
  EXPECT_NEAR(drawn, 280, 40);
  EXPECT_GT(periods.size(), 30);
  EXPECT_FALSE(draw_grid_mask(0, 0.5, 64, random::Stream(1, "mask")));
  EXPECT_FALSE(draw_grid_mask(1, 0.5, 2, random::Stream(1, "mask")));
}

}  // namespace
}  // namespace camber::sensors
