#pragma once
#include <cstdint>

namespace camber::kernels {

/// Instruction sets the kernels are compiled for, from the plainest to the richest.
/// avx512 stands for F, BW, DQ and VL; avx512_bf16 adds the bfloat16 dot products.
enum class Isa : std::uint8_t { scalar, avx2, avx512, avx512_bf16 };

/// "scalar", "avx2", "avx512", "avx512_bf16".
const char* isa_name(Isa isa);

/// Whether this CPU (and operating system) can run it.
bool isa_supported(Isa isa);

/// The richest supported instruction set, or the one that the environment variable CAMBER_ISA names.
/// A name that is unknown, or that this CPU does not support, is a std::invalid_argument.
Isa chosen_isa();

}  // namespace camber::kernels
