#include "cmt/golden_fixture.h"

#include <cstring>

namespace camber::cmt_tests {

using namespace detection;

Detector CmtGolden::detector_in(torch::ScalarType type) {
  Detector detector(small_options());
  import_cmt(Golden("weights.safetensors").all(), *detector, "weights.safetensors");
  detector->to(type);
  detector->eval();
  return detector;
}

namespace {

std::vector<geometry::Camera> cameras_of(const torch::Tensor& lidar_to_image) {
  std::vector<geometry::Camera> cameras;
  for (std::int64_t v = 0; v < lidar_to_image.size(0); ++v) {
    geometry::Camera camera{.width = 160, .height = 64, .columns = 10, .rows = 4};
    const auto matrix = lidar_to_image[v].contiguous();
    std::memcpy(camera.lidar_to_image.data(), matrix.const_data_ptr<double>(), sizeof(camera.lidar_to_image));
    cameras.push_back(camera);
  }
  return cameras;
}

}  // namespace

DetectorBatch CmtGolden::batch_in(torch::ScalarType type, bool second) {
  const Golden inputs("inputs.safetensors");
  auto points = inputs["points"], images = inputs["images"].unsqueeze(0), matrices = inputs["lidar2img"].unsqueeze(0);
  const std::int64_t count = points.size(0), size = second ? 2 : 1;
  if (second) {  // the world turned by half a turn, and the cameras in the other order
    const auto turned = points * torch::tensor({-1.0F, -1.0F, 1.0F, 1.0F, 1.0F});
    const auto turn = torch::diag(torch::tensor({-1.0, -1.0, 1.0, 1.0}, torch::kDouble));
    points = torch::cat({points, turned});
    images = torch::cat({images, images.flip(1)});
    matrices = torch::cat({matrices, torch::matmul(matrices.flip(1), turn)});
  }
  DetectorBatch batch{.size = size};
  batch.scene.grid = small_options().space.grid();
  for (std::int64_t b = 0; b < size; ++b) batch.scene.cameras.push_back(cameras_of(matrices[b]));
  batch.points = points;
  batch.point_offsets =
      second ? torch::tensor({std::int64_t{0}, count, 2 * count}) : torch::tensor({std::int64_t{0}, count});
  batch.images = {images.to(type)};
  batch.available = torch::ones({size, 7}, torch::kBool);
  batch.age = torch::full({size, 7}, 0.5F);
  batch.level = torch::zeros({size, 7});
  batch.quality = torch::ones({size, 7});
  return batch;
}

torch::Tensor by_site(const torch::Tensor& rows, const torch::Tensor& coordinates) {
  const auto at = coordinates.to(torch::kLong);
  const auto linear = ((at.select(1, 0) * 64 + at.select(1, 1)) * 4096 + at.select(1, 2)) * 4096 + at.select(1, 3);
  return rows.index_select(0, linear.argsort());
}

torch::Tensor head_output(const DetectorOutput& output, const std::string& head) {
  if (head == "cls_logits") return output.class_logits;
  constexpr std::array<std::int64_t, 5> widths = {2, 1, 3, 2, 2};
  std::int64_t from = 0;
  for (std::size_t i = 0; i < widths.size(); from += widths[i++])
    if (kHeads[i] == head) return output.codes.narrow(-1, from, widths[i]);
  throw std::invalid_argument("no head named " + head);
}

std::vector<weights::NamedTensor> gradients_in_cmt_names(const Detector& detector) {
  Detector holder(detector->options());
  holder->to(torch::kDouble);
  const torch::NoGradGuard guard;
  const auto theirs = detector->named_parameters();
  for (auto& parameter : holder->named_parameters()) {
    const auto gradient = theirs[parameter.key()].grad();
    parameter.value().copy_(gradient.defined() ? gradient : torch::zeros_like(parameter.value()));
  }
  return export_cmt(*holder, SpconvLayout::kTwo);
}

}  // namespace camber::cmt_tests
