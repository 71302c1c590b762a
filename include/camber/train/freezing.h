#pragma once
#include <string>
#include <vector>

#include <camber/config/field.h>

#include <torch/nn/module.h>

namespace camber::train {

/// Which parameters a training leaves as they are: those whose name contains one of `patterns` and none of `except`.
struct FreezingOptions {
  std::vector<std::string> patterns{};
  std::vector<std::string> except{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("patterns", patterns, "parts of names of parameters that stay as they are, e.g. camera_encoder");
    visitor("except", except, "parts of names that learn all the same");
  }

  /// Throws std::invalid_argument for an empty or repeated pattern and for exceptions from nothing.
  void validate() const;

  friend bool operator==(const FreezingOptions&, const FreezingOptions&) = default;
};

/// Freezes parts of a model by name. A frozen parameter requires no gradient, so that neither gradients nor optimiser
/// state exist for it. A module all of whose parameters are frozen also stays in evaluation mode: its norms keep their
/// statistics, its dropout does nothing.
///
///   Freezing freezing(*detector, {.patterns = {"encoder"}});
///   detector->train();
///   freezing.hold();   // the encoders are in evaluation mode again
class Freezing {
 public:
  Freezing() = default;
  /// Throws std::invalid_argument when a pattern or an exception matches no parameter. What required no gradient before
  /// counts as frozen where the patterns name it, and is left alone elsewhere.
  Freezing(torch::nn::Module& model, const FreezingOptions& options);

  /// Puts the modules without a learning parameter back into evaluation mode, after anybody's model.train().
  void hold();

  const std::vector<std::string>& parameters() const { return parameters_; }  ///< names of those that are frozen
  const std::vector<std::string>& modules() const { return names_; }          ///< outermost modules in evaluation mode

 private:
  std::vector<std::string> parameters_, names_;
  std::vector<std::shared_ptr<torch::nn::Module>> held_;
};

}  // namespace camber::train
