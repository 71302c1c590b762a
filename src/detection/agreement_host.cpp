#include "detection/agreement_host.h"

#include <algorithm>
#include <cmath>

#include <ATen/core/LegacyTypeDispatch.h>

namespace camber::detection {
namespace {

// The larger; a number that is none wins, as in torch.
double larger(double a, double b) {
  return b > a || std::isnan(b) ? b : a;
}

// Of N = V + 1 views (each camera with the LiDAR, then all together): which places count, and both heats at them.
// Places lie innermost, as in the tensor operations, so that torch adds them up in the same order.
class Views {
 public:
  Views(std::int64_t cameras, std::int64_t batch, std::int64_t classes, std::int64_t places)
      : cameras_(cameras), batch_(batch), classes_(classes), places_(places) {
    const auto size = static_cast<std::size_t>(batch * classes * places);
    lidar_.assign(size, 0);
    camera_.assign(static_cast<std::size_t>(cameras + 1) * size, -1);
    counts_.assign(static_cast<std::size_t>((cameras + 1) * batch * places), 0);
  }

  double* lidar(std::int64_t b, std::int64_t c) { return &lidar_[at(b, c)]; }
  double* camera(std::int64_t n, std::int64_t b, std::int64_t c) {
    return &camera_[static_cast<std::size_t>(n * batch_ * classes_ * places_) + at(b, c)];
  }
  char* counts(std::int64_t n, std::int64_t b) {
    return &counts_[static_cast<std::size_t>((n * batch_ + b) * places_)];
  }

  void place(const nn::QueryProjection& places);
  void heat(const torch::Tensor& logits, const geometry::KeyMap& map, const nn::QueryProjection& places,
            std::int64_t m);
  void join();
  SensorAgreement agreement();

 private:
  std::size_t at(std::int64_t b, std::int64_t c) const {
    return static_cast<std::size_t>((b * classes_ + c) * places_);
  }
  torch::Tensor by_class();
  double over_classes(std::int64_t n, std::int64_t b, const double* by_class, double sum);
  bool sound(std::int64_t n, std::int64_t b);

  std::int64_t cameras_, batch_, classes_, places_;
  std::vector<double> lidar_, camera_;  // [B, C, Q], [V + 1, B, C, Q]
  std::vector<char> counts_;            // [V + 1, B, Q]
};

// A place counts for a camera where both see it, and for all where any camera does.
void Views::place(const nn::QueryProjection& places) {
  const auto seen = places.seen.contiguous();
  const bool* sees = seen.const_data_ptr<bool>();
  for (std::int64_t b = 0; b < batch_; ++b)
    for (std::int64_t q = 0; q < places_; ++q, sees += cameras_ + 1)
      for (std::int64_t v = 0; v < cameras_; ++v)
        if (sees[0] && sees[v + 1]) counts(v, b)[q] = counts(cameras_, b)[q] = 1;
}

// Largest heat of the 3 x 3 cells round the places of map m; elsewhere numbers that do not count.
void Views::heat(const torch::Tensor& logits, const geometry::KeyMap& map, const nn::QueryProjection& places,
                 std::int64_t m) {
  const auto heat = torch::sigmoid(logits.to(torch::kDouble)).contiguous();  // [B, keys, C]
  const auto cells = places.cell.contiguous();
  const std::int64_t* cell = cells.const_data_ptr<std::int64_t>() + 2 * m;
  for (std::int64_t b = 0; b < batch_; ++b) {
    const double* own = heat.const_data_ptr<double>() + b * map.keys() * classes_;
    for (std::int64_t q = 0; q < places_; ++q, cell += 2 * (cameras_ + 1)) {
      const std::int64_t column = cell[0], row = cell[1];
      if (column < 0 || !counts(m == 0 ? cameras_ : m - 1, b)[q]) continue;
      const std::int64_t left = std::max<std::int64_t>(0, column - 1), right = std::min(map.columns - 1, column + 1);
      const std::int64_t top = std::max<std::int64_t>(0, row - 1), bottom = std::min(map.rows - 1, row + 1);
      for (std::int64_t c = 0; c < classes_; ++c) {
        double largest = -1;
        for (std::int64_t y = top; y <= bottom; ++y)
          for (std::int64_t x = left; x <= right; ++x)
            largest = larger(largest, own[(y * map.columns + x) * classes_ + c]);
        (m == 0 ? lidar(b, c) : camera(m - 1, b, c))[q] = largest;
      }
    }
  }
}

void Views::join() {
  for (std::int64_t v = 0; v < cameras_; ++v)
    for (std::int64_t b = 0; b < batch_; ++b)
      for (std::int64_t c = 0; c < classes_; ++c) {
        const char* counted = counts(v, b);
        const double* here = camera(v, b, c);
        double* all = camera(cameras_, b, c);
        for (std::int64_t q = 0; q < places_; ++q)
          if (counted[q]) all[q] = larger(all[q], here[q]);
      }
}

bool Views::sound(std::int64_t n, std::int64_t b) {
  const char* counted = counts(n, b);
  for (std::int64_t c = 0; c < classes_; ++c)
    for (std::int64_t q = 0; q < places_; ++q)
      if (counted[q] && (std::isnan(lidar(b, c)[q]) || std::isnan(camera(n, b, c)[q]))) return false;
  return true;
}

// Correlations [V + 1, B, C]; NaN where they are not known.
torch::Tensor Views::by_class() {
  const auto options = torch::TensorOptions(torch::kDouble);
  const std::int64_t views = cameras_ + 1, rows = views * batch_ * classes_;
  const auto values = torch::empty({2, rows, places_}, options), products = torch::empty({3, rows, places_}, options);
  auto* value = values.mutable_data_ptr<double>();
  auto* product = products.mutable_data_ptr<double>();
  const auto each = [&](auto&& action) {
    std::int64_t row = 0;
    for (std::int64_t n = 0; n < views; ++n)
      for (std::int64_t b = 0; b < batch_; ++b)
        for (std::int64_t c = 0; c < classes_; ++c, ++row) action(row, counts(n, b), lidar(b, c), camera(n, b, c));
  };
  each([&](std::int64_t row, const char* counted, const double* a, const double* b) {
    double *first = value + row * places_, *second = value + (rows + row) * places_;
    for (std::int64_t q = 0; q < places_; ++q) {
      first[q] = counted[q] ? a[q] : 0;
      second[q] = counted[q] ? b[q] : 0;
    }
  });
  const auto sums = values.sum(2);
  const auto* sum = sums.const_data_ptr<double>();
  each([&](std::int64_t row, const char* counted, const double* a, const double* b) {
    const double number = std::max<double>(1, static_cast<double>(std::count(counted, counted + places_, 1)));
    const double mean_a = sum[row] / number, mean_b = sum[rows + row] / number;
    double* out = product + row * places_;
    const std::int64_t next = rows * places_;
    for (std::int64_t q = 0; q < places_; ++q) {
      const double x = counted[q] ? a[q] - mean_a : 0, y = counted[q] ? b[q] - mean_b : 0;
      out[q] = x * x;
      out[next + q] = y * y;
      out[2 * next + q] = x * y;
    }
  });
  const auto moments = products.sum(2);
  const auto* moment = moments.const_data_ptr<double>();
  auto result = torch::empty({views, batch_, classes_}, options);
  auto* r = result.mutable_data_ptr<double>();
  for (std::int64_t row = 0; row < rows; ++row) r[row] = moment[row] * moment[rows + row];
  result.sqrt_();  // not std::sqrt: torch's may round its last bit otherwise
  each([&](std::int64_t row, const char* counted, const double* a, const double* b) {
    double hottest = 0;
    for (std::int64_t q = 0; q < places_; ++q)
      if (counted[q]) hottest = larger(hottest, larger(a[q], b[q]));
    const bool known = std::count(counted, counted + places_, 1) >= kFewestPlaces && hottest >= kObjectHeat;
    r[row] = !known ? kNotKnown : r[row] <= kConstantHeat ? 0 : moment[2 * rows + row] / r[row];
  });
  return result;
}

// The mean over the classes that are known, of a sum that torch has made.
double Views::over_classes(std::int64_t n, std::int64_t b, const double* by_class, double sum) {
  if (!sound(n, b)) return kNotKnown;
  const auto known = classes_ - std::count_if(by_class, by_class + classes_, [](double r) { return std::isnan(r); });
  return sum / static_cast<double>(known);
}

SensorAgreement Views::agreement() {
  const auto correlations = by_class(), sums = correlations.nansum(2);
  const auto *r = correlations.const_data_ptr<double>(), *sum = sums.const_data_ptr<double>();
  SensorAgreement agreement{.frame = torch::empty({batch_}, correlations.options()),
                            .by_class = torch::empty({batch_, classes_}, correlations.options()),
                            .cameras = torch::empty({batch_, cameras_}, correlations.options())};
  auto *frame = agreement.frame.mutable_data_ptr<double>(), *cameras = agreement.cameras.mutable_data_ptr<double>();
  for (std::int64_t n = 0; n <= cameras_; ++n)
    for (std::int64_t b = 0; b < batch_; ++b) {
      const std::int64_t at = n * batch_ + b;
      (n < cameras_ ? cameras[b * cameras_ + n] : frame[b]) = over_classes(n, b, r + at * classes_, sum[at]);
    }
  std::copy_n(r + cameras_ * batch_ * classes_, batch_ * classes_, agreement.by_class.mutable_data_ptr<double>());
  return agreement;
}

}  // namespace

SensorAgreement agreement_on_host(const torch::Tensor& grid_logits, const torch::Tensor& camera_logits,
                                  const nn::QueryProjection& places, const nn::SensorScene& scene) {
  const at::AutoDispatchBelowADInplaceOrView no_graph;  // of so few numbers what calls cost is what they cost
  const auto layout = scene.layout();
  const auto cameras = static_cast<std::int64_t>(layout.maps.size()) - 1;
  const std::int64_t grid_keys = layout.maps[0].keys();
  Views views(cameras, grid_logits.size(0), grid_logits.size(2), places.seen.size(1));
  views.place(places);
  views.heat(grid_logits, layout.maps[0], places, 0);
  for (std::int64_t v = 0; v < cameras; ++v) {
    const auto& map = layout.maps[static_cast<std::size_t>(v + 1)];
    views.heat(camera_logits.narrow(1, map.first_key - grid_keys, map.keys()), map, places, v + 1);
  }
  views.join();
  return views.agreement();
}

}  // namespace camber::detection
