#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <camber/config/field.h>
#include <camber/nn/bounded_scale.h>

#include <torch/nn/module.h>

namespace camber::train {

struct ExponentialAverageOptions {
  bool enabled = false;
  double decay = 0.999;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("enabled", enabled, "keep a running average of the weights; evaluation and export use it");
    visitor("decay", decay, "share of the average that stays at each step", config::Range{0, 1});
  }
  friend bool operator==(const ExponentialAverageOptions&, const ExponentialAverageOptions&) = default;
};

/// A running average of a model's state: after update number n,
///
///   average += (1 - d) * (value - average),   d = min(decay, n / (n + 9)),
///
/// so that the first weights do not weigh for ever. Parameters and running statistics are averaged (in their own type;
/// a value that does not change stays bit for bit). What is no weight is copied: counts, the bounds and mappings of
/// scales, the clips of biases. When a scale's bounds change, its average is carried over to the new ones like its raw
/// value: raw values of a sigmoid on different bounds have no mean.
///
///   ExponentialAverage average(*model, {.enabled = true});
///   optimizer.step(); average.update();
///   { ExponentialAverage::Applied applied(average); evaluate(*model); }  // the training weights come back here
class ExponentialAverage {
 public:
  struct Entry {
    std::string name;
    torch::Tensor value;    ///< the model's own tensor
    torch::Tensor average;  ///< of the same shape and type
    bool copied = false;    ///< no weight
  };

  ExponentialAverage(torch::nn::Module& model, ExponentialAverageOptions options);

  void update();
  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }
  const std::vector<Entry>& entries() const { return entries_; }

  /// The model holds the average while this lives.
  class Applied {
   public:
    explicit Applied(ExponentialAverage& average);
    ~Applied();
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    ExponentialAverage& average_;
  };

 private:
  // A scale, with the indices of its raw value and bounds among the entries.
  struct Scale {
    nn::BoundedScale scale;
    std::size_t raw, bounds;
  };
  void carry_over(const Scale& scale);
  void exchange();

  ExponentialAverageOptions options_;
  std::vector<Entry> entries_;
  std::vector<Scale> scales_;
  std::int64_t updates_ = 0;
};

}  // namespace camber::train
