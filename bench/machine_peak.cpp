#include "machine_peak.h"

#include <chrono>
#include <thread>
#include <vector>

#include "kernels/isa.h"

namespace camber::bench {
namespace {

// Twelve independent chains hide the latency; two registers are read, one is added to.
#define CAMBER_CHAINS(operation, registers)                                                         \
  operation registers "0\n" operation registers "1\n" operation registers "2\n" operation registers \
                      "3\n" operation registers "4\n" operation registers "5\n" operation registers \
                      "6\n" operation registers "7\n" operation registers "8\n" operation registers \
                      "9\n" operation registers "10\n" operation registers "11\n"
#define CAMBER_CLOBBERS                                                                                               \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm14", "xmm15", \
      "cc"

constexpr std::int64_t kChains = 12;

void fma_256(std::int64_t turns) {
  asm volatile("1:\n" CAMBER_CHAINS("vfmadd231ps ", "%%ymm14, %%ymm15, %%ymm") "dec %0\njnz 1b\nvzeroupper"
               : "+r"(turns)
               :
               : CAMBER_CLOBBERS);
}
void fma_512(std::int64_t turns) {
  asm volatile("1:\n" CAMBER_CHAINS("vfmadd231ps ", "%%zmm14, %%zmm15, %%zmm") "dec %0\njnz 1b\nvzeroupper"
               : "+r"(turns)
               :
               : CAMBER_CLOBBERS);
}
void bfloat16_512(std::int64_t turns) {
  asm volatile("1:\n" CAMBER_CHAINS("vdpbf16ps ", "%%zmm14, %%zmm15, %%zmm") "dec %0\njnz 1b\nvzeroupper"
               : "+r"(turns)
               :
               : CAMBER_CLOBBERS);
}
void scalar_multiply_add(std::int64_t turns) {
  asm volatile("1:\n" CAMBER_CHAINS("mulps ", "%%xmm14, %%xmm") "dec %0\njnz 1b" : "+r"(turns) : : CAMBER_CLOBBERS);
}

// GFLOP/s of all threads, each turn doing `flops` operations.
double rate(void (*loop)(std::int64_t), int threads, double flops) {
  constexpr std::int64_t kTurns = 400000;
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> running;
  for (int t = 1; t < threads; ++t) running.emplace_back(loop, kTurns);
  loop(kTurns);
  for (std::thread& thread : running) thread.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return threads * static_cast<double>(kTurns) * flops / seconds * 1e-9;
}

}  // namespace

double fma_peak(int threads) {
  if (kernels::isa_supported(kernels::Isa::avx512)) return rate(fma_512, threads, kChains * 16 * 2);
  if (kernels::isa_supported(kernels::Isa::avx2)) return rate(fma_256, threads, kChains * 8 * 2);
  return rate(scalar_multiply_add, threads, kChains * 4);
}

double bfloat16_peak(int threads) {
  if (!kernels::isa_supported(kernels::Isa::avx512_bf16)) return 0;
  return rate(bfloat16_512, threads, kChains * 32 * 2);
}

}  // namespace camber::bench
