#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "camber/config/field.h"
#include "camber/detection/alarms.h"
#include "camber/detection/cmt_encoder_options.h"
#include "camber/geometry/bev_grid.h"
#include "camber/nn/attention_bias_options.h"
#include "camber/nn/decoder.h"
#include "camber/nn/query_router.h"
#include "camber/sensors/frame.h"

namespace camber::detection {

/// Where the maps of keys come from: pillars and a few convolutions; pillars with a SECOND-like backbone and ResNet-50;
/// CMT's own encoders (cmt_encoder_options.h); or maps that somebody else's encoders made.
enum class EncoderKind { kSmall, kReference, kCmt, kFeatures };
/// cmt: sines through small nets, cameras by points along the ray. split: the grid in the first half of the channels,
/// rays in the second, each through a linear map, so that attention is local from the first step on.
enum class PositionEmbedding { kCmt, kSplit };
/// learned: parameters, drawn uniformly over the space. fixed: a regular grid of positions.
enum class References { kLearned, kFixed };
/// sigmoid: centre = sigmoid(output + inverse_sigmoid(reference)) over the space. offset: reference + stride * output.
enum class Centre { kSigmoid, kOffset };
/// camber: (cx, cy, cz, log l, log w, log h, sin, cos, vx, vy). cmt: log l and log w before cz, for imported weights.
enum class BoxCode { kCamber, kCmt };
/// What a query knows before it looks: nothing, as in CMT, or a linear function of its position, learned from 0.
/// (Position embeddings enter the comparison of queries and keys alone: a query that knows nothing cannot tell where it
/// stands.)
enum class QueryStart { kZeros, kPosition };
/// Of encoders and cross-attention in inference. bfloat16: sums in float, what goes from layer to layer rounded to
/// bfloat16; queries, their positions and boxes stay in float. Weights are stored in float either way.
enum class Precision { kFloat32, kBfloat16 };
/// What divides the class loss: the number of objects, or CMT's max(1, positives + 0.1 * negatives).
enum class ClassNormalizer { kObjects, kCmt };

}  // namespace camber::detection

namespace camber::config {

template <>
inline constexpr auto enum_names<detection::EncoderKind> =
    std::array{std::pair{detection::EncoderKind::kSmall, std::string_view("small")},
               std::pair{detection::EncoderKind::kReference, std::string_view("reference")},
               std::pair{detection::EncoderKind::kCmt, std::string_view("cmt")},
               std::pair{detection::EncoderKind::kFeatures, std::string_view("features")}};
template <>
inline constexpr auto enum_names<detection::PositionEmbedding> =
    std::array{std::pair{detection::PositionEmbedding::kCmt, std::string_view("cmt")},
               std::pair{detection::PositionEmbedding::kSplit, std::string_view("split")}};
template <>
inline constexpr auto enum_names<detection::References> =
    std::array{std::pair{detection::References::kLearned, std::string_view("learned")},
               std::pair{detection::References::kFixed, std::string_view("fixed")}};
template <>
inline constexpr auto enum_names<detection::Centre> =
    std::array{std::pair{detection::Centre::kSigmoid, std::string_view("sigmoid")},
               std::pair{detection::Centre::kOffset, std::string_view("offset")}};
template <>
inline constexpr auto enum_names<detection::QueryStart> =
    std::array{std::pair{detection::QueryStart::kZeros, std::string_view("zeros")},
               std::pair{detection::QueryStart::kPosition, std::string_view("position")}};
template <>
inline constexpr auto enum_names<detection::BoxCode> =
    std::array{std::pair{detection::BoxCode::kCamber, std::string_view("camber")},
               std::pair{detection::BoxCode::kCmt, std::string_view("cmt")}};
template <>
inline constexpr auto enum_names<detection::Precision> =
    std::array{std::pair{detection::Precision::kFloat32, std::string_view("float32")},
               std::pair{detection::Precision::kBfloat16, std::string_view("bfloat16")}};
template <>
inline constexpr auto enum_names<detection::ClassNormalizer> =
    std::array{std::pair{detection::ClassNormalizer::kObjects, std::string_view("objects")},
               std::pair{detection::ClassNormalizer::kCmt, std::string_view("cmt")}};

}  // namespace camber::config

namespace camber::detection {

/// The space that a detector looks at, in the LiDAR's frame, and its cells: of the keys, and of the pillars below them.
struct SpaceOptions {
  double x_min = -51.2, x_max = 51.2;
  double y_min = -51.2, y_max = 51.2;
  double z_min = -5, z_max = 3;
  double cell = 0.8;
  double pillar_cell = 0.4;
  std::int64_t grid_cells = 0;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("x_min", x_min, "metres");
    visitor("x_max", x_max, "metres");
    visitor("y_min", y_min, "metres");
    visitor("y_max", y_max, "metres");
    visitor("z_min", z_min, "metres");
    visitor("z_max", z_max, "metres");
    visitor("cell", cell, "side of a key's cell, metres", config::Range{.min = 0.01});
    visitor("pillar_cell", pillar_cell, "side of a pillar, metres; half of cell", config::Range{.min = 0.01});
    visitor("grid_cells", grid_cells,
            "cells of the grid along x and y, from x_min and y_min on; 0: as many as fill the range",
            config::Range{.min = 0});
  }
  /// Refuses ranges that the cells do not fill, grids that reach out of the range, and pillars that are not half as
  /// wide as a cell.
  void validate() const;
  /// The cells of the keys. With grid_cells they may leave a part of the range without keys, as CMT's published
  /// cmt_voxel0100_r50 does: 128 cells of 0.8 m from -54 m on, in a range that ends at +54 m.
  geometry::BevGrid grid() const {
    if (grid_cells == 0) return {x_min, x_max, y_min, y_max, cell};
    const double side = static_cast<double>(grid_cells) * cell;
    return {x_min, x_min + side, y_min, y_min + side, cell};
  }
  geometry::BevGrid pillars() const { return {x_min, x_max, y_min, y_max, pillar_cell}; }
};

struct EncoderOptions {
  EncoderKind kind = EncoderKind::kReference;
  std::string features{};
  std::int64_t image_width = 800, image_height = 320;
  std::int64_t feature_stride = 16;
  std::int64_t previous_sweeps = 10;
  double split_lag = 0;
  std::int64_t pillar_width = 64;
  std::int64_t bev_channels = 512;
  std::int64_t camera_channels = 256;
  CmtEncoderOptions cmt{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("kind", kind, "small, reference, cmt, or features: maps made by other encoders");
    visitor("features", features, "features: folder with the maps of a frame in SAMPLE_TOKEN.safetensors");
    visitor("image_width", image_width, "width of the network's image", config::Range{.min = 8});
    visitor("image_height", image_height, "height of the network's image", config::Range{.min = 8});
    visitor("feature_stride", feature_stride, "pixels a feature cell; small 8, reference and cmt 16",
            config::Range{.min = 1});
    visitor("previous_sweeps", previous_sweeps, "LiDAR sweeps before the key frame", config::Range{.min = 0});
    visitor(
        "split_lag", split_lag,
        "small: points of sweeps older than this many seconds have a map of pillars of their own; 0: one map for all",
        config::Range{.min = 0});
    visitor("pillar_width", pillar_width, "numbers that describe a pillar", config::Range{.min = 1});
    visitor("bev_channels", bev_channels, "channels of the bird's-eye map that enters the head",
            config::Range{.min = 1});
    visitor("camera_channels", camera_channels, "channels of the camera maps that enter the head",
            config::Range{.min = 1});
    visitor("cmt", cmt, "kind cmt: CMT's own encoders");
  }
};

/// The CMT head. Defaults are CMT's own; DetectorOptions::small() takes the other choices.
struct HeadOptions {
  PositionEmbedding position_embedding = PositionEmbedding::kCmt;
  References references = References::kLearned;
  Centre centre = Centre::kSigmoid;
  QueryStart query_start = QueryStart::kZeros;
  BoxCode box_code = BoxCode::kCamber;
  bool refine = false;
  bool dense_auxiliary = false;
  bool dense_motion = false;
  bool shared_convolution = true;
  bool token_norm = false;
  std::int64_t num_queries = 900;
  double reference_height = -1;
  double offset_stride = 2.5;
  std::int64_t depths = 64;
  std::int64_t head_width = 64;
  std::int64_t task_kernel = 1;
  double class_bias = -2.19;
  bool cue_input = false;
  bool agreement_input = false;
  std::int64_t max_detections = 300;
  double score_threshold = 0;
  std::vector<double> centre_limits{};
  nn::TransformerDecoderOptions decoder{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("position_embedding", position_embedding, "cmt, or split: local from the first step on");
    visitor("references", references, "learned, or fixed on a regular grid");
    visitor("centre", centre, "sigmoid over the space, or an offset from the reference");
    visitor("query_start", query_start, "zeros, or position: a linear function of the reference's embedding");
    visitor("box_code", box_code, "order of the box code; cmt for imported weights");
    visitor("refine", refine, "each layer starts from the centre that the one before predicted");
    visitor("dense_auxiliary", dense_auxiliary, "also learn to name the cells that hold objects");
    visitor(
        "dense_motion", dense_motion,
        "a branch of the small LiDAR encoder learns heading and velocity of what a cell holds; boxes add what it says "
        "of the cell where the layer before found their centre");
    visitor("shared_convolution", shared_convolution, "3x3 convolution on the bird's-eye map");
    visitor("token_norm", token_norm, "layer norm on the keys of both sensors");
    visitor("num_queries", num_queries, "object queries; fixed: the grid's positions nearest to the car",
            config::Range{.min = 1});
    visitor("reference_height", reference_height, "fixed: z of the references in the LiDAR's frame, metres");
    visitor("offset_stride", offset_stride, "offset: metres a unit of the output", config::Range{.min = 0.01});
    visitor("depths", depths, "cmt: points along a pixel's ray", config::Range{.min = 2});
    visitor("head_width", head_width, "inner width of each task's head", config::Range{.min = 1});
    visitor("task_kernel", task_kernel, "queries, in their order, that a task's convolutions join; odd (CMT-L: 3)",
            config::Range{.min = 1});
    visitor("class_bias", class_bias, "first bias of the class scores");
    visitor("cue_input", cue_input, "the cues as an input of the queries (a control without bias)");
    visitor("agreement_input", agreement_input, "how far the sensors agree as an input of the queries (likewise)");
    visitor("max_detections", max_detections, "boxes a frame", config::Range{.min = 1, .max = 500});
    visitor("score_threshold", score_threshold, "boxes below it are left out", config::Range{0, 1});
    visitor(
        "centre_limits", centre_limits,
        "boxes whose centre lies outside are left out: x, y, z from and x, y, z to; none: a tenth beyond the space");
    visitor("decoder", decoder, "the transformer");
  }
  void validate() const;
};

struct DenoisingOptions {
  bool enabled = true;
  std::int64_t max_groups = 10;
  double noise_scale = 1;
  double noise_margin = 0;
  double background_beyond = 0.75;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("enabled", enabled, "add noised true objects as queries in training");
    visitor("max_groups", max_groups, "groups; fewer when they would outnumber the queries", config::Range{.min = 1});
    visitor("noise_scale", noise_scale, "times half the object's size", config::Range{.min = 0});
    visitor("noise_margin", noise_margin, "metres beyond the object", config::Range{.min = 0});
    visitor("background_beyond", background_beyond,
            "noise vectors longer than this (of 1 a direction) become background; 2: none", config::Range{.min = 0});
  }
};

/// Of a term of the loss: beyond it float overflows long before anything is learned.
constexpr double kLargestWeight = 1e6;

struct LossOptions {
  double class_weight = 2;
  double box_weight = 0.25;
  double focal_alpha = 0.25, focal_gamma = 2;
  std::vector<double> code_weights{2, 2, 1, 1, 1, 1, 1, 1, 0.2, 0.2};
  /// b of each number of a code: an error e costs e^2 / (2 b) below b and |e| - b / 2 beyond it; 0: |e|. L1 alone
  /// learns the median. Where directions are as often one way as the other and half of the objects stand, that is 0
  /// whatever is seen, and leaving it costs as much as it gains; squares learn the mean, which every cue of a motion
  /// moves.
  std::vector<double> code_smoothing{0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  ClassNormalizer class_normalizer = ClassNormalizer::kCmt;
  double denoising_weight = 1;
  double dense_weight = 1;
  double router_weight = 0.5;
  DenoisingOptions denoising{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("class_weight", class_weight, "focal loss, and its cost in matching",
            config::Range{.min = 0, .max = kLargestWeight});
    visitor("box_weight", box_weight, "L1 loss of the box code, and its cost in matching",
            config::Range{.min = 0, .max = kLargestWeight});
    visitor("focal_alpha", focal_alpha, "weight of true classes", config::Range{0, 1});
    visitor("focal_gamma", focal_gamma, "how far easy ones are passed over", config::Range{.min = 0});
    visitor("code_weights", code_weights, "weights of the ten numbers of a box code");
    visitor("code_smoothing", code_smoothing, "errors of the ten numbers below it count by their square; 0: L1");
    visitor("class_normalizer", class_normalizer, "what divides the class loss");
    visitor("denoising_weight", denoising_weight, "times both losses of denoising queries",
            config::Range{.min = 0, .max = kLargestWeight});
    visitor("dense_weight", dense_weight, "losses of cells that hold objects",
            config::Range{.min = 0, .max = kLargestWeight});
    visitor("router_weight", router_weight, "L1 of trust against labels, in mode supervised",
            config::Range{.min = 0, .max = kLargestWeight});
    visitor("denoising", denoising, "denoising queries");
  }
  void validate() const;
};

/// The whole detector. The member defaults are the reference size; small() is the detector that learns in minutes on
/// two cores. Router and bias are off by default (router.mode = off): then no bias is made and no parameter of either
/// exists.
///
///   DetectorOptions options = DetectorOptions::small();
///   options.router.mode = nn::RouterMode::kLearned;
///   options.bias.segments = true;
///   Detector detector(options, /*seed=*/1);
struct DetectorOptions {
  std::vector<std::string> classes{"car",        "truck",   "construction_vehicle", "bus",         "trailer", "barrier",
                                   "motorcycle", "bicycle", "pedestrian",           "traffic_cone"};
  SpaceOptions space{};
  EncoderOptions encoder{};
  HeadOptions head{};
  nn::QueryRouterOptions router{.mode = nn::RouterMode::kOff};
  nn::AttentionBiasOptions bias{};
  LossOptions loss{};
  AlarmOptions alarms{};
  Precision precision = Precision::kFloat32;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("classes", classes, "names of the detection task, in the order of the scores");
    visitor("space", space, "where objects are looked for");
    visitor("encoder", encoder, "from points and images to keys");
    visitor("head", head, "from keys to boxes");
    visitor("router", router, "where trust comes from; off: no bias either");
    visitor("bias", bias, "how trust biases the attention");
    visitor("loss", loss, "what training minimises");
    visitor("alarms", alarms, "what is done with the alarms of the cues, and how they are verified");
    visitor("precision", precision, "float32, or in inference with CMT's encoders bfloat16");
  }
  /// Throws std::invalid_argument with one sentence for options that do not hold together: unknown classes, a decoder
  /// that has another width than router, an odd width for the split embedding, ten code weights.
  void validate() const;

  static DetectorOptions reference() { return {}; }
  static DetectorOptions small();
  /// reference, small, or a model that CMT published: cmt_r50, cmt_vov, cmt_lidar, cmt_camera (as configs/NAME.toml
  /// says); std::invalid_argument for another name.
  static DetectorOptions preset(std::string_view name);

  /// The type of what encoders hand on in inference.
  bool in_bfloat16() const { return precision == Precision::kBfloat16; }
  bool has_router() const { return router.mode != nn::RouterMode::kOff; }
  /// Sensors that trust tells apart: LiDAR and cameras, or LiDAR and each camera.
  std::int64_t num_sensors() const { return router.num_sensors; }
  std::int64_t num_classes() const { return static_cast<std::int64_t>(classes.size()); }
  /// Only CMT's encoders may lack a sensor; the data's frames may have it all the same.
  bool uses_lidar() const { return encoder.kind != EncoderKind::kCmt || encoder.cmt.sensors != Sensors::kCameras; }
  bool uses_cameras() const { return encoder.kind != EncoderKind::kCmt || encoder.cmt.sensors != Sensors::kLidar; }
  /// How frames are loaded for this detector; the loader's `frame`.
  sensors::FrameOptions frame_options() const;
};

/// Multipliers for parameters whose name contains `pattern`, the longest match wins; scales stand apart.
struct ParameterRule {
  std::string pattern{};
  double learning_rate = 1;
  double decay = 1;
};

/// Cue gains x 3 without decay, the content route of the router x 0.1; with the reference and CMT's encoders the
/// image backbone x 0.01 (decay x 5) and its neck x 0.1. Only rules that match a parameter of such a detector are
/// listed.
std::vector<ParameterRule> parameter_rules(const DetectorOptions& options);

}  // namespace camber::detection
