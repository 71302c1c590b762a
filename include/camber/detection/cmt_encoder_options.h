#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "camber/config/field.h"
#include "camber/geometry/camera.h"

namespace camber::detection {

/// Which sensors a detector with CMT's encoders has; the published models are of all three kinds.
enum class Sensors { kBoth, kLidar, kCameras };
/// ResNet-50 (r50) or VoVNet-99 with effective squeeze and excitation (vov).
enum class ImageBackbone { kResNet50, kVovNet99 };

}  // namespace camber::detection

namespace camber::config {

template <>
inline constexpr auto enum_names<detection::Sensors> =
    std::array{std::pair{detection::Sensors::kBoth, std::string_view("both")},
               std::pair{detection::Sensors::kLidar, std::string_view("lidar")},
               std::pair{detection::Sensors::kCameras, std::string_view("cameras")}};
template <>
inline constexpr auto enum_names<detection::ImageBackbone> =
    std::array{std::pair{detection::ImageBackbone::kResNet50, std::string_view("resnet50")},
               std::pair{detection::ImageBackbone::kVovNet99, std::string_view("vovnet99")}};
template <>
inline constexpr auto enum_names<geometry::Resampling> =
    std::array{std::pair{geometry::Resampling::kFiltered, std::string_view("filtered")},
               std::pair{geometry::Resampling::kBilinear, std::string_view("bilinear")}};

}  // namespace camber::config

namespace camber::detection {

/// CMT's own encoders (encoder.kind = cmt): hard voxels with the mean of their points, a sparse encoder of four stages,
/// SECOND with its pyramid; an image backbone whose last two stages join in a pyramid. The defaults are those of the
/// published cmt_voxel0100_r50_800x320_cbgs.
struct CmtEncoderOptions {
  Sensors sensors = Sensors::kBoth;
  ImageBackbone backbone = ImageBackbone::kResNet50;
  double voxel = 0.1, voxel_height = 0.2;
  std::int64_t max_points = 10;
  std::int64_t max_voxels_training = 120000, max_voxels = 160000;
  std::vector<std::int64_t> sparse_channels{16, 32, 64, 128};
  std::int64_t sparse_outputs = 128;
  std::vector<std::int64_t> bev_backbone_channels{128, 256};
  std::int64_t bev_backbone_layers = 5;
  std::int64_t stem_width = 64, backbone_width = 64;
  // What the published test pipeline does to a frame before the encoders.
  geometry::Resampling resampling = geometry::Resampling::kBilinear;
  std::vector<std::string> camera_order{"CAM_FRONT", "CAM_FRONT_RIGHT", "CAM_FRONT_LEFT",
                                        "CAM_BACK",  "CAM_BACK_LEFT",   "CAM_BACK_RIGHT"};
  double sweep_minimum_distance = 0;
  bool repeat_key_frame = false;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("sensors", sensors, "both, lidar, or cameras");
    visitor("backbone", backbone, "of the images: resnet50 or vovnet99");
    visitor("voxel", voxel, "side of a voxel along x and y, metres; an eighth of space.cell",
            config::Range{.min = 0.001});
    visitor("voxel_height", voxel_height, "side of a voxel along z, metres", config::Range{.min = 0.001});
    visitor("max_points", max_points, "points of a voxel that count, the first ones", config::Range{.min = 1});
    visitor("max_voxels_training", max_voxels_training, "voxels of a cloud in training, the first ones",
            config::Range{.min = 1});
    visitor("max_voxels", max_voxels, "voxels of a cloud otherwise", config::Range{.min = 1});
    visitor("sparse_channels", sparse_channels, "widths of the sparse encoder's four stages");
    visitor("sparse_outputs", sparse_outputs, "channels a height of the sparse encoder's map", config::Range{.min = 1});
    visitor("bev_backbone_channels", bev_backbone_channels, "widths of the two stages on the bird's-eye map");
    visitor("bev_backbone_layers", bev_backbone_layers, "convolutions of each of them after the first",
            config::Range{.min = 0});
    visitor("stem_width", stem_width, "resnet50: channels of the first convolution", config::Range{.min = 1});
    visitor("backbone_width", backbone_width, "resnet50: inner width of the first stage", config::Range{.min = 1});
    visitor("resampling", resampling, "of the cameras' images: bilinear, as OpenCV resizes, or filtered");
    visitor("camera_order", camera_order, "cameras that come first where the data set has them");
    visitor("sweep_minimum_distance", sweep_minimum_distance,
            "metres; points of earlier sweeps with |x| and |y| below it are left out (mmdet3d's remove_close: 1)",
            config::Range{.min = 0});
    visitor("repeat_key_frame", repeat_key_frame,
            "the key frame stands for each earlier sweep where there is none (mmdet3d's pad_empty_sweeps)");
  }
  /// Refuses lists of another length than the stages.
  void validate() const;
};

/// Of the images that enter CMT's backbones, blue first, in the units of the stored bytes.
inline constexpr std::array<float, 3> kCmtImageMean = {103.53F, 116.28F, 123.675F};
inline constexpr std::array<float, 3> kCmtImageDeviation = {57.375F, 57.12F, 58.395F};

}  // namespace camber::detection
