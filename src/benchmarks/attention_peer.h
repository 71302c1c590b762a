#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "camber/benchmarks/attention.h"

namespace camber::benchmarks {

/// Something that is timed. Its inputs are made once and shared; `ready` makes it ready to run.
struct Peer {
  std::string name{}, pass{}, compared_with{};
  double gflop = 0;       ///< counted work of one run
  bool bfloat16 = false;  ///< measured against the peak of bfloat16 dot products

  /// A run that is ready: `before` does what is not timed (the forward pass of a backward one), `run` returns the bytes
  /// of its outputs, which it keeps until `release`.
  struct Run {
    std::function<void()> before{};
    std::function<std::int64_t()> run{};
    std::function<void()> release{};
  };
  std::function<Run()> ready{};
};

/// Everything that can be timed at these sizes, in the order of the table. Inputs are made when first needed.
std::vector<Peer> attention_peers(const AttentionBenchOptions& options);

/// Throws std::runtime_error when peers of the same work disagree in their outputs.
void check_agreement(const AttentionBenchOptions& options);

/// Sets torch's number of threads and returns the one in force; 0 leaves it.
std::int64_t set_threads(std::int64_t threads);

/// The processor's model as the system names it.
std::string processor_name();

/// torch's version, the instruction set it dispatches to, and which implementation of ours runs at these sizes.
std::string torch_version();
std::string torch_capability();
std::string implementation_sentence(const AttentionBenchOptions& options);

}  // namespace camber::benchmarks
