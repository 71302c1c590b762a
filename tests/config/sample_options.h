#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "camber/config/field.h"

// A struct with every kind of field, as the tests of this room use it.
namespace camber::config::sample {

enum class Optimizer { kSgd, kAdam, kAdamW };

struct Scale {
  double init = 2.5;
  double min = 0.5;
  double max = 5.0;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("init", init, "starting value");
    visitor("min", min, "lower bound");
    visitor("max", max, "upper bound");
  }
  void validate() const {
    if (init < min || init > max) throw std::invalid_argument("[scale] init must lie inside [min, max]");
  }
  bool operator==(const Scale&) const = default;
};

struct Camera {
  std::string name = "front";
  int width = 1600;
  Scale scale{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("name", name, "channel of the camera");
    visitor("width", width, "image width", Range{.min = 1, .max = 8192});
    visitor("scale", scale, "its own scale");
  }
  bool operator==(const Camera&) const = default;
};

struct Train {
  double learning_rate = 2e-3;
  Optimizer optimizer = Optimizer::kAdamW;
  std::vector<double> decay = {0.01, 0.1};
  std::vector<Optimizer> tried{};
  Scale scale{};
  std::int64_t steps = 1400;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("learning_rate", learning_rate, "peak learning rate", Range{.min = 0});
    visitor("optimizer", optimizer, "which optimiser");
    visitor("decay", decay, "decay of each group", Range{.min = 0, .max = 1});
    visitor("tried", tried, "optimisers tried before");
    visitor("scale", scale, "the bounded scale");
    visitor("steps", steps, "optimiser steps", Range{.min = 1});
  }
  bool operator==(const Train&) const = default;
};

struct Options {
  std::uint64_t seed = 7;
  bool verbose = false;
  std::string out = "runs/demo";
  std::vector<std::string> notes{};
  std::vector<std::vector<std::int64_t>> grid = {{1, 2}, {}};
  std::vector<bool> flags = {true, false};
  std::uint8_t level = 3;
  Train train{};
  std::vector<Camera> cameras{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("seed", seed, "seed of all streams");
    visitor("train", train, "training");
    visitor("cameras", cameras, "the cameras of the rig");
    visitor("verbose", verbose, "say more");
    visitor("out", out, "folder of the run");
    visitor("notes", notes, "anything to remember");
    visitor("grid", grid, "rows of cells");
    visitor("flags", flags, "switches");
    visitor("level", level, "fault level");
  }
  bool operator==(const Options&) const = default;
};

}  // namespace camber::config::sample

template <>
inline constexpr auto camber::config::enum_names<camber::config::sample::Optimizer> =
    std::array{std::pair{camber::config::sample::Optimizer::kSgd, std::string_view("sgd")},
               std::pair{camber::config::sample::Optimizer::kAdam, std::string_view("adam")},
               std::pair{camber::config::sample::Optimizer::kAdamW, std::string_view("adamw")}};
