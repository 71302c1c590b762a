#include "camber/runs/fewshot_result.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace camber::runs {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json probe_json(const eval::ProbeResult& probe) {
  return {{"accuracy", number(probe.accuracy)},
          {"chance", number(probe.chance)},
          {"labels", probe.labels},
          {"fitted", probe.fitted},
          {"tested", probe.tested}};
}

Json scale_json(const ScaleResult& scale) {
  Json curve = Json::array();
  for (const auto& [step, value] : scale.curve) curve.push_back({step, value});
  return {{"name", scale.name},   {"constraint", scale.constraint},
          {"start", scale.start}, {"value", scale.value},
          {"raw", scale.raw},     {"min", scale.min},
          {"max", scale.max},     {"share_at_bound", scale.share_at_bound},
          {"curve", curve}};
}

Json leak_json(const LeakResult& leak) {
  return {{"feature", leak.feature},
          {"leak_index", number(leak.leak.index)},
          {"leak_intensity", number(leak.leak.intensity)},
          {"class_probe", probe_json(leak.class_probe)},
          {"domain_probe", probe_json(leak.domain_probe)}};
}

// What success means: the class probe falls while the domain probe stays within two points.
std::string verdict(const std::vector<LeakResult>& leaks) {
  const LeakResult *raw = nullptr, *purified = nullptr;
  for (const LeakResult& leak : leaks) {
    if (leak.feature == "domain") raw = &leak;
    if (leak.feature == "purified") purified = &leak;
  }
  if (raw == nullptr || purified == nullptr) return "";
  const double class_fall = 100 * (raw->class_probe.accuracy - purified->class_probe.accuracy);
  const double domain_fall = 100 * (raw->domain_probe.accuracy - purified->domain_probe.accuracy);
  return fmt::format("purification took {:.1f} points from the class probe and {:.1f} from the domain probe{}",
                     class_fall, domain_fall,
                     class_fall > 0 && domain_fall <= 2 ? ""
                                                        : ": no success (the class probe must fall, the domain "
                                                          "probe by 2 points at most)");
}

}  // namespace

std::string to_json(const FewshotResult& result) {
  Json json{{"data", result.data},
            {"setting", result.setting},
            {"notes", result.notes},
            {"seed", result.seed},
            {"complete", result.complete},
            {"oracle", result.oracle},
            {"train_classes", result.train_classes},
            {"test_classes", result.test_classes},
            {"train_examples", result.train_examples},
            {"test_examples", result.test_examples},
            {"parameters", result.parameters},
            {"episodes", result.episodes},
            {"seconds", result.seconds},
            {"episodes_per_second", result.episodes_per_second},
            {"last_loss", number(result.last_loss)}};
  json["settings"] = Json::array();
  for (const SettingResult& setting : result.settings)
    json["settings"].push_back({{"name", setting.name},
                                {"n_way", setting.n_way},
                                {"k_shot", setting.k_shot},
                                {"episodes", setting.accuracy.count},
                                {"accuracy", setting.accuracy.mean},
                                {"interval", setting.accuracy.half_width},
                                {"chance", setting.chance}});
  json["scale"] = Json::array();
  for (const ScaleResult& scale : result.scales) json["scale"].push_back(scale_json(scale));
  json["leak"] = Json::array();
  for (const LeakResult& leak : result.leaks) json["leak"].push_back(leak_json(leak));
  json["statistics"] = Json::object();
  for (const auto& [name, value] : result.statistics) json["statistics"][name] = number(value);
  json["findings"] = result.findings;
  return json.dump(2) + "\n";
}

std::string to_text(const FewshotResult& result) {
  std::string text = fmt::format("{}: {}, {} training classes, {} test classes, {} parameters\n", result.data,
                                 result.setting, result.train_classes, result.test_classes, result.parameters);
  for (const std::string& note : result.notes) text += fmt::format("  {}\n", note);
  text += fmt::format("trained {} episodes in {:.1f} s ({:.1f} a second), last loss {:.3f}\n", result.episodes,
                      result.seconds, result.episodes_per_second, result.last_loss);
  if (!result.complete) text += "stopped before the last episode\n";
  text += fmt::format("\n{:<26}{:>18}{:>10}{:>10}\n", "setting", "accuracy", "chance", "episodes");
  for (const SettingResult& setting : result.settings)
    text += fmt::format("{:<26}{:>9.2f} +- {:>4.2f} %{:>8.1f} %{:>10}\n", setting.name, 100 * setting.accuracy.mean,
                        100 * setting.accuracy.half_width, 100 * setting.chance, setting.accuracy.count);
  if (result.oracle) text += "(an oracle: the purifier sees the queries' labels)\n";
  for (const ScaleResult& scale : result.scales)
    text += fmt::format(
        "\nscale {} ({}): {:.2f} at the start, {:.2f} now, in {:.4g}..{:.4g}, {:.0f} % of steps at the bound\n",
        scale.name, scale.constraint, scale.start, scale.value, scale.min, scale.max, 100 * scale.share_at_bound);
  if (!result.leaks.empty()) {
    text += fmt::format("\n{:<12}{:>11}{:>14}{:>9}{:>15}{:>9}\n", "feature", "LeakIndex", "class probe", "chance",
                        "domain probe", "chance");
    for (const LeakResult& leak : result.leaks)
      text += fmt::format("{:<12}{:>11.4f}{:>12.1f} %{:>7.1f} %{:>13.1f} %{:>7.1f} %\n", leak.feature, leak.leak.index,
                          100 * leak.class_probe.accuracy, 100 * leak.class_probe.chance,
                          100 * leak.domain_probe.accuracy, 100 * leak.domain_probe.chance);
    text += verdict(result.leaks) + "\n";
  }
  for (const std::string& finding : result.findings) text += finding + "\n";
  return text;
}

}  // namespace camber::runs
