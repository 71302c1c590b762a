#include "detection/normed_convolution.h"

#include <ATen/Context.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace camber::detection {
namespace {

using Scalars = c10::List<std::optional<at::Scalar>>;
using ConvolutionPointwise = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                        at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, std::int64_t,
                                        std::string_view, Scalars, std::optional<std::string_view>);
using ConvolutionAdded = at::Tensor&(at::Tensor&, const at::Tensor&, const at::Tensor&,
                                     const std::optional<at::Tensor>&, at::IntArrayRef, at::IntArrayRef,
                                     at::IntArrayRef, std::int64_t, std::string_view, std::optional<at::Scalar>,
                                     std::optional<std::string_view>, Scalars, std::optional<std::string_view>);

// oneDNN's convolutions as torch registers them: with an activation, and with a sum into a given tensor before it.
struct OneDnn {
  c10::TypedOperatorHandle<ConvolutionPointwise> plain;
  c10::TypedOperatorHandle<ConvolutionAdded> added;
};

// None in a torch that was built without.
const std::optional<OneDnn>& onednn() {
  static const auto operators = []() -> std::optional<OneDnn> {
    auto& dispatcher = c10::Dispatcher::singleton();
    const auto plain = dispatcher.findSchema({"mkldnn::_convolution_pointwise", ""});
    const auto added = dispatcher.findSchema({"mkldnn::_convolution_pointwise_", "binary"});
    if (!plain || !added || !at::hasMKLDNN()) return std::nullopt;
    return OneDnn{plain->typed<ConvolutionPointwise>(), added->typed<ConvolutionAdded>()};
  }();
  return operators;
}

bool onednn_takes(const torch::Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == torch::kFloat || x.scalar_type() == torch::kBFloat16) &&
         at::globalContext().userEnabledMkldnn() && onednn().has_value();
}

torch::Tensor channels_last(const torch::Tensor& map) {
  return map.contiguous(torch::MemoryFormat::ChannelsLast);
}

// One number an output channel, shaped to multiply a weight.
torch::Tensor along(const torch::Tensor& values, const torch::Tensor& weight, std::int64_t outputs) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(weight.dim()), 1);
  shape[static_cast<std::size_t>(outputs)] = -1;
  return values.view(shape);
}

torch::Tensor fused(const FoldedNorm::Layer& layer, const torch::nn::detail::ConvNdOptions<2>& conv,
                    const torch::Tensor& x, const NormedConvolution::Options& options) {
  const bool relu = options.activation == Activation::kRelu;
  const auto padding = *std::get_if<torch::ExpandingArray<2>>(&conv.padding());
  if (!onednn_takes(x)) {
    auto result = torch::conv2d(x, layer.weight, layer.bias, conv.stride(), padding, conv.dilation(), conv.groups());
    if (options.added.defined()) result += options.added;
    return relu ? result.relu_() : result;
  }
  const auto bias = layer.bias.defined() ? std::optional<at::Tensor>(layer.bias) : std::nullopt;
  if (!options.added.defined())
    return onednn()->plain.call(x, layer.weight, bias, padding, conv.stride(), conv.dilation(), conv.groups(),
                                relu ? "relu" : "none", Scalars(), std::nullopt);
  auto sum = channels_last(options.added);
  if (!options.overwrite_added && sum.is_same(options.added)) sum = sum.clone();
  onednn()->added.call(sum, x, layer.weight, bias, padding, conv.stride(), conv.dilation(), conv.groups(), "add",
                       std::nullopt, relu ? std::optional<std::string_view>("relu") : std::nullopt, Scalars(),
                       std::nullopt);
  return sum;
}

}  // namespace

FoldedNorm::Stamp FoldedNorm::stamp_of(const torch::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const std::int64_t version = tensor.is_inference() ? 0 : static_cast<std::int64_t>(tensor._version());
  return {tensor.const_data_ptr(), version, tensor.scalar_type()};
}

FoldedNorm::Layer FoldedNorm::get(const torch::Tensor& weight, const torch::Tensor& bias, const NormTensors& norm,
                                  std::int64_t outputs, torch::ScalarType type) {
  const std::lock_guard lock(mutex_);
  const std::array<Stamp, 7> stamps = {stamp_of(weight),    stamp_of(bias),      stamp_of(norm.weight),
                                       stamp_of(norm.bias), stamp_of(norm.mean), stamp_of(norm.variance),
                                       stamp_of(norm.steps)};
  const auto untracked = [](const torch::Tensor& t) { return t.defined() && t.is_inference(); };
  // Tensors of inference mode have no version: what was folded from them is not kept.
  const bool known = !untracked(weight) && !untracked(norm.weight) && !untracked(norm.mean);
  if (known && kept_ && kept_->weight.scalar_type() == type && stamps == stamps_) return *kept_;
  const torch::NoGradGuard guard;
  auto folded = weight.detach(), offset = bias.defined() ? bias.detach() : torch::Tensor{};
  if (norm.mean.defined()) {
    const auto exact = [](const torch::Tensor& t) { return t.detach().to(torch::kDouble); };
    const auto factor = exact(norm.weight) / torch::sqrt(exact(norm.variance) + norm.epsilon);
    const auto shift = offset.defined() ? exact(offset) - exact(norm.mean) : -exact(norm.mean);
    folded = exact(folded) * along(factor, folded, outputs);
    offset = factor * shift + exact(norm.bias);
  }
  if (folded.dim() == 4) folded = folded.contiguous(torch::MemoryFormat::ChannelsLast);
  kept_ = Layer{folded.to(type), offset.defined() ? offset.to(type) : offset};
  stamps_ = stamps;
  return *kept_;
}

torch::Tensor NormedConvolution::operator()(torch::nn::Conv2dImpl& convolution, nn::BatchNorm2dImpl& norm,
                                            const torch::Tensor& x, const Options& options) {
  if (in_inference(convolution) && in_inference(norm))
    return fused(folded_.get(convolution.weight, convolution.bias, NormTensors::of(norm), 0, x.scalar_type()),
                 convolution.options, channels_last(x), options);
  auto result = norm.forward(convolution.forward(x));
  if (options.added.defined()) result = result + options.added;
  return options.activation == Activation::kRelu ? result.relu_() : result;
}

torch::Tensor NormedConvolution::operator()(torch::nn::ConvTranspose2dImpl& convolution, nn::BatchNorm2dImpl& norm,
                                            const torch::Tensor& x) {
  if (!in_inference(convolution) || !in_inference(norm)) return norm.forward(convolution.forward(x)).relu_();
  const auto& options = convolution.options;
  const auto layer = folded_.get(convolution.weight, convolution.bias, NormTensors::of(norm), 1, x.scalar_type());
  return torch::conv_transpose2d(channels_last(x), layer.weight, layer.bias, options.stride(),
                                 *std::get_if<torch::ExpandingArray<2>>(&options.padding()), options.output_padding(),
                                 options.groups(), options.dilation())
      .relu_();
}

torch::Tensor NormedConvolution::operator()(torch::nn::Conv2dImpl& convolution, const torch::Tensor& x) {
  if (!in_inference(convolution)) return convolution.forward(x);
  return fused(folded_.get(convolution.weight, convolution.bias, {}, 0, x.scalar_type()), convolution.options,
               channels_last(x), {.activation = Activation::kNone});
}

}  // namespace camber::detection
