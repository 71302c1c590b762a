#pragma once
#include <string>
#include <vector>

#include <camber/runs/detector_passes.h>

namespace camber::runs {

/// How well agreement tells frames under a fault from clean ones.
struct AgreementSeparation {
  std::string fault{};
  double mean = 0;          ///< agreement under the fault, frames where it is known
  double area = 0;          ///< the chance that a clean frame agrees more than one under the fault
  double area_of_five = 0;  ///< the same for means over five frames of a scene
};

/// The threshold of agreement from which on an alarm is dropped: halfway between the mean of clean frames and the mean
/// over the faults of theirs.
struct AgreementCalibration {
  double threshold = 0;
  double clean_mean = 0;
  std::int64_t frames = 0, not_known = 0;  ///< clean ones
  std::vector<AgreementSeparation> faults{};
  std::string policy{}, policy_before{};  ///< of the model that keeps the threshold; empty where none does

  std::string to_text() const;
  std::string to_json() const;
};

/// Faults that make the sensors disagree as a whole: what a threshold is found with.
std::vector<sensors::Fault> calibration_faults();

/// Runs the detector over the frames, clean and under each fault, without a look at any true box. Throws
/// std::invalid_argument for a detector without dense heads, and std::runtime_error where no frame's agreement is
/// known or clean frames agree no more than faulty ones.
AgreementCalibration calibrate_agreement(const detection::Detector& detector, const DetectionRequest& request,
                                         const std::vector<sensors::Fault>& faults = calibration_faults());

/// The separation alone, for faults that the threshold does not come from.
std::vector<AgreementSeparation> agreement_separations(const DetectionRequest& request,
                                                       const std::vector<double>& clean,
                                                       const std::vector<std::string>& names,
                                                       const std::vector<std::vector<double>>& under);

}  // namespace camber::runs
