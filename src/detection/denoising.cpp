#include "detection/denoising.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "camber/random/stream.h"

namespace camber::detection {

DenoisingQueries make_denoising_queries(const DetectorBatch& batch, const DetectorOptions& options, std::uint64_t seed,
                                        std::int64_t step, std::int64_t first_frame, std::int64_t most) {
  const auto& settings = options.loss.denoising;
  for (const auto& targets : batch.targets) most = std::max(most, targets.labels.size(0));
  DenoisingQueries result;
  if (!settings.enabled || most == 0) return result;
  result.groups = std::max<std::int64_t>(1, std::min(settings.max_groups, options.head.num_queries / most));
  result.count = result.groups * most;
  result.references = torch::zeros({batch.size, result.count, 3}, torch::kFloat);
  result.object = torch::full({batch.size, result.count}, -1, torch::kLong);
  result.background = torch::zeros({batch.size, result.count}, torch::kBool);
  const bool fixed = options.head.references == References::kFixed;
  const auto& space = options.space;
  const std::array<double, 3> low = {space.x_min, space.y_min, space.z_min};
  const std::array<double, 3> high = {space.x_max, space.y_max, space.z_max};
  const random::Stream stream = random::Stream(seed, "denoising").at(static_cast<std::uint64_t>(step));
  for (std::int64_t b = 0; b < batch.size; ++b) {
    const auto& targets = batch.targets[static_cast<std::size_t>(b)];
    const auto boxes = targets.boxes.contiguous();
    const auto* box = boxes.const_data_ptr<float>();
    random::Stream draws = stream.at(static_cast<std::uint64_t>(first_frame + b));
    for (std::int64_t g = 0; g < result.groups; ++g)
      for (std::int64_t i = 0; i < targets.labels.size(0); ++i) {
        const std::int64_t at = b * result.count + g * most + i;
        float* position = result.references.data_ptr<float>() + 3 * at;
        double squares = 0;
        for (std::size_t axis = 0; axis < 3; ++axis) {
          const double noise = draws.uniform(-1, 1);
          const double extent = box[9 * i + 3 + static_cast<std::int64_t>(fixed ? 0 : axis)] / 2;
          squares += noise * noise;
          const double moved = box[9 * i + static_cast<std::int64_t>(axis)] +
                               noise * settings.noise_scale * (extent + settings.noise_margin);
          position[axis] = static_cast<float>(std::clamp(moved, low[axis], high[axis]));
        }
        if (fixed) position[2] = static_cast<float>(options.head.reference_height);
        result.object.data_ptr<std::int64_t>()[at] = i;
        result.background.data_ptr<bool>()[at] = std::sqrt(squares) > settings.background_beyond;
      }
  }
  return result;
}

torch::Tensor denoising_mask(const DenoisingQueries& denoising, std::int64_t num_queries) {
  const std::int64_t count = denoising.count, total = count + num_queries, size = count / denoising.groups;
  auto blocked = torch::zeros({total, total}, torch::kBool);
  blocked.narrow(1, 0, count).fill_(true);
  for (std::int64_t g = 0; g < denoising.groups; ++g)
    blocked.narrow(0, g * size, size).narrow(1, g * size, size).fill_(false);
  const auto padding = torch::constant_pad_nd(denoising.object < 0, {0, num_queries}, false);  // [B, D + Q]
  return (blocked.unsqueeze(0) | padding.unsqueeze(1)).unsqueeze(1);
}

}  // namespace camber::detection
