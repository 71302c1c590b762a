#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <stdexcept>

#include "camber/detection/cmt_weights.h"
#include "detection/cmt/weight_files.h"

namespace camber::detection {
namespace {

using weights::NamedTensor;

// One tensor of the original: a view of ours that has its elements in its order, and its shape.
struct Counterpart {
  std::string name{};
  torch::Tensor ours{};
  std::vector<std::int64_t> shape{};
};

struct Renaming {
  std::string_view ours, original;
};

constexpr std::array<Renaming, 17> kRenamings{{
    {"lidar_encoder.", ""},
    {"camera_encoder.", ""},
    {"head.shared_conv.", "pts_bbox_head.shared_conv.conv."},
    {"head.shared_norm.", "pts_bbox_head.shared_conv.bn."},
    {"head.reference_points", "pts_bbox_head.reference_points.weight"},
    {"head.positions.bev_first.", "pts_bbox_head.bev_embedding.0."},
    {"head.positions.bev_second.", "pts_bbox_head.bev_embedding.2."},
    {"head.positions.rv_first.", "pts_bbox_head.rv_embedding.0."},
    {"head.positions.rv_second.", "pts_bbox_head.rv_embedding.2."},
    {"head.decoder.", "pts_bbox_head.transformer.decoder."},
    {"head.router.", {}},
    {"head.attention_bias.", {}},
    {"head.cue_input.", {}},
    {"head.agreement_input.", {}},
    {"head.grid_classes.", {}},
    {"head.camera_classes.", {}},
    {"head.camera_projection.", {}},
}};

constexpr std::array<Renaming, 7> kInLayers{{
    {".self_attention.", ".attentions.0.attn."},
    {".cross_attention.", ".attentions.1.attn."},
    {".feedforward.expand.", ".ffns.0.layers.0.0."},
    {".feedforward.contract.", ".ffns.0.layers.1."},
    {".norm1.", ".norms.0."},
    {".norm2.", ".norms.1."},
    {".norm3.", ".norms.2."},
}};

// Our names of the tasks and the original's, in the order of our stacks.
constexpr std::array<Renaming, 6> kTasks{{{"centre", "center"},
                                          {"height", "height"},
                                          {"size", "dim"},
                                          {"heading", "rot"},
                                          {"velocity", "vel"},
                                          {"classes", "cls_logits"}}};

constexpr std::string_view kTaskHeads = "head.task_heads.";

using cmt::is_sparse_weight;

bool stands_beyond(const std::string& name) {
  return std::any_of(
      kRenamings.begin(), kRenamings.end(),
      [&](const Renaming& renaming) { return renaming.original.data() == nullptr && name.starts_with(renaming.ours); });
}

std::string original_name(const std::string& name) {
  for (const auto& [ours, original] : kRenamings) {
    if (!name.starts_with(ours)) continue;
    std::string result = std::string(original) + name.substr(ours.size());
    if (ours != "head.decoder.") return result;
    for (const auto& [part, replaced] : kInLayers)
      if (const auto at = result.find(part); at != std::string::npos) return result.replace(at, part.size(), replaced);
    return result;
  }
  throw std::invalid_argument("[cmt] the detector must be CMT's (encoder.kind = \"cmt\" with CMT's head), got '" +
                              name + "', which the original does not have");
}

// Convolutions over the decoder layers' groups: rows [inner * layer, ..) of the first, [c * layer, ..) of the last.
void add_task_heads(std::vector<Counterpart>& to, const std::map<std::string, torch::Tensor>& ours) {
  const auto at = [&](const std::string& name) { return ours.at(std::string(kTaskHeads) + name); };
  const torch::Tensor hidden = at("hidden"), norm_weight = at("norm_weight"), norm_bias = at("norm_bias");
  const std::int64_t layers = norm_weight.size(0), inner = norm_weight.size(2);
  const std::int64_t kernel = at("classes_weight").size(2) / inner, width = hidden.size(2) / kernel;
  for (std::size_t t = 0; t < kTasks.size(); ++t) {
    const auto task = static_cast<std::int64_t>(t);
    const std::string name = "pts_bbox_head.task_heads.0." + std::string(kTasks[t].original) + ".";
    // Ours have the taps outside of the channels, the original's inside.
    const auto taps_last = [&](const torch::Tensor& stack, std::int64_t channels) {
      return stack.unflatten(2, {kernel, channels}).transpose(2, 3);
    };
    const auto weight = at(std::string(kTasks[t].ours) + "_weight"), bias = at(std::string(kTasks[t].ours) + "_bias");
    to.push_back(
        {name + "0.weight", taps_last(hidden.narrow(1, task * inner, inner), width), {layers * inner, width, kernel}});
    to.push_back({name + "1.weight", norm_weight.select(1, task), {layers * inner}});
    to.push_back({name + "1.bias", norm_bias.select(1, task), {layers * inner}});
    to.push_back({name + "3.weight", taps_last(weight, inner), {layers * weight.size(1), inner, kernel}});
    to.push_back({name + "3.bias", bias, {layers * bias.size(1)}});
  }
}

std::vector<Counterpart> counterparts(const DetectorImpl& detector) {
  const auto& options = detector.options();
  if (options.encoder.kind != EncoderKind::kCmt || options.head.position_embedding != PositionEmbedding::kCmt ||
      options.head.references != References::kLearned || options.head.box_code != BoxCode::kCmt)
    throw std::invalid_argument(
        "[cmt] the detector must be CMT's: encoder.kind, head.position_embedding and head.box_code \"cmt\", "
        "head.references \"learned\"");
  std::vector<Counterpart> result;
  std::map<std::string, torch::Tensor> heads;
  for (const auto& [name, tensor] : weights::tensors_of(detector, "")) {
    if (stands_beyond(name)) continue;
    if (name.starts_with(kTaskHeads))
      heads.emplace(name, tensor);
    else
      result.push_back({original_name(name), tensor, tensor.sizes().vec()});
  }
  add_task_heads(result, heads);
  return result;
}

// The state_dicts that a file may hold: the plain one and a running average, each without its prefixes.
struct StateDicts {
  std::map<std::string, torch::Tensor> plain{}, average{};
  std::vector<std::string> passed_over{};  // another copy of the weights, names with underscores
};

StateDicts sort_names(const std::vector<NamedTensor>& state) {
  constexpr std::array<std::string_view, 3> kWrappers = {"state_dict.", "module.", "model."};
  constexpr std::array<std::string_view, 4> kAverages = {"ema_state_dict.", "ema_model.", "model_ema.", "ema."};
  StateDicts result;
  for (const auto& [full, tensor] : state) {
    std::string name = full;
    bool average = false;
    for (bool changed = true; changed;) {
      changed = false;
      const auto strip = [&](std::string_view prefix, bool marks_average) {
        if (!name.starts_with(prefix)) return;
        name.erase(0, prefix.size());
        average = average || marks_average;
        changed = true;
      };
      for (const auto prefix : kWrappers) strip(prefix, false);
      for (const auto prefix : kAverages) strip(prefix, true);
    }
    if (full.starts_with("optimizer.") || full.starts_with("meta.")) continue;
    (average ? result.average : result.plain).insert_or_assign(name, tensor);
  }
  // mmcv's EMAHook keeps a second copy under "ema_" and the name with underscores; when it saves, the average stands
  // under the plain names and the copy holds what was trained.
  std::set<std::string> copies;
  for (const auto& [name, tensor] : result.plain) {
    std::string copy = "ema_" + name;
    std::replace(copy.begin(), copy.end(), '.', '_');
    copies.insert(copy);
  }
  std::erase_if(result.plain, [&](const auto& entry) {
    if (!copies.contains(entry.first)) return false;
    result.passed_over.push_back(entry.first);
    return true;
  });
  return result;
}

torch::Tensor to_layout_two(const torch::Tensor& weight) {
  return weight.permute({4, 0, 1, 2, 3});
}

// The given tensor with the shape of the original's, or nothing where it has neither that nor spconv 1's.
torch::Tensor fitted(const torch::Tensor& given, const Counterpart& counterpart, bool& layout_one) {
  const bool counter = !counterpart.ours.is_floating_point();
  if (counter != !given.is_floating_point()) return {};
  if (given.sizes() == torch::IntArrayRef(counterpart.shape)) return given;
  if (counter && given.numel() == 1) return given;  // some writers have no tensors without dimensions
  if (!is_sparse_weight(counterpart.name, given.dim())) return {};
  auto permuted = to_layout_two(given);
  if (permuted.sizes() != torch::IntArrayRef(counterpart.shape)) return {};
  layout_one = true;
  return permuted;
}

std::string first_names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, names.size()); ++i) text += (i == 0 ? " (" : ", ") + names[i];
  if (names.empty()) return "";
  return text + (names.size() > 2 ? ", ...)" : ")");
}

[[noreturn]] void refuse_import(const weights::LoadReport& report, const std::string& file) {
  std::vector<std::string> shapes;
  shapes.reserve(report.mismatched.size());
  for (const auto& entry : report.mismatched)
    shapes.push_back(entry.name + " is " + entry.file + ", not " + entry.model);
  throw std::runtime_error("[cmt] " + file + " must hold the weights of this CMT, got " +
                           std::to_string(report.loaded.size()) + " that fit, " +
                           std::to_string(report.missing.size()) + " missing" + first_names(report.missing) + ", " +
                           std::to_string(report.unknown.size()) + " unknown" + first_names(report.unknown) + " and " +
                           std::to_string(shapes.size()) + " of another shape" + first_names(shapes));
}

}  // namespace

weights::LoadReport import_cmt(const std::vector<NamedTensor>& state, DetectorImpl& detector, const std::string& file,
                               TakenWeights taken, bool partial) {
  auto found = sort_names(state);
  weights::LoadReport report;
  const bool average = taken == TakenWeights::kAverage && !found.average.empty();
  if (average) report.notes.emplace_back("the running average was taken");
  if (!average && !found.average.empty())
    report.notes.push_back("a running average of " + std::to_string(found.average.size()) + " tensors was passed over");
  if (average && !found.plain.empty())
    report.notes.push_back(std::to_string(found.plain.size()) + " tensors beside the running average were passed over");
  if (!found.passed_over.empty())
    report.notes.push_back(std::to_string(found.passed_over.size()) +
                           " tensors named ema_... were passed over: a second copy of the weights");
  auto& given = average ? found.average : found.plain;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> copies;
  bool layout_one = false;
  std::int64_t counters = 0;
  for (const auto& counterpart : counterparts(detector)) {
    const auto at = given.find(counterpart.name);
    if (at == given.end()) {
      if (counterpart.name.ends_with(".num_batches_tracked"))
        ++counters;
      else
        report.missing.push_back(counterpart.name);
      continue;
    }
    const auto tensor = fitted(at->second, counterpart, layout_one);
    if (tensor.defined()) {
      copies.emplace_back(counterpart.ours, tensor);
      report.loaded.push_back(counterpart.name);
    } else {
      report.mismatched.push_back({counterpart.name, weights::shape_text(at->second),
                                   weights::shape_text(torch::empty(counterpart.shape, counterpart.ours.options()))});
    }
    given.erase(at);
  }
  for (const auto& [name, tensor] : given) report.unknown.push_back(name);
  if (layout_one) report.notes.emplace_back("sparse convolutions lay as in spconv 1 and were turned round");
  if (counters > 0)
    report.notes.push_back(std::to_string(counters) + " counters of norms (num_batches_tracked) are not in the file");
  if (const auto beyond = names_beyond_cmt(detector); !beyond.empty())
    report.notes.push_back(std::to_string(beyond.size()) +
                           " tensors of router and bias are not the original's and keep their values");
  if (!partial && !report.complete()) refuse_import(report, file);
  if (copies.empty()) refuse_import(report, file);
  const torch::NoGradGuard guard;
  for (auto& [ours, tensor] : copies) ours.copy_(tensor.reshape(ours.sizes()));
  detector.train(detector.is_training());  // forgets what was computed with the old weights
  return report;
}

std::vector<NamedTensor> export_cmt(const DetectorImpl& detector, SpconvLayout layout) {
  std::vector<NamedTensor> result;
  for (const auto& counterpart : counterparts(detector)) {
    auto tensor = counterpart.ours.reshape(counterpart.shape);
    if (layout == SpconvLayout::kOne && is_sparse_weight(counterpart.name, tensor.dim()))
      tensor = tensor.permute({1, 2, 3, 4, 0});
    result.push_back({counterpart.name, tensor.contiguous()});
  }
  return result;
}

std::vector<std::string> names_beyond_cmt(const DetectorImpl& detector) {
  std::vector<std::string> names;
  for (const auto& entry : weights::tensors_of(detector, ""))
    if (stands_beyond(entry.name)) names.push_back(entry.name);
  return names;
}

}  // namespace camber::detection
