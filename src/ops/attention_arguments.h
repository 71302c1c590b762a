#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "camber/ops/biased_attention.h"
#include "ops/argument_checks.h"

/// The flat arguments of the operator biased_attention, as its schema lists them, and what every implementation asks
/// of them. An absent tensor is undefined.
namespace camber::ops {

/// The differentiable inputs, in the order in which biased_attention_backward takes and returns them.
enum Gradient { kQuery, kKey, kValue, kWindowValue, kSegmentValue, kAttnMask, kTableValue, kGradients };
using Needs = std::array<bool, kGradients>;

struct AttentionArguments {
  at::Tensor q{}, k{}, v{};
  at::Tensor row_offsets{}, key_index{}, window_value{};
  at::Tensor segment_offsets{}, segment_value{}, segment_available{};
  at::Tensor attn_mask{}, blocked_mask{}, key_padding_mask{}, key_lengths{}, row_lengths{};
  at::Tensor table_value{}, table_index{}, query_code{}, key_code{};
  std::optional<double> softmax_scale{};
  double dropout = 0;
  std::int64_t seed = 0;
  bool statistics = false;
  std::string implementation = "auto";

  static constexpr std::size_t kTensors = 18;
  /// All tensors in the order of the schema.
  std::array<at::Tensor*, kTensors> tensors();
  std::array<const at::Tensor*, kTensors> tensors() const;
  /// The differentiable ones, in the order of `Gradient`.
  std::array<const at::Tensor*, kGradients> differentiable() const;
  /// Whether a tensor is of a Python class that watches operators, as the stand-ins of torch.compile are: it may have
  /// no contents, and an operator is for it one whole.
  bool any_of_python() const;
  /// Whether the contents can be read: plain tensors on the CPU.
  bool readable() const;

  std::int64_t batch() const { return q.size(0); }
  std::int64_t heads() const { return q.size(1); }
  std::int64_t queries() const { return q.size(2); }
  std::int64_t keys() const { return k.size(2); }
  std::int64_t segments() const { return segment_offsets.defined() ? segment_offsets.size(0) - 1 : 0; }
  double scale() const;
  /// Scores, sums and gradients are kept in float, for double inputs in double.
  at::ScalarType compute_type() const;
};

/// The row statistics in the order of the operator's tensor [6, B, H, Q].
enum Statistic { kEntropy, kLargestWeight, kSumOfSquares, kChange, kDivergence, kKeysLeft, kStatistics };

struct ForwardResult {
  at::Tensor output{}, logsumexp{};
  at::Tensor row_statistics{};  // [6, B, H, Q], or [0]
  at::Tensor segment_mass{};    // [B, H, Q, S], or [0]
};

/// What the backward operator takes beside the arguments of the forward one; grad_logsumexp may be undefined.
struct BackwardTensors {
  at::Tensor grad_output{}, grad_logsumexp{}, output{}, logsumexp{};
};

/// Shapes, dtypes and devices; safe for tensors without storage and with symbolic sizes.
void check_shapes(const AttentionArguments& arguments);
/// The same of what the backward operator takes beside the arguments of the forward one.
void check_backward_shapes(const AttentionArguments& arguments, const BackwardTensors& tensors);
/// The contents of index tensors: sorted rows, keys in range, offsets that rise. CPU tensors only.
void check_indices(const AttentionArguments& arguments);
/// The indices, and biases that cannot make a score +inf. CPU tensors only.
void check_contents(const AttentionArguments& arguments);

/// Empty results with the shapes and strides that every implementation returns: output is stored as [B, Q, H, Dv], so
/// that joining the heads afterwards costs nothing.
ForwardResult empty_results(const AttentionArguments& arguments);
/// Empty gradients: like the input where asked for, else [0]; of `type`, or the input's. Those of q, k and v lie as
/// [B, rows, H, D] where the input does, so that what projected the rows takes them without a copy.
std::array<at::Tensor, kGradients> empty_gradients(const AttentionArguments& arguments, const Needs& needs,
                                                   std::optional<at::ScalarType> type = std::nullopt);

/// Score plus bias, in any shapes that broadcast. -inf on either side wins over any other value, NaN included: what a
/// removed key holds never leaks.
at::Tensor add_bias(const at::Tensor& score, const at::Tensor& bias);

/// Bool [K]: the keys that padding, length or an absent sensor removes for batch element b; undefined where none can
/// be.
at::Tensor removed_keys(const AttentionArguments& arguments, std::int64_t b);

/// The same for the whole batch, [B, K].
at::Tensor all_removed_keys(const AttentionArguments& arguments);

/// int64 [q1-q0, K]: which entry of the table each score takes.
at::Tensor table_entries(const AttentionArguments& arguments, std::int64_t q0, std::int64_t q1);
/// [1|H, q1-q0, K] in the compute type: the table's values there.
at::Tensor table_scores(const AttentionArguments& arguments, std::int64_t q0, std::int64_t q1);

/// Bool [1|B, q1-q0, K]: the keys behind the end of each row q0 .. q1, by row_lengths.
at::Tensor beyond_row_lengths(const AttentionArguments& arguments, std::int64_t q0, std::int64_t q1);
/// The arguments with row_lengths as part of blocked_mask, for the implementations that store scores densely anyway.
AttentionArguments with_rows_blocked(const AttentionArguments& arguments);

/// Offsets as numbers of the host. Offsets of segments may lie there, whatever device q is on: a device is then not
/// waited for.
std::vector<std::int64_t> host_offsets(const at::Tensor& offsets);

/// Whether some of the inputs are not finite (-inf in a bias aside): 0 * NaN is NaN, and -inf + NaN too, so that a
/// removed key would leak what it holds unless it is kept out of the products. CPU tensors only.
bool holds_non_finite(const AttentionArguments& arguments);

/// What dropout multiplies the weights with, [H, q1-q0, K]: 0 or 1/(1-p).
at::Tensor dropout_factors(const AttentionArguments& arguments, std::int64_t b, std::int64_t q0, std::int64_t q1);

/// The two implementations in plain tensor operations. The reference is differentiable by itself.
ForwardResult reference_forward(const AttentionArguments& arguments);
ForwardResult streamed_forward(const AttentionArguments& arguments);
std::array<at::Tensor, kGradients> streamed_backward(const AttentionArguments& arguments, const at::Tensor& output,
                                                     const at::Tensor& logsumexp, const at::Tensor& grad_output,
                                                     const at::Tensor& grad_logsumexp, const Needs& needs);

/// The CPU kernels: why they cannot take a call (empty when they can), and the call itself.
std::vector<std::string> fused_obstacles(const AttentionArguments& arguments);
ForwardResult fused_forward(const AttentionArguments& arguments);
std::array<at::Tensor, kGradients> fused_backward(const AttentionArguments& arguments, const at::Tensor& output,
                                                  const at::Tensor& logsumexp, const at::Tensor& grad_output,
                                                  const at::Tensor& grad_logsumexp, const Needs& needs);

/// The operators of torch, corrected: why they cannot take a call, and the call itself with the queries of each batch
/// element that had to be recomputed (empty: none could need it).
struct CorrectedResult {
  ForwardResult result{};
  std::vector<at::Tensor> recomputed{};
};
std::vector<std::string> corrected_obstacles(const AttentionArguments& arguments);
CorrectedResult corrected_forward(const AttentionArguments& arguments);
/// `checked`: the forward pass ran under a DeferredCheck, so that no row has to be recomputed.
std::array<at::Tensor, kGradients> corrected_backward(const AttentionArguments& arguments,
                                                      const BackwardTensors& tensors, const Needs& needs, bool checked);

/// Statistics of rows of scores: z [.., K] with the bias, z0 without its finite part, bias [.., K] (0 where removed).
/// Writes [6, ..] and the mass per segment.
void row_statistics(const AttentionArguments& arguments, const at::Tensor& z, const at::Tensor& z0,
                    const at::Tensor& bias, const at::Tensor& logsumexp, const at::Tensor& statistics,
                    const at::Tensor& segment_mass);

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The tensor itself where its last dimension lies densely, else a copy that does: what the kernels can read.
at::Tensor with_unit_stride(const at::Tensor& tensor);

}  // namespace camber::ops
