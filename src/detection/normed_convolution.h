#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include "camber/nn/batch_norm.h"

namespace camber::detection {

/// Whether a module runs in its inference form: in evaluation mode, and nobody asks for gradients.
inline bool in_inference(const torch::nn::Module& module) {
  return !module.is_training() && !torch::GradMode::is_enabled();
}

/// What a batch norm holds; undefined: there is none.
struct NormTensors {
  torch::Tensor weight{}, bias{}, mean{}, variance{};
  torch::Tensor steps{};  // counts training steps, which write to mean and variance without a trace in their versions
  double epsilon = 0;

  template <class Norm>
  static NormTensors of(const Norm& norm) {
    return {norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.num_batches_tracked, norm.options.eps()};
  }
};

/// Weight and offset of a convolution with the norm behind it folded in. With a = weight_n / sqrt(variance + epsilon)
/// of every output channel
///
///   norm(W x + b) = (a W) x + (a (b - mean) + bias_n),
///
/// computed in double and rounded once to `type`. They are kept beside the parameters until one of those is written to,
/// replaced or asked for in another type; parameters, state and export know nothing of them. For many threads.
class FoldedNorm {
 public:
  struct Layer {
    torch::Tensor weight{}, bias{};
  };
  /// `outputs`: which dimension of the weight counts output channels.
  Layer get(const torch::Tensor& weight, const torch::Tensor& bias, const NormTensors& norm, std::int64_t outputs,
            torch::ScalarType type);

 private:
  // Says whether a tensor is what it was: a write changes the version, a replacement the address or the type.
  struct Stamp {
    const void* data = nullptr;
    std::int64_t version = 0;
    torch::ScalarType type = torch::ScalarType::Undefined;
    bool operator==(const Stamp&) const = default;
  };
  static Stamp stamp_of(const torch::Tensor& tensor);

  std::mutex mutex_;
  std::array<Stamp, 7> stamps_{};
  std::optional<Layer> kept_;
};

enum class Activation { kNone, kRelu };

/// activation(norm(convolution(x)) + added) of modules that others own and register. Where nobody asks for a gradient
/// and both are in evaluation mode, the folded form runs, channels last and in the type of x, as one call of oneDNN's
/// kernels where torch has them; else one after the other, as they are.
///
///   return layer_(*conv_, *norm_, x, {.added = identity});
class NormedConvolution {
 public:
  struct Options {
    Activation activation = Activation::kRelu;
    torch::Tensor added{};         // as large as the output
    bool overwrite_added = false;  // the output may take its memory
  };
  torch::Tensor operator()(torch::nn::Conv2dImpl& convolution, nn::BatchNorm2dImpl& norm, const torch::Tensor& x,
                           const Options& options);
  torch::Tensor operator()(torch::nn::Conv2dImpl& convolution, nn::BatchNorm2dImpl& norm, const torch::Tensor& x) {
    return (*this)(convolution, norm, x, Options{});
  }
  torch::Tensor operator()(torch::nn::ConvTranspose2dImpl& convolution, nn::BatchNorm2dImpl& norm,
                           const torch::Tensor& x);
  /// A convolution without a norm or activation.
  torch::Tensor operator()(torch::nn::Conv2dImpl& convolution, const torch::Tensor& x);

 private:
  FoldedNorm folded_;
};

}  // namespace camber::detection
