#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "camber/detection/agreement.h"
#include "camber/detection/batch.h"
#include "camber/detection/detection.h"
#include "camber/detection/detector_options.h"
#include "camber/distributed/process_group.h"
#include "camber/ops/biased_attention.h"

namespace camber::detection {

/// What replaces the router's weights at test time: controls of a trained model.
enum class TrustControl {
  kModel,     // nothing does
  kZero,      // w = 0: the bias does nothing
  kMean,      // the mean over the queries of a frame
  kShuffled,  // permuted over the queries
  kOracle,    // the true quality of each sensor, 2 q - 1
};

struct ForwardOptions {
  std::uint64_t seed = 0;  // seed and step name the draws of dropout and denoising noise
  std::int64_t step = 0;
  std::int64_t first_frame = 0;  // of the batch, where it is a share of one: draws are those of the frame in the whole
  bool denoising = true;         // only while training
  bool attention_mass = false;   // mass per sensor, of the last layer
  bool statistics = false;       // row statistics of every layer, the mass with them
  bool dense_alone = false;      // while training: the dense heads' logits and nothing else, no query is decoded
  TrustControl trust = TrustControl::kModel;
  std::optional<TrustPolicy> policy{};      // in evaluation mode; none: that of the options
  std::vector<double> earlier_agreement{};  // of the frames before, where the batch is one frame of a sequence
  ops::Implementation implementation = ops::Implementation::kAuto;
};

/// Denoising queries of a batch: group by group, padded to the frame with most objects.
struct DenoisingQueries {
  std::int64_t groups = 0;
  std::int64_t count = 0;      // D, queries of a frame
  torch::Tensor references{};  // float [B, D, 3], metres
  torch::Tensor object{};      // int64 [B, D]: the object that was noised, -1 padding
  torch::Tensor background{};  // bool [B, D]: noised so far that it counts as background
};

/// The numbers that a layer's bias added to scores, in no order, without gradients: g(d) * clip(w * scale) on the keys
/// of the windows, clip(w * segment_scale) once a query and map that delivers. Undefined: no such bias.
struct AddedBias {
  torch::Tensor lidar_windows{}, camera_windows{}, lidar_segment{}, camera_segments{};
};

/// A layer's bias where it was computed. How many numbers it added its device alone knows: `added` waits for it.
struct LayerBias {
  ops::StructuredBias bias{};  // without gradients
  torch::Tensor available{};   // bool [B, M]
  std::int64_t grid_keys = 0;
  AddedBias added() const;
};

/// L layers, B frames, Q queries, D denoising queries, C classes, X sensors, M maps.
struct DetectorOutput {
  torch::Tensor class_logits{};      // [L, B, Q, C]
  torch::Tensor codes{};             // [L, B, Q, 10], metres, in the order of head.box_code
  torch::Tensor denoising_logits{};  // [L, B, D, C]; undefined without denoising queries
  torch::Tensor denoising_codes{};   // [L, B, D, 10]
  DenoisingQueries denoising{};
  torch::Tensor trust{};            // [B, Q, X]; undefined without a router
  torch::Tensor denoising_trust{};  // [B, D, X]
  torch::Tensor attention_mass{};   // [B, Q, M], last layer, mean over heads; where asked for
  torch::Tensor references{};       // [B, Q, 3], metres: where the queries started
  torch::Tensor grid_logits{};      // [B, rows * columns, C]; undefined without dense_auxiliary
  torch::Tensor camera_logits{};    // [B, keys of all cameras, C]
  torch::Tensor grid_motion{};      // [B, rows * columns, 4] = (sin, cos, vx, vy); undefined without dense_motion
  /// How far the sensors see the same objects; in evaluation mode, with statistics, and where the router asks for it.
  /// Undefined without dense_auxiliary.
  SensorAgreement agreement{};
  /// Of the cross-attention, one a layer, with statistics; rows are [B, H, D + Q], denoising queries first.
  std::vector<ops::AttentionStatistics> statistics{};
  std::vector<LayerBias> layer_bias{};  // likewise, of those queries; empty without a router
};

/// Named parts in a fixed order: class_0, box_0, class_1, ..., denoising_class_0, denoising_box_0, ..., dense_grid,
/// dense_camera, dense_motion, router, scale (those that the options ask for), and their sum. Of an output with
/// dense_alone dense_grid and dense_camera.
struct Losses {
  std::vector<std::pair<std::string, torch::Tensor>> terms{};
  torch::Tensor total{};
};

struct Frame;   // camber/detection/frame.h
class CmtHead;  // camber/detection/cmt_head.h, these three
struct KeyMaps;
struct GroupedPoints;

/// LiDAR and cameras to boxes: encoders, the CMT head, router and bias. While training, denoising queries join in.
/// Initial values are functions of (seed, name of the parameter): adding a router changes no other parameter's start.
class DetectorImpl : public torch::nn::Module {
 public:
  /// Throws std::invalid_argument when the options do not hold together.
  explicit DetectorImpl(DetectorOptions options, std::uint64_t seed = 0);
  ~DetectorImpl() override;

  DetectorOutput forward(const DetectorBatch& batch, const ForwardOptions& options = {});

  /// Matches queries to the batch's true objects, layer by layer, and returns every part of the loss.
  Losses losses(const DetectorOutput& output, const DetectorBatch& batch);

  /// From now on a batch to learn from is this rank's share of one batch. What losses are divided by, the padding of
  /// denoising queries and, with `statistics`, those of batch norms belong to the whole; the sums of all ranks' losses
  /// and gradients are then those of one process with the whole batch. Every rank calls forward, losses and backward
  /// alike.
  void share_batches(std::shared_ptr<distributed::ProcessGroup> group, bool statistics = true);

  /// The boxes of each frame, best first, without any suppression. A frame in which no sensor delivers has none. A
  /// score that is NaN and a box that is not finite are never among them; a warning names the frame and counts both.
  std::vector<std::vector<Detection>> decode(const DetectorOutput& output, const DetectorBatch& batch) const;

  /// Also forgets embeddings of keys that detect() kept: training changes them.
  void train(bool on = true) override;

  /// Position embeddings of the keys of one frame's sensors, [1, K, C]; they depend on calibration and weights alone.
  torch::Tensor key_positions(const nn::SensorScene& scene);
  /// The same, kept from the call before with this calibration: in evaluation mode. For many threads.
  torch::Tensor kept_key_positions(const nn::SensorScene& scene);
  /// forward with embeddings of the keys that are known from before.
  DetectorOutput run(const DetectorBatch& batch, const ForwardOptions& options,
                     const std::optional<torch::Tensor>& key_positions);

  /// Whether of all its parameters those of the dense heads alone learn: then nothing else need be computed.
  bool learns_dense_heads_alone() const;

  const DetectorOptions& options() const { return options_; }
  /// Another policy or threshold: they belong to the options, and are saved with them, but to no weight.
  void set_alarms(const AlarmOptions& alarms);
  /// Where its weights lie, and so where it computes: `->to(device)` moves it. Batches stay on the host; what a pass
  /// needs of them is copied.
  torch::Device device() const;

  /// forward in its stages: the points of the clouds that are available, in their cells; the maps of what is
  /// available (those of absent sensors are zeros that no query sees), or those that the batch brings; the head.
  GroupedPoints voxelise(const DetectorBatch& batch) const;
  torch::Tensor encode_points(const DetectorBatch& batch, const GroupedPoints& points) const;
  torch::Tensor encode_images(const DetectorBatch& batch) const;
  KeyMaps encode(const DetectorBatch& batch, const GroupedPoints& points) const;
  KeyMaps encode(const DetectorBatch& batch) const;
  CmtHead head() const;

 private:
  struct Parts;
  /// The type of maps and of keys' positions; refuses bfloat16 where gradients may be asked for.
  std::int64_t most_of_a_rank(std::int64_t own) const;
  torch::ScalarType map_type() const;
  DetectorOptions options_;
  std::unique_ptr<Parts> parts_;
};

/// A detector to train (through ->) or to use:
///
///   const Detector detector = Detector::load("model.safetensors");
///   for (const Detection& found : detector.detect(frame)) ...
class Detector : public torch::nn::ModuleHolder<DetectorImpl> {
 public:
  using torch::nn::ModuleHolder<DetectorImpl>::ModuleHolder;

  /// Reads the options and the whole state that save() or a training wrote, of a checkpoint the running average where
  /// it has one, and switches to evaluation. A file that is damaged or lacks a tensor is a std::runtime_error.
  /// Files know no device: one that was trained anywhere is loaded to any. `precision` stands above the file's own.
  static Detector load(const std::filesystem::path& file, torch::Device device = torch::kCPU,
                       std::optional<Precision> precision = std::nullopt);

  /// Boxes of a single frame, without history: cues are frame.cues or neutral. Of a sequence, DetectorSession
  /// (camber/detection/detector_session.h) makes them. May be called from several threads at once; position embeddings
  /// of the keys are kept for each calibration that was seen.
  std::vector<Detection> detect(const Frame& frame) const;
};

}  // namespace camber::detection
