#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <torch/custom_class.h>

#include "camber/nuscenes/dataset.h"

namespace camber::python {

/// Tensors by name, images, the cameras' names, the objects' categories.
using LoadedFrame = std::tuple<c10::Dict<std::string, torch::Tensor>, std::vector<torch::Tensor>,
                               std::vector<std::string>, std::vector<std::string>>;

class Dataset : public torch::CustomClassHolder {
 public:
  Dataset(const std::string& root, const std::string& version, std::int64_t threads)
      : dataset_(root, version, static_cast<int>(threads)) {}

  /// Tokens of the samples of a split, in the order of the table; empty name: of all.
  std::vector<std::string> samples(const std::string& split) const;
  std::vector<std::string> scenes() const;
  /// The samples of a scene, in the order of time.
  std::vector<std::string> samples_of(const std::string& scene) const;

  /// A key frame as its sensors delivered it. width and height 0: the first camera's own. `split` names the samples
  /// from which repeating faults take other scenes.
  LoadedFrame frame(const std::string& token, const std::string& faults, const std::string& split, std::int64_t seed,
                    std::int64_t sweeps, std::int64_t width, std::int64_t height) const;

 private:
  nuscenes::Dataset dataset_;
};

/// black, dark, noise, blur and rain on an image uint8 [H, W, 3].
torch::Tensor degrade_image(const torch::Tensor& image, const std::string& fault, std::int64_t seed);
/// Faults of a cloud float [N, 6] (x, y, z, intensity, ring, time lag); objects double [M, 7]; ahead double [3].
torch::Tensor degrade_points(const torch::Tensor& points, const std::string& fault, const torch::Tensor& objects,
                             const torch::Tensor& ahead, std::int64_t seed);
/// Errors of the cues on double [1 + V, 2] (age, level), the LiDAR first, of sensors bool [1 + V] that deliver. With
/// the number of the scene in its table and of the frame in its scene they are those of `camber eval` of this seed.
torch::Tensor degrade_cues(const torch::Tensor& cues, const std::string& errors, const torch::Tensor& available,
                           std::int64_t scene, std::int64_t frame, std::int64_t seed);

}  // namespace camber::python
