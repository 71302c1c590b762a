#include <cmath>

#include "detection/cmt/bev_backbone.h"
#include "detection/cmt/sparse_encoder.h"
#include "detection/cmt/voxels.h"
#include "detection/encoders.h"

namespace camber::detection {
namespace {

// One more height than there are voxels, as the original has it; rows and columns by the grid of the keys.
ops::GridShape sparse_shape(const DetectorOptions& options) {
  const auto grid = options.space.grid();
  const auto heights = cmt::VoxelOptions::of(options, false).cells[2] + 1;
  return {heights, 8 * grid.rows(), 8 * grid.columns()};
}

class CmtLidarEncoder : public LidarEncoderImpl {
 public:
  explicit CmtLidarEncoder(const DetectorOptions& options) : options_(options), shape_(sparse_shape(options)) {
    const auto& wanted = options.encoder.cmt;
    const std::array<std::int64_t, 2> widths{wanted.bev_backbone_channels[0], wanted.bev_backbone_channels[1]};
    const std::int64_t heights = cmt::SparseEncoderImpl::output_shape(shape_)[0];
    encoder_ = register_module("pts_middle_encoder",
                               cmt::SparseEncoder(cmt::SparseEncoderOptions{.channels = wanted.sparse_channels,
                                                                            .outputs = wanted.sparse_outputs,
                                                                            .shape = shape_,
                                                                            .bfloat16 = options.in_bfloat16()}));
    backbone_ = register_module("pts_backbone",
                                cmt::Second(wanted.sparse_outputs * heights, widths, wanted.bev_backbone_layers));
    neck_ = register_module("pts_neck", cmt::SecondFpn(widths, options.encoder.bev_channels / 2));
  }

  GroupedPoints group(const torch::Tensor& points, const torch::Tensor& point_offsets,
                      const torch::Tensor& elements) const override {
    const auto voxels = cmt::voxelise(points, point_offsets, elements, cmt::VoxelOptions::of(options_, is_training()));
    auto means = cmt::mean_of_voxels(points, voxels, parameters().front().scalar_type());
    // Voxels of the range that the grid of the keys does not hold; the original lets them alias into other rows.
    const auto inside = voxels.coordinates.select(1, 2).lt(shape_[1]) & voxels.coordinates.select(1, 3).lt(shape_[2]);
    if (inside.all().item<bool>()) return {means, voxels.coordinates};
    const auto kept = inside.nonzero().squeeze(1);
    return {means.index_select(0, kept), voxels.coordinates.index_select(0, kept)};
  }

  torch::Tensor forward(const GroupedPoints& voxels, std::int64_t clouds) override {
    return neck_->forward(backbone_->forward(encoder_->forward(voxels.features, voxels.cell, clouds)));
  }

 private:
  DetectorOptions options_;
  ops::GridShape shape_;
  cmt::SparseEncoder encoder_{nullptr};
  cmt::Second backbone_{nullptr};
  cmt::SecondFpn neck_{nullptr};
};

}  // namespace

std::shared_ptr<LidarEncoderImpl> make_cmt_lidar_encoder(const DetectorOptions& options) {
  return std::make_shared<CmtLidarEncoder>(options);
}

}  // namespace camber::detection
