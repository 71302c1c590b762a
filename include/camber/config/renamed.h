#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "camber/config/value.h"

/// Options and values that earlier versions of the program called otherwise. A file that a person wrote is answered
/// with the present name; a file that the program wrote itself (a model's metadata, the configuration of a run or a
/// study) is translated, so that what was stored stays readable.
namespace camber::config {

/// The present name of an option, by its last part; nothing when it was never renamed.
///
///   present_name("picture_width") == "image_width"
std::optional<std::string_view> present_name(std::string_view option);

/// The same for a value of an option, such as a choice; `option` is the present name.
std::optional<std::string_view> present_value(std::string_view option, std::string_view value);

/// A fault, condition or list of them as it is written today: `frozen:5:lying` -> `frozen:5:false_timestamps`.
std::string present_condition(std::string_view condition);

/// The name of a metric in a run's records as it is written today: `lean/lidar/mean` -> `effective_bias/lidar/mean`.
std::string present_metric(std::string_view metric);

/// Gives every option and value of a stored tree its present name.
void translate_stored(Value& tree);

}  // namespace camber::config
