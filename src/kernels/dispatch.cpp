#include "kernels/dispatch.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "camber/kernels/limits.h"

namespace camber::kernels {

std::vector<std::string> size_obstacles(const AttentionProblem& problem) {
  std::vector<std::string> obstacles;
  for (const auto& [name, width] : {std::pair{"head", problem.key_width}, std::pair{"value", problem.value_width}})
    if (width < 1 || width > kLargestWidth)
      obstacles.push_back(std::string("the ") + name + " dimension is " + std::to_string(width) +
                          ", the kernels take 1 to " + std::to_string(kLargestWidth));
  if (problem.keys > INT32_MAX)
    obstacles.push_back("there are " + std::to_string(problem.keys) + " keys, the kernels take fewer than 2^31");
  return obstacles;
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
  if (const auto obstacles = size_obstacles(problem); !obstacles.empty())
    throw std::invalid_argument("[biased_attention] " + obstacles.front());
  return kernels_of(isa);
}

}  // namespace camber::kernels
