#pragma once
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <torch/custom_class.h>

#include "camber/detection/detector_session.h"

/// What Python calls, as classes of torch's own registry: no interface of a Python version is compiled in, so one
/// library serves all of them, and torch takes tensors, strings and lists across.
namespace camber::python {

/// Sensor readings that Python's tensors hold, kept alive together with the views of them.
class Frame : public torch::CustomClassHolder {
 public:
  /// points float [N, F] or none; images uint8 [H, W, 3] (empty: not available); intrinsics double [V, 3, 3];
  /// lidar_to_camera double [V, 4, 4]; times int64 [V]; available bool [V]; poses double [2, 4, 4]: LiDAR to ego, ego
  /// to global; cues double [1 + V, 2] (age, level) or none.
  Frame(std::optional<torch::Tensor> points, std::int64_t intensity_index, double intensity_scale,
        std::int64_t time_lag_index, std::int64_t lidar_timestamp, std::optional<std::int64_t> timestamp,
        std::vector<torch::Tensor> images, bool bgr, const torch::Tensor& intrinsics,
        const torch::Tensor& lidar_to_camera, const std::vector<std::string>& names, const torch::Tensor& times,
        const torch::Tensor& available, const torch::Tensor& poses, const std::optional<torch::Tensor>& cues);

  const detection::Frame& view() const { return frame_; }

 private:
  std::vector<torch::Tensor> kept_;
  detection::Frame frame_;
};

/// boxes double [N, 7] (centre, length, width, height, yaw), velocity [N, 2], score [N], label and query int64 [N],
/// trust [N, X] (X = 0 without a router), attention mass [N, M], agreement of the frame's sensors [N].
using Found = std::tuple<torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor,
                         torch::Tensor, torch::Tensor>;

class Detector : public torch::CustomClassHolder {
 public:
  explicit Detector(const std::string& path) : detector_(detection::Detector::load(path)) {}
  std::vector<std::string> classes() const { return detector_->options().classes; }
  std::string options() const;                                                ///< TOML
  std::string policy() const;                                                 ///< what is done with the cues' alarms
  double threshold() const { return detector_->options().alarms.threshold; }  ///< of agreement; 0: not calibrated
  std::int64_t previous_sweeps() const { return detector_->options().encoder.previous_sweeps; }
  Found detect(const c10::intrusive_ptr<Frame>& frame) const;
  const detection::Detector& model() const { return detector_; }

 private:
  detection::Detector detector_;
};

class Session : public torch::CustomClassHolder {
 public:
  /// An empty policy is the detector's own.
  Session(const c10::intrusive_ptr<Detector>& detector, const std::string& policy);
  Found detect(const c10::intrusive_ptr<Frame>& frame);
  void reset();
  std::string policy() const;
  torch::Tensor cues() const;  ///< double [1 + V, 4]: age, change, level, available; [0, 4] before the first frame
  /// double [2 + V]: of the last frame, smoothed, of each camera; V = 0 without dense heads; NaN where not known.
  torch::Tensor agreement() const;

 private:
  mutable std::mutex mutex_{};  // Python's threads run side by side while a call is here
  detection::DetectorSession session_;
};

/// Runs a function whose errors are sentences, and hands them to Python as ValueError or RuntimeError.
template <class Function>
auto told(Function&& function) {
  try {
    return function();
  } catch (const c10::Error&) {
    throw;
  } catch (const std::invalid_argument& error) {
    TORCH_CHECK_VALUE(false, error.what());
  } catch (const std::exception& error) {
    TORCH_CHECK(false, error.what());
  }
}

}  // namespace camber::python
