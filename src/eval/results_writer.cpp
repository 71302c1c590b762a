#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "camber/eval/results_file.h"
#include "camber/json/text.h"
#include "camber/storage/atomic_file.h"

namespace camber::eval {
namespace {

template <class Numbers>
std::string list(const Numbers& numbers, const std::string& token, bool may_be_nan = false) {
  std::string text = "[";
  for (const double number : numbers) {
    if (!std::isfinite(number) && !may_be_nan)
      throw std::invalid_argument(
          fmt::format("[write_results] sample '{}' must have finite boxes, got {}", token, number));
    text += (text.size() > 1 ? ", " : "") + json::number_text(number);
  }
  return text + "]";
}

std::string box_object(const DetectionBox& box, const std::string& token) {
  const std::string_view attribute =
      box.attribute == kNoAttribute ? "" : kAttributeNames[static_cast<std::uint8_t>(box.attribute)];
  return fmt::format(
      "{{\"sample_token\": \"{}\", \"translation\": {}, \"size\": {}, \"rotation\": {}, \"velocity\": {}, "
      "\"detection_name\": \"{}\", \"detection_score\": {}, \"attribute_name\": \"{}\"}}",
      token, list(box.translation, token), list(box.size, token), list(box.rotation, token),
      list(box.velocity, token, /*may_be_nan=*/true), name_of(box.label), json::number_text(box.score), attribute);
}

}  // namespace

void write_results(const std::filesystem::path& path, const SampleBoxes& boxes, const ResultsMeta& meta) {
  storage::AtomicFile file(path);
  file.write(
      fmt::format("{{\"meta\": {{\"use_camera\": {}, \"use_lidar\": {}, \"use_radar\": {}, \"use_map\": {}, "
                  "\"use_external\": {}}}, "
                  "\"results\": {{",
                  meta.use_camera, meta.use_lidar, meta.use_radar, meta.use_map, meta.use_external));
  for (std::size_t sample = 0; sample < boxes.samples(); ++sample) {
    std::string text = fmt::format("{}\n\"{}\": [", sample == 0 ? "" : ",", boxes.tokens[sample]);
    bool first = true;
    for (const DetectionBox& box : boxes.of(sample)) {
      text += (first ? "" : ", ") + box_object(box, boxes.tokens[sample]);
      first = false;
    }
    file.write(text + "]");
  }
  file.write("}}\n");
  file.commit();
}

}  // namespace camber::eval
