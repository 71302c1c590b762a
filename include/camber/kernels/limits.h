#pragma once
#include <string>
#include <vector>

#include "camber/kernels/attention.h"

namespace camber::kernels {

/// The sizes of a problem that the kernels cannot take, a clause each; empty when they can. The one statement of their
/// limits. (Apart from attention.h: code for one instruction set must not hold templates that others share.)
std::vector<std::string> size_obstacles(const AttentionProblem& problem);

}  // namespace camber::kernels
