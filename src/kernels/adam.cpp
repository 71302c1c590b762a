#include "camber/kernels/adam.h"

#include "kernels/dispatch.h"

namespace camber::kernels {

void adam_step(const AdamStep& step, const AdamNumbers& numbers, Isa isa) {
  kernels_of(isa).adam_step(step, numbers);
}

}  // namespace camber::kernels
