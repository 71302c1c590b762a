#pragma once
#include "ops/attention_arguments.h"

namespace camber::ops {

/// Which implementation runs for these arguments, and why each better one cannot; throws where a demand cannot be met.
AttentionReport choose_implementation(const AttentionArguments& arguments);

}  // namespace camber::ops
