// Compiled for every instruction set, like kernel_table.cpp; CAMBER_EXP2_PROBE names the function.
#include "kernels/exp2_probe.h"

#include "kernels/exp2.h"

namespace camber::kernels::test {

void CAMBER_EXP2_PROBE(const float* x, float* y, int count) {
  for (int i = 0; i < count; i += kLanes) {
    const int left = count - i < kLanes ? count - i : kLanes;
    store_first(y + i, exp2(load_first(x + i, left)), left);
  }
}

}  // namespace camber::kernels::test
