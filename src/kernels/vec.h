#pragma once
// The vector type of the instruction set that this file is compiled for. Only kernel_table.cpp and the headers it
// includes may use it: everything is in anonymous namespaces, so that no code for a richer CPU is ever shared.
#if defined(__AVX512F__) || defined(CAMBER_EMULATED_AVX512)
#include "kernels/vec_avx512.h"
#elif defined(__AVX2__)
#include "kernels/vec_avx2.h"
#else
#include "kernels/vec_scalar.h"
#endif
