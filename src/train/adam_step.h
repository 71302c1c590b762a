#pragma once
#include <torch/optim/optimizer.h>

namespace camber::train {

/// What optimizer.step() does, for torch's Adam and AdamW without amsgrad whose parameters are float on the CPU: one
/// pass over the memory of all parameters, on all threads, instead of a dozen tensor operations for each. Its state is
/// torch's. Of any other optimiser nothing is touched, and the answer is false.
bool step_adam(torch::optim::Optimizer& optimizer);

}  // namespace camber::train
