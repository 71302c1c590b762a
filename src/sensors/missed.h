#pragma once
#include <string>
#include <vector>

#include "camber/sensors/inspection.h"

namespace camber::sensors {

/// The sentences of Inspection::missed, from what was counted and, for a detector, from every object of the split.
std::vector<std::string> missed_by_detector(const nuscenes::Dataset& dataset, const nuscenes::Split& split,
                                            const InspectionOptions& options, const Inspection& counted);

}  // namespace camber::sensors
