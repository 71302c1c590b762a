#include "camber/kernels/isa.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

#include <cpuid.h>

namespace camber::kernels {
namespace {

constexpr Isa kAll[] = {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512_bf16};

// Conversions of half: a feature that not every compiler's __builtin_cpu_supports has a name for. Asked once, because a
// virtual machine leaves its guest at every such question, for longer than a small operator takes.
bool has_f16c() {
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  }();
  return has;
}

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return "scalar";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_bf16:
      return "avx512_bf16";
  }
  return "unknown";
}

bool isa_supported(Isa isa) {
#ifdef CAMBER_EMULATED_AVX512  // the tests' build of these kernels from portable intrinsics
  return isa == Isa::avx512 || isa == Isa::avx512_bf16;
#endif
  __builtin_cpu_init();
  // The features imply that the operating system saves the registers: the compiler's runtime checks that too.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  switch (isa) {
    case Isa::scalar:
      return true;
    case Isa::avx2:
      return avx2;
    case Isa::avx512:
      return avx512;
    case Isa::avx512_bf16:
      return avx512 && __builtin_cpu_supports("avx512bf16");
  }
  return false;
}

Isa chosen_isa() {
  const char* forced = std::getenv("CAMBER_ISA");
  if (forced == nullptr || *forced == '\0') {
    Isa richest = Isa::scalar;
    for (const Isa isa : kAll)
      if (isa_supported(isa)) richest = isa;
    return richest;
  }
  for (const Isa isa : kAll) {
    if (std::string(forced) != isa_name(isa)) continue;
    if (!isa_supported(isa))
      throw std::invalid_argument("[biased_attention] CAMBER_ISA must name an instruction set of this CPU, got " +
                                  std::string(forced) + ", which it does not have");
    return isa;
  }
  throw std::invalid_argument("[biased_attention] CAMBER_ISA must be scalar, avx2, avx512 or avx512_bf16, got " +
                              std::string(forced));
}

}  // namespace camber::kernels
