#include "detection/cmt/voxels.h"

#include <bit>
#include <cmath>
#include <optional>
#include <vector>

namespace camber::detection::cmt {
namespace {

constexpr std::int64_t kFeatures = 5;

// Numbers of voxels by their linear index: open addressing, at most half full.
class VoxelNumbers {
 public:
  explicit VoxelNumbers(std::int64_t most)
      : slots_(std::bit_ceil(static_cast<std::uint64_t>(2 * most + 2))), mask_(slots_.size() - 1) {}

  // The slot's number for this index; -1 where there is none yet, to be filled by the caller.
  std::int32_t& of(std::int64_t index) {
    auto at = (static_cast<std::uint64_t>(index) * 0x9E3779B97F4A7C15ULL >> 20) & mask_;
    while (slots_[at].number >= 0 && slots_[at].index != index) at = (at + 1) & mask_;
    slots_[at].index = index;
    return slots_[at].number;
  }

 private:
  struct Slot {
    std::int64_t index = -1;
    std::int32_t number = -1;
  };
  std::vector<Slot> slots_;
  std::uint64_t mask_;
};

// (x, y, z) of the voxel that a point falls into. Written so that a coordinate that is NaN fails every comparison.
std::optional<std::array<std::int32_t, 3>> voxel_of(const float* point, const VoxelOptions& options) {
  std::array<std::int32_t, 3> voxel{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const float index = std::floor((point[axis] - options.low[axis]) / options.size[axis]);
    if (!(index >= 0 && index < static_cast<float>(options.cells[axis]))) return std::nullopt;
    voxel[axis] = static_cast<std::int32_t>(index);
  }
  return voxel;
}

// The voxels of the clouds so far.
class Voxeliser {
 public:
  explicit Voxeliser(const VoxelOptions& options) : options_(options) {}

  void add_cloud(const float* points, std::int64_t begin, std::int64_t end) {
    const std::int64_t before = voxels();
    VoxelNumbers numbers(std::min(options_.max_voxels, end - begin));
    for (std::int64_t row = begin; row < end; ++row) {
      const auto at = voxel_of(points + row * kFeatures, options_);
      if (!at) continue;
      const auto [x, y, z] = *at;
      std::int32_t& number = numbers.of((z * options_.cells[1] + y) * options_.cells[0] + x);
      if (number < 0) {
        if (voxels() - before >= options_.max_voxels) continue;
        number = static_cast<std::int32_t>(voxels());
        for (const std::int32_t value : {clouds_, z, y, x}) coordinates_.push_back(value);
        counts_.push_back(0);
      }
      auto& count = counts_[static_cast<std::size_t>(number)];
      if (count >= options_.max_points) continue;
      ++count;
      rows_.push_back(row);
      voxel_of_row_.push_back(number);
    }
    ++clouds_;
  }

  Voxels result() const {
    Voxels made;
    made.coordinates = torch::tensor(coordinates_, torch::kInt).view({voxels(), 4});
    made.counts = torch::tensor(counts_, torch::kLong);
    made.rows = torch::empty({static_cast<std::int64_t>(rows_.size())}, torch::kLong);
    std::vector<std::int64_t> next(counts_.size());
    for (std::size_t v = 1; v < next.size(); ++v) next[v] = next[v - 1] + counts_[v - 1];
    auto* out = made.rows.data_ptr<std::int64_t>();
    for (std::size_t i = 0; i < rows_.size(); ++i) out[next[static_cast<std::size_t>(voxel_of_row_[i])]++] = rows_[i];
    return made;
  }

 private:
  std::int64_t voxels() const { return static_cast<std::int64_t>(counts_.size()); }

  VoxelOptions options_;
  std::int32_t clouds_ = 0;
  std::vector<std::int32_t> coordinates_, voxel_of_row_;
  std::vector<std::int64_t> counts_, rows_;
};

}  // namespace

VoxelOptions VoxelOptions::of(const DetectorOptions& options, bool training) {
  const auto& space = options.space;
  const auto& encoder = options.encoder.cmt;
  const std::array<double, 3> low = {space.x_min, space.y_min, space.z_min};
  const std::array<double, 3> high = {space.x_max, space.y_max, space.z_max};
  const std::array<double, 3> size = {encoder.voxel, encoder.voxel, encoder.voxel_height};
  VoxelOptions result;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    result.low[axis] = static_cast<float>(low[axis]);
    result.size[axis] = static_cast<float>(size[axis]);
    result.cells[axis] = std::llround((high[axis] - low[axis]) / size[axis]);
  }
  result.max_points = encoder.max_points;
  result.max_voxels = training ? encoder.max_voxels_training : encoder.max_voxels;
  return result;
}

Voxels voxelise(const torch::Tensor& points, const torch::Tensor& point_offsets, const torch::Tensor& elements,
                const VoxelOptions& options) {
  TORCH_CHECK_VALUE(points.dim() == 2 && points.size(1) == kFeatures && points.scalar_type() == torch::kFloat,
                    "[voxelise] points must be float [N, 5], got ", points.scalar_type(), " ", points.sizes());
  const auto source = points.contiguous(), bounds = point_offsets.contiguous(), chosen = elements.contiguous();
  const auto* offsets = bounds.const_data_ptr<std::int64_t>();
  Voxeliser voxeliser(options);
  for (std::int64_t e = 0; e < chosen.size(0); ++e) {
    const std::int64_t element = chosen.const_data_ptr<std::int64_t>()[e];
    voxeliser.add_cloud(source.const_data_ptr<float>(), offsets[element], offsets[element + 1]);
  }
  return voxeliser.result();
}

torch::Tensor mean_of_voxels(const torch::Tensor& points, const Voxels& voxels, torch::ScalarType type) {
  const auto source = points.contiguous();
  auto means = torch::empty({voxels.counts.size(0), kFeatures}, torch::kDouble);
  const auto* row = voxels.rows.const_data_ptr<std::int64_t>();
  const auto* count = voxels.counts.const_data_ptr<std::int64_t>();
  auto* mean = means.data_ptr<double>();
  for (std::int64_t v = 0; v < voxels.counts.size(0); ++v, mean += kFeatures) {
    std::array<double, kFeatures> sum{};
    for (std::int64_t i = 0; i < count[v]; ++i, ++row)
      for (std::size_t f = 0; f < sum.size(); ++f)
        sum[f] += source.const_data_ptr<float>()[*row * kFeatures + static_cast<std::int64_t>(f)];
    for (std::size_t f = 0; f < sum.size(); ++f) mean[f] = sum[f] / static_cast<double>(count[v]);
  }
  return means.to(type);
}

}  // namespace camber::detection::cmt
