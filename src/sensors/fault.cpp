#include "camber/sensors/fault.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <stdexcept>

#include "camber/config/names.h"
#include "camber/config/renamed.h"
#include "camber/sensors/cue_errors.h"
#include "sensors/text_parts.h"

namespace camber::sensors {
namespace {

using Five = std::array<double, kSeverities>;

constexpr std::string_view kCamerasWord = "cameras=";

constexpr Five kNothing{0, 0, 0, 0, 0};
constexpr Five kFading{0.8, 0.6, 0.4, 0.2, 0};       // 1 - severity / 5
constexpr Five kDisplaced{0.9, 0.8, 0.7, 0.6, 0.5};  // a displaced sensor still knows class and rough place

constexpr FaultRow kTable[] = {
    {FaultKind::kLidarOff, "lidar_off", "LiDAR", true, "-", kNothing, kNothing,
     "the LiDAR delivers nothing and says so"},
    {FaultKind::kCamerasOff,
     "cameras_off",
     "cameras",
     true,
     kShareOfCameras,
     {1, 1, 1, 1, 1},
     kNothing,
     "every camera delivers nothing and says so"},
    {FaultKind::kCameraOff,
     "camera_off",
     "cameras",
     true,
     kShareOfCameras,
     {0.16, 0.33, 0.5, 0.66, 0.83},
     kNothing,
     "some cameras (at least one) deliver nothing and say so"},
    {FaultKind::kBlack,
     "black",
     "cameras",
     false,
     kShareOfCameras,
     {0.2, 0.4, 0.6, 0.8, 1},
     kNothing,
     "images are black"},
    {FaultKind::kEmpty, "empty", "LiDAR", false, "-", kNothing, kNothing, "the cloud has no point"},
    {FaultKind::kFrozen,
     "frozen",
     "cameras",
     false,
     "key frames ago",
     {1, 2, 3, 5, 8},
     kNothing,
     "every camera repeats the image of so many key frames ago, or one of another scene, since then"},
    {FaultKind::kStale,
     "stale",
     "LiDAR",
     false,
     "key frames ago",
     {1, 2, 3, 5, 8},
     kFading,
     "the LiDAR repeats its cloud of so many key frames ago, or one of another scene (q = 0), since then"},
    {FaultKind::kDark,
     "dark",
     "cameras",
     false,
     "light left",
     {0.6, 0.4, 0.25, 0.15, 0.08},
     kFading,
     "every image times the light left, with noise of 1.5 % of white"},
    {FaultKind::kNoise,
     "noise",
     "cameras",
     false,
     "deviation / white",
     {0.04, 0.08, 0.12, 0.18, 0.26},
     kFading,
     "normal noise on every pixel and colour"},
    {FaultKind::kBlur,
     "blur",
     "cameras",
     false,
     "deviation / width",
     {0.006, 0.010, 0.015, 0.022, 0.030},
     kFading,
     "a Gaussian filter, three box filters deep"},
    {FaultKind::kRain,
     "rain",
     "cameras",
     false,
     "share covered",
     {0.03, 0.06, 0.10, 0.15, 0.22},
     kFading,
     "drops on the lens that show the image upside down, and haze of 1.5 times that share"},
    {FaultKind::kGhost,
     "ghost",
     "LiDAR",
     false,
     "clusters",
     {3, 5, 7, 9, 12},
     kFading,
     "false clusters of 8 to 30 points, of the size of a person or a car, 4 to 22 m away"},
    {FaultKind::kBeams,
     "beams",
     "LiDAR",
     false,
     "one ring of",
     {2, 3, 4, 6, 8},
     kFading,
     "only rings 1, 1 + n, 1 + 2n, ... (of 32 rings: 16, 11, 8, 6, 4)"},
    {FaultKind::kLimitedView,
     "limited_view",
     "LiDAR",
     false,
     "degrees",
     {105, 90, 75, 60, 45},
     kFading,
     "only points within so many degrees of straight ahead, on either side"},
    {FaultKind::kDroppedObjects,
     "dropped_objects",
     "LiDAR",
     false,
     "share of objects",
     {0.2, 0.35, 0.5, 0.65, 0.8},
     kFading,
     "all points of an object are lost, object by object"},
    {FaultKind::kDroppedPoints,
     "dropped_points",
     "LiDAR",
     false,
     "share of points",
     {0.3, 0.5, 0.7, 0.8, 0.9},
     kFading,
     "points are lost one by one"},
    {FaultKind::kShift,
     "shift",
     "LiDAR",
     false,
     "metres",
     {0.5, 1.0, 1.5, 2.2, 3.0},
     kDisplaced,
     "the points of all objects are moved in one direction"},
    {FaultKind::kCalibration,
     "calibration",
     "cameras",
     false,
     "degrees of yaw",
     {1, 2, 3, 4.5, 6},
     kDisplaced,
     "every camera looks so far to a side that its calibration does not know of"},
};

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const FaultRow& row : kTable) result.emplace_back(row.name);
  return result;
}

const FaultRow* find_row(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kTable), std::end(kTable), [name](const FaultRow& row) { return row.name == name; });
  return found == std::end(kTable) ? nullptr : found;
}

const FaultRow& row_named(std::string_view name) {
  const FaultRow* row = find_row(name);
  if (row != nullptr) return *row;
  if (is_cue_error(name))
    throw std::invalid_argument("[fault] kind must be a fault of a sensor, got the cue error '" + std::string(name) +
                                "': option --cue-errors and data.cue_errors take those");
  throw std::invalid_argument("[fault] kind must be " + config::join_names(names()) + ", got '" + std::string(name) +
                              "' (did you mean '" + config::nearest_name(name, names()) + "'?)");
}

[[noreturn]] void refuse_part(std::string_view text, std::string_view part) {
  if (const std::string now = config::present_condition(":" + std::string(part)).substr(1); now != part)
    throw std::invalid_argument("[fault] '" + std::string(text) + "': '" + std::string(part) + "' is called '" + now +
                                "' now");
  throw std::invalid_argument("[fault] '" + std::string(text) +
                              "' must be kind[:severity][:earlier|other_scene|mixed]" +
                              "[:true_timestamps|false_timestamps][:cameras=N], got '" + std::string(part) + "'");
}

int number_in(std::string_view text, std::string_view part, std::string_view digits) {
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) refuse_part(text, part);
  return number;
}

int cameras_of(std::string_view text, std::string_view part, const Fault& fault) {
  if (!fault.counts_cameras())
    throw std::invalid_argument("[fault] '" + std::string(text) + "': cameras must not be given for " +
                                std::string(fault_row(fault.kind).name) +
                                (fault.is_lidar() ? ", a fault of the LiDAR" : ", whose severity says how many"));
  const int cameras = number_in(text, part, part.substr(kCamerasWord.size()));
  if (cameras < 1)
    throw std::invalid_argument("[fault] '" + std::string(text) + "': cameras must be at least 1, got " +
                                std::to_string(cameras));
  return cameras;
}

int severity_of(std::string_view text, std::string_view part) {
  const int severity = number_in(text, part, part);
  if (severity < 1 || severity > kSeverities)
    throw std::invalid_argument("[fault] severity must be 1 to 5, got " + std::to_string(severity));
  return severity;
}

std::string written(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

}  // namespace

std::span<const FaultRow> fault_table() {
  return kTable;
}

const FaultRow& fault_row(FaultKind kind) {
  return kTable[static_cast<std::size_t>(kind)];
}

std::string fault_table_markdown() {
  std::ostringstream text;
  text << "| fault | sensor | kind | parameter | 1 | 2 | 3 | 4 | 5 | quality q at 1 to 5 | what happens |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const FaultRow& row : kTable) {
    text << "| " << row.name << " | " << row.sensor << " | " << (row.known ? "known" : "silent") << " | "
         << row.parameter;
    for (const double value : row.value) text << " | " << (row.parameter == "-" ? "-" : written(value));
    text << " | ";
    const bool alike =
        std::all_of(row.quality.begin(), row.quality.end(), [&](double q) { return q == row.quality[0]; });
    for (std::size_t i = 0; i < (alike ? 1 : row.quality.size()); ++i)
      text << (i == 0 ? "" : ", ") << written(row.quality[i]);
    text << " | " << row.meaning << " |\n";
  }
  return text.str();
}

std::string Fault::text() const {
  std::string text(fault_row(kind).name);
  text += ":" + std::to_string(severity);
  for (const auto& [value, name] : config::enum_names<FaultSource>)
    if (value == source && source != FaultSource::kMixed) text += ":" + std::string(name);
  if (false_timestamps) text += ":false_timestamps";
  if (cameras > 0) text += ":" + std::string(kCamerasWord) + std::to_string(cameras);
  return text;
}

Fault parse_fault(std::string_view text) {
  const std::vector<std::string_view> parts = parts_of(text, ':');
  Fault fault{.kind = row_named(parts[0]).kind};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string_view part = parts[i];
    const auto* source = std::find_if(config::enum_names<FaultSource>.begin(), config::enum_names<FaultSource>.end(),
                                      [part](const auto& entry) { return entry.second == part; });
    if (fault.repeats() && (part == "false_timestamps" || part == "true_timestamps"))
      fault.false_timestamps = part == "false_timestamps";
    else if (fault.repeats() && source != config::enum_names<FaultSource>.end())
      fault.source = source->first;
    else if (part.starts_with(kCamerasWord))
      fault.cameras = cameras_of(text, part, fault);
    else
      fault.severity = severity_of(text, part);
  }
  return fault;
}

std::vector<Fault> parse_faults(std::string_view text, int standard) {
  std::vector<Fault> faults;
  if (text.empty() || text == "none") return faults;
  if (text == "all") {
    for (const FaultRow& row : kTable) faults.push_back({.kind = row.kind, .severity = standard});
    return faults;
  }
  for (const std::string_view part : parts_of(text, ',')) {
    faults.push_back(parse_fault(part));
    if (part.find(':') == std::string_view::npos) faults.back().severity = standard;
  }
  return faults;
}

void check_together(std::span<const Fault> faults) {
  const auto leaves_nothing = [](const Fault& fault) {
    return fault.kind == FaultKind::kLidarOff || fault.kind == FaultKind::kEmpty ||
           fault.kind == FaultKind::kCamerasOff || fault.kind == FaultKind::kBlack;
  };
  for (std::size_t i = 0; i < faults.size(); ++i)
    for (std::size_t k = i + 1; k < faults.size(); ++k) {
      const std::string pair = faults[i].text() + " and " + faults[k].text();
      if (faults[i].kind == faults[k].kind)
        throw std::invalid_argument("[faults] a frame must meet a fault once, got " + pair);
      if (faults[i].is_lidar() == faults[k].is_lidar() && (leaves_nothing(faults[i]) || leaves_nothing(faults[k])))
        throw std::invalid_argument("[faults] faults of one frame must not contradict each other, got " + pair +
                                    ": one of them leaves nothing for the other");
    }
}

void FaultOptions::validate() const {
  for (const std::string& kind : kinds) {
    row_named(kind);
    if (std::count(kinds.begin(), kinds.end(), kind) > 1)
      throw std::invalid_argument("[faults] kinds must name each fault once, got '" + kind + "' twice");
  }
  if (kinds.empty() && share > 0) throw std::invalid_argument("[faults] kinds must not be empty when share is above 0");
  if (!weights.empty() && weights.size() != kinds.size())
    throw std::invalid_argument("[faults] weights must have one number for each of the " +
                                std::to_string(kinds.size()) + " kinds, got " + std::to_string(weights.size()));
  double sum = weights.empty() ? 1 : 0;
  for (const double weight : weights) {
    if (!(weight >= 0)) throw std::invalid_argument("[faults] weights must be at least 0, got " + written(weight));
    sum += weight;
  }
  if (!(sum > 0)) throw std::invalid_argument("[faults] weights must not all be 0");
  if (min_severity > max_severity)
    throw std::invalid_argument("[faults] min_severity must be at most max_severity (" + std::to_string(max_severity) +
                                "), got " + std::to_string(min_severity));
}

std::vector<Fault> draw_faults(const FaultOptions& options, random::Stream stream) {
  if (!stream.chance(options.share)) return {};
  std::vector<double> weights = options.weights;
  if (weights.empty()) weights.assign(options.kinds.size(), 1);
  double total = 0;
  for (const double weight : weights) total += weight;
  double left = stream.uniform() * total;
  std::size_t chosen = 0;
  while (chosen + 1 < weights.size() && left >= weights[chosen]) left -= weights[chosen++];
  Fault fault{.kind = row_named(options.kinds[chosen]).kind};
  fault.severity =
      static_cast<int>(options.min_severity + static_cast<std::int64_t>(stream.integer(static_cast<std::uint64_t>(
                                                  options.max_severity - options.min_severity + 1))));
  fault.source = stream.chance(options.other_scene_share) ? FaultSource::kOtherScene : FaultSource::kEarlier;
  fault.false_timestamps = stream.chance(options.false_timestamp_share);
  if (!fault.repeats()) {
    fault.source = FaultSource::kMixed;
    fault.false_timestamps = false;
  }
  return {fault};
}

}  // namespace camber::sensors
