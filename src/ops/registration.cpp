#include <torch/library.h>

// The only TORCH_LIBRARY of the project: the schemas of all operators. Absent tensors are None.
TORCH_LIBRARY(camber, m) {
  const std::string attention_arguments =
      "Tensor query, Tensor key, Tensor value, "
      "Tensor? row_offsets=None, Tensor? key_index=None, Tensor? window_value=None, "
      "Tensor? segment_offsets=None, Tensor? segment_value=None, Tensor? segment_available=None, "
      "Tensor? attn_mask=None, Tensor? blocked_mask=None, Tensor? key_padding_mask=None, Tensor? key_lengths=None, "
      "float? softmax_scale=None, float dropout=0.0, int seed=0, bool statistics=False, str implementation='auto'";
  const std::string forward = "biased_attention(" + attention_arguments +
                              ") -> (Tensor output, Tensor logsumexp, Tensor row_statistics, Tensor segment_mass)";
  m.def(forward.c_str());
  // Which implementation such a call runs, and why each better one cannot, as a sentence.
  m.def(("biased_attention_report(" + attention_arguments + ") -> str").c_str());
  // needs: for query, key, value, window_value, segment_value, attn_mask; a gradient not asked for comes back empty.
  std::string required = attention_arguments;
  for (const std::string default_value : {"=None", "=0.0", "=0", "=False", "='auto'"})
    for (auto at = required.find(default_value); at != std::string::npos; at = required.find(default_value))
      required.erase(at, default_value.size());
  const std::string backward =
      "biased_attention_backward(Tensor grad_output, Tensor? grad_logsumexp, Tensor output, Tensor logsumexp, " +
      required + ", bool[] needs) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)";
  m.def(backward.c_str());

  m.def(
      "sparse_attention(Tensor query, Tensor key, Tensor value, Tensor row_offsets, Tensor key_index, "
      "Tensor? bias=None, float? softmax_scale=None) -> (Tensor output, Tensor logsumexp)");
  // needs: for query, key, value, bias; a gradient not asked for comes back empty.
  m.def(
      "sparse_attention_backward(Tensor grad_output, Tensor output, Tensor logsumexp, Tensor query, Tensor key, "
      "Tensor value, Tensor row_offsets, Tensor key_index, Tensor? bias, float? softmax_scale, bool[] needs) "
      "-> (Tensor, Tensor, Tensor, Tensor)");

  // The number of entries depends on the contents of center and size.
  m.def("build_windows(Tensor center, Tensor size, Tensor map_shape) -> (Tensor, Tensor, Tensor, Tensor)");
  m.def("window_values(Tensor strength, Tensor profile, Tensor row_offsets, Tensor map_index) -> Tensor");
  m.def(
      "window_values_backward(Tensor grad, Tensor profile, Tensor row_offsets, Tensor map_index, int maps) -> Tensor");
}
