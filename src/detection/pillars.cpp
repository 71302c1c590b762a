#include "detection/pillars.h"

#include <cmath>
#include <limits>
#include <utility>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

namespace camber::detection {
namespace {

// Cells that a task owns at the least.
constexpr std::int64_t kCells = 1024;

// Of the cells first .. last, in the order of the points.
template <class Number>
void largest_of_cells(const Number* values, const std::int64_t* cell, std::int64_t points, std::int64_t channels,
                      std::int64_t first, std::int64_t last, Number* result, std::int64_t* source,
                      std::int64_t* count) {
  for (std::int64_t i = 0; i < points; ++i, values += channels) {
    const std::int64_t at = cell[i];
    if (at < first || at >= last) continue;
    Number* best = result + at * (channels + 1);
    std::int64_t* from = source + at * channels;
    if (count[at]++ == 0) {
      for (std::int64_t c = 0; c < channels; ++c) {
        best[c] = values[c];
        from[c] = i;
      }
      continue;
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      if (values[c] > best[c] || std::isnan(values[c])) {  // a NaN stays, whichever point it came with
        best[c] = values[c];
        from[c] = i;
      }
    }
  }
}

// The same in tensor operations: the points sorted by cell, then the first that holds its cell's largest value.
std::pair<torch::Tensor, torch::Tensor> plain_maximum(const torch::Tensor& values, const torch::Tensor& cell,
                                                      std::int64_t cells) {
  const std::int64_t points = values.size(0), channels = values.size(1);
  if (points == 0)
    return {torch::zeros({cells, channels + 1}, values.options()), torch::full({cells, channels}, -1, cell.options())};
  const auto order = torch::argsort(cell, /*stable=*/true, 0);
  const auto borders = torch::arange(cells + 1, cell.options());
  const auto offsets = torch::searchsorted(cell.index_select(0, order), borders);
  const auto largest = torch::segment_reduce(values.index_select(0, order), "max", {}, {}, offsets, 0, /*unsafe=*/true,
                                             -std::numeric_limits<double>::infinity());
  const auto of_points = largest.index_select(0, cell);
  const auto holds = values.eq(of_points).logical_or(values.isnan());
  const auto number = torch::arange(points, cell.options()).unsqueeze(1).expand({points, channels});
  const auto first =
      torch::segment_reduce(number.masked_fill(holds.logical_not(), points).index_select(0, order).to(torch::kDouble),
                            "min", {}, {}, offsets, 0, /*unsafe=*/true, static_cast<double>(points));
  const auto source = first.to(torch::kLong);
  const auto empty = source.eq(points);
  const auto count =
      (offsets.slice(0, 1) - offsets.slice(0, 0, -1)).to(torch::kDouble).log1p().to(values.scalar_type());
  return {torch::cat({largest.masked_fill(empty, 0), count.unsqueeze(1)}, 1), source.masked_fill(empty, -1)};
}

class ScatterMax : public torch::autograd::Function<ScatterMax> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& values,
                               const torch::Tensor& cell, std::int64_t cells) {
    const std::int64_t points = values.size(0), channels = values.size(1);
    const auto dense = values.contiguous();
    auto result = torch::zeros({cells, channels + 1}, values.options());
    if (!values.is_cpu()) {
      const auto [largest, found] = plain_maximum(dense, cell, cells);
      context->save_for_backward({found});
      context->saved_data["points"] = points;
      return largest;
    }
    auto source = torch::empty({cells, channels}, torch::kLong);  // of an empty cell: -1 and then anything
    auto count = torch::zeros({cells}, torch::kLong);
    AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "scatter_max", [&] {
      const auto* all = dense.const_data_ptr<scalar_t>();
      const auto* of = cell.const_data_ptr<std::int64_t>();
      auto* out = result.data_ptr<scalar_t>();
      auto *from = source.data_ptr<std::int64_t>(), *counted = count.data_ptr<std::int64_t>();
      at::parallel_for(0, cells, kCells, [&](std::int64_t first, std::int64_t last) {
        largest_of_cells(all, of, points, channels, first, last, out, from, counted);
        for (std::int64_t i = first; i < last; ++i) {
          if (counted[i] == 0) from[i * channels] = -1;
          out[i * (channels + 1) + channels] = static_cast<scalar_t>(std::log1p(static_cast<double>(counted[i])));
        }
      });
    });
    context->save_for_backward({source});
    context->saved_data["points"] = points;
    return result;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto source = context->get_saved_variables()[0];
    const std::int64_t channels = source.size(1), cells = source.size(0);
    const auto gradient = gradients[0].contiguous();
    const std::int64_t points = context->saved_data["points"].toInt();
    if (!gradient.is_cpu()) {
      // No point is the largest of two cells, so that nothing is added up; empty cells write to a row of their own.
      auto all = torch::zeros({points + 1, channels}, gradient.options());
      all.scatter_(0, source.masked_fill(source.lt(0), points), gradient.slice(1, 0, channels));
      return {all.slice(0, 0, points), torch::Tensor(), torch::Tensor()};
    }
    auto result = torch::zeros({points, channels}, gradient.options());
    AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "scatter_max_backward", [&] {
      const auto* sources = source.const_data_ptr<std::int64_t>();
      const auto* gradients_of = gradient.const_data_ptr<scalar_t>();
      auto* out = result.data_ptr<scalar_t>();
      // A point lies in one cell: no two of them write to the same number.
      at::parallel_for(0, cells, kCells, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) {
          const auto* from = sources + i * channels;
          if (from[0] < 0) continue;
          const auto* grad = gradients_of + i * (channels + 1);
          for (std::int64_t c = 0; c < channels; ++c) out[from[c] * channels + c] += grad[c];
        }
      });
    });
    return {result, torch::Tensor(), torch::Tensor()};
  }
};

}  // namespace

torch::Tensor scatter_max(const torch::Tensor& values, const torch::Tensor& cell, std::int64_t cells) {
  return ScatterMax::apply(values, cell, cells);
}

GroupedPoints pillar_points(const torch::Tensor& points, const torch::Tensor& point_offsets,
                            const torch::Tensor& elements, const SpaceOptions& space, double split_lag) {
  const auto grid = space.pillars();
  const auto source = points.contiguous();
  const auto* all = source.const_data_ptr<float>();
  const auto* offsets = point_offsets.const_data_ptr<std::int64_t>();
  const auto* chosen = elements.const_data_ptr<std::int64_t>();
  auto features = torch::empty({points.size(0), kPointFeatures}, torch::kFloat);
  auto cell = torch::empty({points.size(0)}, torch::kLong);
  auto* out = features.data_ptr<float>();
  auto* where = cell.data_ptr<std::int64_t>();
  const auto reach_x = static_cast<float>(2 / (space.x_max - space.x_min));
  const auto reach_y = static_cast<float>(2 / (space.y_max - space.y_min));
  const auto per_cell = static_cast<float>(1 / grid.cell());
  std::int64_t kept = 0;
  for (std::int64_t e = 0; e < elements.size(0); ++e) {
    for (std::int64_t i = offsets[chosen[e]]; i < offsets[chosen[e] + 1]; ++i) {
      const float* p = all + 5 * i;
      const auto at = grid.cell_at(p[0], p[1]);
      if (!at || !(p[2] >= space.z_min && p[2] <= space.z_max)) continue;
      const std::int64_t pillar = (e * grid.rows() + at->row) * grid.columns() + at->column;
      where[kept++] = split_lag > 0 ? 2 * pillar + (p[4] > split_lag ? 1 : 0) : pillar;
      const float height = p[2] + 1;
      *out++ = (p[0] - static_cast<float>(grid.center_x(at->column))) * per_cell;
      *out++ = (p[1] - static_cast<float>(grid.center_y(at->row))) * per_cell;
      *out++ = height;
      *out++ = 4 * height - 1;
      *out++ = 2 * p[3];
      *out++ = p[0] * reach_x;
      *out++ = p[1] * reach_y;
      *out++ = 5 * p[4];
    }
  }
  return {features.narrow(0, 0, kept), cell.narrow(0, 0, kept)};
}

PillarEncoderImpl::PillarEncoderImpl(const SpaceOptions& space, std::int64_t width, std::int64_t maps)
    : space_(space), width_(width), maps_(maps) {
  linear_ = register_module("linear", torch::nn::Linear(kPointFeatures, width));
}

torch::Tensor PillarEncoderImpl::forward(const GroupedPoints& pillars, std::int64_t clouds) {
  const auto grid = space_.pillars();
  const auto type = linear_->weight.options().requires_grad(false);
  const auto values = torch::relu(linear_->forward(pillars.features.to(type))).to(type);  // autocast may lower products
  const auto map = scatter_max(values, pillars.cell.to(values.device()), clouds * grid.keys() * maps_);
  return map.view({clouds, grid.rows(), grid.columns(), maps_ * (width_ + 1)}).permute({0, 3, 1, 2});
}

}  // namespace camber::detection
