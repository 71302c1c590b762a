#pragma once
#include <cstdint>
#include <vector>

#include "camber/config/field.h"
#include "camber/nn/bounded_scale_options.h"

namespace camber::nn {

enum class WindowForm { kBox, kGaussian };
enum class WindowSizing { kFixed, kObject };
enum class WindowCentre { kInitial, kRefined };
enum class ScaleSharing { kShared, kPerModality, kPerLayer, kPerHead };
enum class BiasPrecision { kFloat, kHalf, kBfloat16 };

/// From this epoch on, the bias is clipped at +-clip.
struct ClipStep {
  std::int64_t from_epoch = 0;
  double clip = 5;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("from_epoch", from_epoch, "first epoch of this clip", config::Range{.min = 0});
    visitor("clip", clip, "largest |bias|", config::Range{.min = 0});
  }
};

/// How trust becomes a bias: value = g(d) * clip(w * scale, +-c) on windows, clip(w * scale) on whole key segments.
/// With locality the windows hold g(d) * clip(locality_scale + w * scale, +-c): to look near the query needs no trust
/// then, and trust is free to say whom to doubt. That is the form for training from scratch; an untrained router no
/// longer leaves the detector's output as it was.
struct AttentionBiasOptions {
  bool windows = true;
  bool segments = false;
  bool locality = false;
  bool window_trust = true;
  bool per_camera = false;
  WindowForm form = WindowForm::kBox;
  WindowSizing sizing = WindowSizing::kFixed;
  WindowCentre centre = WindowCentre::kInitial;
  std::int64_t bev_window = 5;
  std::int64_t camera_window = 15;
  double clip = 0;
  std::vector<ClipStep> clip_schedule{};
  ScaleSharing sharing = ScaleSharing::kShared;
  BiasPrecision precision = BiasPrecision::kFloat;
  BoundedScaleOptions scale{};
  BoundedScaleOptions segment_scale{.init = 2.5, .min = 0, .max = 10, .warn_threshold = 8};
  BoundedScaleOptions locality_scale{.init = 2.5, .min = 0, .max = 5, .warn_threshold = 4.5};
  std::int64_t num_layers = 6;
  std::int64_t num_heads = 8;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("windows", windows, "bias on windows round the position where a query projects");
    visitor("segments", segments, "bias on whole key segments: the grid and each camera");
    visitor("locality", locality, "windows have a bias of their own, whatever the trust: locality_scale + w * scale");
    visitor("window_trust", window_trust, "false, with locality: trust moves the segments alone, not the windows");
    visitor("per_camera", per_camera, "one trust weight a camera instead of one for all cameras");
    visitor("form", form, "box: 1 inside; gaussian: exp(-d^2 / (2 s^2)), s = size / 6");
    visitor("sizing", sizing, "fixed, or object: covers the projected box, within 3 to 31 cells");
    visitor("centre", centre, "initial: the reference point in all layers; refined: the last layer's prediction");
    visitor("bev_window", bev_window, "cells of a window in the grid (odd)", config::Range{.min = 1});
    visitor("camera_window", camera_window, "cells of a window in a camera map (odd)", config::Range{.min = 1});
    visitor("clip", clip, "largest |bias| of a window; 0: the scale's max", config::Range{.min = 0});
    visitor("clip_schedule", clip_schedule, "clips that take over from an epoch on");
    visitor("sharing", sharing, "one scale, or one per modality, decoder layer or head");
    visitor("precision", precision, "type in which bias values are handed over; they are computed in float");
    visitor("scale", scale, "the scale of the windows");
    visitor("segment_scale", segment_scale, "the scale of the segments");
    visitor("locality_scale", locality_scale, "locality: what windows have at trust 0");
    visitor("num_layers", num_layers, "decoder layers", config::Range{.min = 1});
    visitor("num_heads", num_heads, "attention heads", config::Range{.min = 1});
  }
  void validate() const;
};

}  // namespace camber::nn

template <>
inline constexpr auto camber::config::enum_names<camber::nn::WindowForm> =
    std::array{std::pair{camber::nn::WindowForm::kBox, std::string_view("box")},
               std::pair{camber::nn::WindowForm::kGaussian, std::string_view("gaussian")}};
template <>
inline constexpr auto camber::config::enum_names<camber::nn::WindowSizing> =
    std::array{std::pair{camber::nn::WindowSizing::kFixed, std::string_view("fixed")},
               std::pair{camber::nn::WindowSizing::kObject, std::string_view("object")}};
template <>
inline constexpr auto camber::config::enum_names<camber::nn::WindowCentre> =
    std::array{std::pair{camber::nn::WindowCentre::kInitial, std::string_view("initial")},
               std::pair{camber::nn::WindowCentre::kRefined, std::string_view("refined")}};
template <>
inline constexpr auto camber::config::enum_names<camber::nn::ScaleSharing> =
    std::array{std::pair{camber::nn::ScaleSharing::kShared, std::string_view("shared")},
               std::pair{camber::nn::ScaleSharing::kPerModality, std::string_view("per_modality")},
               std::pair{camber::nn::ScaleSharing::kPerLayer, std::string_view("per_layer")},
               std::pair{camber::nn::ScaleSharing::kPerHead, std::string_view("per_head")}};
template <>
inline constexpr auto camber::config::enum_names<camber::nn::BiasPrecision> =
    std::array{std::pair{camber::nn::BiasPrecision::kFloat, std::string_view("float")},
               std::pair{camber::nn::BiasPrecision::kHalf, std::string_view("half")},
               std::pair{camber::nn::BiasPrecision::kBfloat16, std::string_view("bfloat16")}};
