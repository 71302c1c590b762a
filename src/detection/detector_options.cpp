#include "camber/detection/detector_options.h"

#include <cmath>
#include <stdexcept>

#include "camber/eval/detection_box.h"
#include "camber/kernels/isa.h"
#include "detection/cmt/presets.h"

namespace camber::detection {
namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw std::invalid_argument("[Detector] " + sentence);
}

// Rows and columns of the image must be whole cells: a cut cell would shift every projection.
void check_stride(const char* name, std::int64_t size, std::int64_t stride) {
  if (size < 2 * stride)
    refuse(std::string(name) + " must be at least two feature cells of " + std::to_string(stride) + " pixels, got " +
           std::to_string(size));
  if (size % stride != 0)
    refuse(std::string(name) + " must be a multiple of feature_stride " + std::to_string(stride) + ", got " +
           std::to_string(size));
}

}  // namespace

void SpaceOptions::validate() const {
  if (z_max <= z_min) refuse("space.z_max must be above z_min, got " + std::to_string(z_max));
  if (std::abs(cell - 2 * pillar_cell) > 1e-9 * cell)
    refuse("space.pillar_cell must be half of cell " + std::to_string(cell) + ", got " + std::to_string(pillar_cell));
  const auto keys = grid();
  if (keys.x_max() > x_max + 1e-6 * cell || keys.y_max() > y_max + 1e-6 * cell)
    refuse("space.grid_cells must stay inside the range, got " + std::to_string(grid_cells) + " cells of " +
           std::to_string(cell) + " m");
  static_cast<void>(pillars());
}

void CmtEncoderOptions::validate() const {
  if (sparse_channels.size() != 4)
    refuse("encoder.cmt.sparse_channels must hold four widths, got " + std::to_string(sparse_channels.size()));
  if (bev_backbone_channels.size() != 2)
    refuse("encoder.cmt.bev_backbone_channels must hold two widths, got " +
           std::to_string(bev_backbone_channels.size()));
  for (const auto& widths : {sparse_channels, bev_backbone_channels})
    for (const std::int64_t width : widths)
      if (width < 1) refuse("encoder.cmt: widths must be at least 1, got " + std::to_string(width));
}

void HeadOptions::validate() const {
  if (position_embedding == PositionEmbedding::kSplit && (decoder.width % 16 != 0 || decoder.num_heads % 2 != 0))
    refuse("head.decoder.width must be a multiple of 16 and num_heads even with the split embedding, got " +
           std::to_string(decoder.width) + " and " + std::to_string(decoder.num_heads));
  if (task_kernel % 2 == 0) refuse("head.task_kernel must be odd, got " + std::to_string(task_kernel));
  if (!centre_limits.empty() && centre_limits.size() != 6)
    refuse("head.centre_limits must hold six numbers or none, got " + std::to_string(centre_limits.size()));
  for (std::size_t i = 0; i + 3 < centre_limits.size(); ++i)
    if (!(centre_limits[i] < centre_limits[i + 3]))
      refuse("head.centre_limits must rise from its first three numbers to its last, got " +
             std::to_string(centre_limits[i]) + " to " + std::to_string(centre_limits[i + 3]));
}

void LossOptions::validate() const {
  const auto check = [](const std::string& name, const std::vector<double>& numbers) {
    if (numbers.size() != 10) refuse("loss." + name + " must hold ten numbers, got " + std::to_string(numbers.size()));
    for (const double number : numbers)
      if (!(number >= 0 && number <= kLargestWeight))
        refuse("loss." + name + " must be 0 to 1e6, got " + std::to_string(number));
  };
  check("code_weights", code_weights);
  check("code_smoothing", code_smoothing);
}

namespace {

// The sparse encoder halves the voxels three times on their way to the cells of the keys.
void check_cmt(const DetectorOptions& options) {
  const auto& encoder = options.encoder;
  encoder.cmt.validate();
  if (encoder.feature_stride != 16)
    refuse("encoder.feature_stride must be 16 for CMT's encoders, got " + std::to_string(encoder.feature_stride));
  if (!options.uses_lidar()) return;
  if (std::abs(options.space.cell - 8 * encoder.cmt.voxel) > 1e-9 * options.space.cell)
    refuse("encoder.cmt.voxel must be an eighth of space.cell " + std::to_string(options.space.cell) + ", got " +
           std::to_string(encoder.cmt.voxel));
  constexpr double kFewestHeights = 24;  // three strides of 2 and a kernel of 3 leave one height
  if (std::round((options.space.z_max - options.space.z_min) / encoder.cmt.voxel_height) < kFewestHeights)
    refuse("encoder.cmt.voxel_height must cut the space into at least 24 heights, got " +
           std::to_string(encoder.cmt.voxel_height) + " m");
  if (encoder.bev_channels % 2 != 0)
    refuse("encoder.bev_channels must be even for CMT's encoders, got " + std::to_string(encoder.bev_channels));
}

// bfloat16 without the processor's own products would be slower than float, and nobody asks for that.
void check_precision(const DetectorOptions& options) {
  if (!options.in_bfloat16()) return;
  if (options.encoder.kind != EncoderKind::kCmt)
    refuse("precision must be float32 with other encoders than CMT's, got bfloat16");
  if (kernels::chosen_isa() != kernels::Isa::avx512_bf16)
    refuse("precision must be float32 where the kernels have no products of bfloat16 (they run on " +
           std::string(kernels::isa_name(kernels::chosen_isa())) + "), got bfloat16");
}

}  // namespace

namespace {

// A window of 2 n - 1 cells covers a map of n from wherever its centre lies: a wider one means something else.
void check_window(const char* name, std::int64_t size, std::int64_t map) {
  if (size > 2 * map - 1)
    refuse(std::string(name) + " must be at most " + std::to_string(2 * map - 1) + " for a map of " +
           std::to_string(map) + " cells, got " + std::to_string(size));
}

void check_windows(const DetectorOptions& options) {
  const auto grid = options.space.grid();
  const std::int64_t bev = std::max(grid.rows(), grid.columns());
  const std::int64_t camera =
      std::max(options.encoder.image_width, options.encoder.image_height) / options.encoder.feature_stride;
  if (options.uses_lidar()) {
    check_window("bias.bev_window", options.bias.bev_window, bev);
    check_window("router.bev_window", options.router.bev_window, bev);
  }
  if (options.uses_cameras()) {
    check_window("bias.camera_window", options.bias.camera_window, camera);
    check_window("router.camera_window", options.router.camera_window, camera);
  }
  if (!options.bias.windows && !options.bias.segments)
    refuse("bias.windows and bias.segments must not both be false with router.mode on: trust would move nothing");
  if (!options.bias.window_trust && !options.bias.segments)
    refuse("bias.window_trust and bias.segments must not both be false with router.mode on: trust would move nothing");
}

}  // namespace

void DetectorOptions::validate() const {
  if (classes.empty()) refuse("classes must name at least one class");
  for (const auto& name : classes)
    if (!eval::detection_class(name)) refuse("classes must be names of the detection task, got \"" + name + "\"");
  space.validate();
  head.validate();
  loss.validate();
  check_stride("encoder.image_width", encoder.image_width, encoder.feature_stride);
  check_stride("encoder.image_height", encoder.image_height, encoder.feature_stride);
  if (encoder.kind == EncoderKind::kSmall && encoder.feature_stride != 8)
    refuse("encoder.feature_stride must be 8 for the small encoder, got " + std::to_string(encoder.feature_stride));
  if (encoder.kind == EncoderKind::kReference && encoder.feature_stride != 16)
    refuse("encoder.feature_stride must be 16 for the reference encoder, got " +
           std::to_string(encoder.feature_stride));
  if (encoder.split_lag > 0 && encoder.kind != EncoderKind::kSmall)
    refuse("encoder.split_lag must be 0 for other encoders than the small one, got " +
           std::to_string(encoder.split_lag));
  if (encoder.split_lag > 0 && encoder.previous_sweeps == 0)
    refuse("encoder.split_lag must be 0 without previous sweeps, got " + std::to_string(encoder.split_lag));
  if (head.dense_motion && (encoder.kind != EncoderKind::kSmall || !head.refine))
    refuse("head.dense_motion must be false without the small encoder and head.refine, got true");
  if (encoder.kind == EncoderKind::kCmt) check_cmt(*this);
  check_precision(*this);
  if (!head.shared_convolution && encoder.bev_channels != head.decoder.width)
    refuse("encoder.bev_channels must be the decoder's width " + std::to_string(head.decoder.width) +
           " without the shared convolution, got " + std::to_string(encoder.bev_channels));
  if (head.agreement_input && !head.dense_auxiliary)
    refuse("head.agreement_input must be false without head.dense_auxiliary, whose maps the agreement comes from");
  if (!has_router()) return;
  router.validate();
  if (router.mode == nn::RouterMode::kAgree && !head.dense_auxiliary)
    refuse("router.mode must not be agree without head.dense_auxiliary, whose maps the agreement comes from");
  bias.validate();
  check_windows(*this);
  if (router.width != head.decoder.width)
    refuse("router.width must be the decoder's, " + std::to_string(head.decoder.width) + ", got " +
           std::to_string(router.width));
  if (!bias.per_camera && router.num_sensors != 2)
    refuse("router.num_sensors must be 2 without bias.per_camera, got " + std::to_string(router.num_sensors));
  if (bias.num_layers != head.decoder.num_layers || bias.num_heads != head.decoder.num_heads)
    refuse("bias.num_layers and num_heads must be the decoder's");
}

DetectorOptions DetectorOptions::small() {
  DetectorOptions options;
  options.classes = {"car", "truck", "pedestrian", "traffic_cone"};
  options.space = {.x_min = -25.6, .x_max = 25.6, .y_min = -25.6, .y_max = 25.6, .cell = 1.6, .pillar_cell = 0.8};
  options.encoder = {.kind = EncoderKind::kSmall,
                     .image_width = 120,
                     .image_height = 48,
                     .feature_stride = 8,
                     .previous_sweeps = 0,
                     .pillar_width = 32,
                     .bev_channels = 64,
                     .camera_channels = 64};
  options.head = {.position_embedding = PositionEmbedding::kSplit,
                  .references = References::kFixed,
                  .centre = Centre::kOffset,
                  .query_start = QueryStart::kPosition,
                  .refine = true,
                  .dense_auxiliary = true,
                  .shared_convolution = false,
                  .token_norm = true,
                  .num_queries = 120,
                  .class_bias = -3.5,
                  .decoder = {.num_layers = 2,
                              .width = 64,
                              .num_heads = 4,
                              .feedforward_width = 128,
                              .self_attention_dropout = 0,
                              .cross_attention_dropout = 0,
                              .residual_dropout = 0,
                              .feedforward_dropout = 0}};
  options.router = {.mode = nn::RouterMode::kOff,
                    .width = 64,
                    .num_heads = 4,
                    .feedforward_width = 128,
                    .dropout = 0,
                    .bev_window = 5,
                    .camera_window = 5};
  options.bias.bev_window = 3;
  options.bias.camera_window = 3;
  options.bias.num_layers = 2;
  options.bias.num_heads = 4;
  options.loss.class_normalizer = ClassNormalizer::kObjects;
  options.loss.denoising = {.max_groups = 3, .noise_margin = 1, .background_beyond = 2};
  return options;
}

DetectorOptions DetectorOptions::preset(std::string_view name) {
  if (name == "reference") return reference();
  if (name == "small") return small();
  if (auto published = cmt::preset(name)) return *published;
  refuse("preset must be reference, small, cmt_r50, cmt_vov, cmt_lidar or cmt_camera, got \"" + std::string(name) +
         "\"");
}

sensors::FrameOptions DetectorOptions::frame_options() const {
  sensors::FrameOptions frame;
  frame.image_width = encoder.image_width;
  frame.image_height = encoder.image_height;
  frame.feature_stride = encoder.feature_stride;
  frame.sweeps.previous = encoder.previous_sweeps;
  frame.range = {space.x_min, space.x_max, space.y_min, space.y_max, space.z_min, space.z_max};
  if (encoder.kind == EncoderKind::kCmt) {
    frame.resampling = encoder.cmt.resampling;
    frame.camera_order = encoder.cmt.camera_order;
    frame.sweeps.minimum_distance = encoder.cmt.sweep_minimum_distance;
    frame.sweeps.repeat_key_frame = encoder.cmt.repeat_key_frame;
    frame.sweeps.arithmetic = sensors::SweepArithmetic::kMmdet3d;
  }
  const bool encodes = encoder.kind != EncoderKind::kFeatures;
  frame.load_points = encodes && uses_lidar();
  frame.load_images = encodes && uses_cameras();
  return frame;
}

std::vector<ParameterRule> parameter_rules(const DetectorOptions& options) {
  std::vector<ParameterRule> rules;
  if (options.router.mode == nn::RouterMode::kAgree) rules.push_back({"router.agreement_", 3, 0});
  if (nn::uses_cues(options.router.mode) && options.router.mode != nn::RouterMode::kAgree)
    for (const char* gain : {"router.age_gain", "router.level_gain", "router.offset"}) rules.push_back({gain, 3, 0});
  if (nn::uses_content(options.router.mode)) rules.push_back({"router.", 0.1, 1});
  if (options.encoder.kind == EncoderKind::kReference) {
    rules.push_back({"camera_encoder.backbone", 0.01, 5});
    rules.push_back({"camera_encoder.neck", 0.1, 1});
  } else if (options.encoder.kind == EncoderKind::kCmt && options.uses_cameras()) {
    rules.push_back({"camera_encoder.img_backbone", 0.01, 5});
    rules.push_back({"camera_encoder.img_neck", 0.1, 1});
  }
  return rules;
}

}  // namespace camber::detection
