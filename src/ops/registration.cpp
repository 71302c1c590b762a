#include <string>
#include <vector>

#include <torch/library.h>

namespace {

struct Argument {
  std::string type, name, default_value{};
};
using Arguments = std::vector<Argument>;

// What both directions of an operator take.
const Arguments kBiasedAttention{{"Tensor", "query"},
                                 {"Tensor", "key"},
                                 {"Tensor", "value"},
                                 {"Tensor?", "row_offsets", "None"},
                                 {"Tensor?", "key_index", "None"},
                                 {"Tensor?", "window_value", "None"},
                                 {"Tensor?", "segment_offsets", "None"},
                                 {"Tensor?", "segment_value", "None"},
                                 {"Tensor?", "segment_available", "None"},
                                 {"Tensor?", "attn_mask", "None"},
                                 {"Tensor?", "blocked_mask", "None"},
                                 {"Tensor?", "key_padding_mask", "None"},
                                 {"Tensor?", "key_lengths", "None"},
                                 {"Tensor?", "row_lengths", "None"},
                                 {"Tensor?", "table_value", "None"},
                                 {"Tensor?", "table_index", "None"},
                                 {"Tensor?", "query_code", "None"},
                                 {"Tensor?", "key_code", "None"},
                                 {"float?", "softmax_scale", "None"},
                                 {"float", "dropout", "0.0"},
                                 {"int", "seed", "0"},
                                 {"bool", "statistics", "False"},
                                 {"str", "implementation", "'auto'"}};
const Arguments kSparseAttention{{"Tensor", "query"},
                                 {"Tensor", "key"},
                                 {"Tensor", "value"},
                                 {"Tensor", "row_offsets"},
                                 {"Tensor", "key_index"},
                                 {"Tensor?", "bias", "None"},
                                 {"float?", "softmax_scale", "None"}};
const Arguments kWindowEntries{{"Tensor", "query"},       {"Tensor", "key"},       {"Tensor", "value"},
                               {"Tensor", "row_offsets"}, {"Tensor", "key_index"}, {"Tensor", "window_value"},
                               {"Tensor?", "shift"}};
const Arguments kSparseConvolution{
    {"Tensor", "features"}, {"Tensor", "weight"}, {"Tensor[]", "pairs"}, {"SymInt", "outputs"}};

std::string listed(const Arguments& arguments, bool with_defaults) {
  std::string text;
  for (const Argument& argument : arguments) {
    text += (text.empty() ? "" : ", ") + argument.type + " " + argument.name;
    if (with_defaults && !argument.default_value.empty()) text += "=" + argument.default_value;
  }
  return text;
}

std::string forward_schema(const std::string& name, const Arguments& arguments, const std::string& results) {
  return name + "(" + listed(arguments, true) + ") -> " + results;
}

// Before the forward's arguments what it gave and what flows back, behind them which gradients are needed: for the
// differentiable inputs in their order. A gradient not asked for comes back empty.
std::string backward_schema(const std::string& name, const Arguments& saved, const Arguments& arguments,
                            const std::string& results) {
  return name + "_backward(" + listed(saved, false) + ", " + listed(arguments, false) + ", bool[] needs) -> " + results;
}

}  // namespace

// The only TORCH_LIBRARY of the project: the schemas of all operators. Absent tensors are None.
TORCH_LIBRARY(camber, m) {
  const auto define = [&m](const std::string& schema) { m.def(schema.c_str()); };
  define(forward_schema("biased_attention", kBiasedAttention,
                        "(Tensor output, Tensor logsumexp, Tensor row_statistics, Tensor segment_mass)"));
  // Which implementation such a call runs, and why each better one cannot, as a sentence.
  define(forward_schema("biased_attention_report", kBiasedAttention, "str"));
  define(backward_schema(
      "biased_attention",
      {{"Tensor", "grad_output"}, {"Tensor?", "grad_logsumexp"}, {"Tensor", "output"}, {"Tensor", "logsumexp"}},
      kBiasedAttention, "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"));
  define(forward_schema("sparse_attention", kSparseAttention, "(Tensor output, Tensor logsumexp)"));
  define(backward_schema("sparse_attention", {{"Tensor", "grad_output"}, {"Tensor", "output"}, {"Tensor", "logsumexp"}},
                         kSparseAttention, "(Tensor, Tensor, Tensor, Tensor)"));

  // The numbers of sites and pairs depend on the coordinates.
  m.def(
      "build_sparse_indices(Tensor coordinates, int[] spatial_shape, int batch, int[] kernel, int[] stride, "
      "int[] padding, int[] dilation, bool submanifold) -> "
      "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
  define(forward_schema("sparse_convolution", kSparseConvolution, "Tensor"));
  define(backward_schema("sparse_convolution", {{"Tensor", "grad_output"}}, kSparseConvolution, "(Tensor, Tensor)"));

  // The sparse part of `corrected` on a device that brings kernels of its own for it (window_correction.cpp); without
  // any, plain tensor operations do it. Nobody else calls them.
  define("correct_windows(" + listed(kWindowEntries, false) +
         ", Tensor? output, Tensor logsumexp, float scale) -> (Tensor output, Tensor logsumexp, Tensor total)");
  define("correct_windows_backward(" + listed(kWindowEntries, false) +
         ", Tensor grad_output, Tensor? grad_logsumexp, Tensor output, Tensor logsumexp, float scale) -> "
         "(Tensor, Tensor, Tensor, Tensor, Tensor)");

  // The number of entries depends on the contents of center and size.
  m.def("build_windows(Tensor center, Tensor size, Tensor map_shape) -> (Tensor, Tensor, Tensor, Tensor)");
  m.def("window_values(Tensor strength, Tensor profile, Tensor row_offsets, Tensor map_index) -> Tensor");
  m.def(
      "window_values_backward(Tensor grad, Tensor profile, Tensor row_offsets, Tensor map_index, int maps) -> Tensor");
}
