#include "kernels/dispatch.h"

#include <stdexcept>
#include <string>

namespace camber::kernels {

const char* unsupported_reason(const AttentionProblem& problem) {
  if (problem.key_width < 1 || problem.key_width > kLargestWidth)
    return "[biased_attention] the width of q and k must be 1 to 256 for the fused kernels";
  if (problem.value_width < 1 || problem.value_width > kLargestWidth)
    return "[biased_attention] the width of v must be 1 to 256 for the fused kernels";
  if (problem.keys > INT32_MAX) return "[biased_attention] keys must be fewer than 2^31 for the fused kernels";
  return nullptr;
}

const KernelTable& kernels_of(Isa isa) {
  if (!isa_supported(isa))
    throw std::invalid_argument(std::string("[biased_attention] isa must be supported by this CPU, got ") +
                                isa_name(isa));
  switch (isa) {
    case Isa::avx2:
      return avx2_kernels();
    case Isa::avx512:
      return avx512_kernels();
    case Isa::avx512_bf16:
      return avx512_bf16_kernels();
    case Isa::scalar:
      break;
  }
  return scalar_kernels();
}

const KernelTable& kernels_for(const AttentionProblem& problem, Isa isa) {
  if (const char* reason = unsupported_reason(problem)) throw std::invalid_argument(reason);
  return kernels_of(isa);
}

}  // namespace camber::kernels
