// What the C++ modules BoundedScale and AttentionBias give, for the Python ones to be held against, and back:
//
//   module_records write FILE     states, inputs, values and gradients of a list of options (metadata: the options,
//   TOML) module_records check FOLDER   loads the states that Python wrote, one file a case, and compares their values
#include <cmath>
#include <filesystem>
#include <iostream>

#include <torch/csrc/autograd/autograd.h>

#include "camber/config/options.h"
#include "camber/nn/attention_bias.h"
#include "camber/random/stream.h"
#include "camber/weights/load.h"

namespace {

using namespace camber;
using nn::Constraint;
using nn::Space;
using weights::NamedTensor;

struct ScaleCase {
  std::string name;
  nn::BoundedScaleOptions options;
};

std::vector<ScaleCase> scale_cases() {
  std::vector<ScaleCase> cases;
  for (const auto& [constraint, name] : config::enum_names<Constraint>) {
    cases.push_back({"linear_" + std::string(name), {.constraint = constraint}});
    cases.push_back({"log_" + std::string(name), {.constraint = constraint, .space = Space::kLog}});
  }
  for (const auto& [name, options] : nn::BoundedScaleOptions::presets()) cases.push_back({"preset_" + name, options});
  cases.push_back({"shaped", {.l2_weight = 0.1, .l2_center = {1, 2, 3}, .shape = {3}}});
  cases.push_back({"pulled", {.space = Space::kLog, .l2_weight = 0.3}});
  for (const Constraint constraint : {Constraint::kProjected, Constraint::kSigmoid, Constraint::kClamp})
    cases.push_back(
        {"scheduled_" + config::choice_name(constraint),
         {.constraint = constraint,
          .bounds_schedule = {{.from_epoch = 3, .min = 1, .max = 2}, {.from_epoch = 8, .min = 0.2, .max = 9}},
          .shape = {2}}});
  cases.push_back({"by_step", {.bounds_schedule = {{.from_step = 30, .min = 3, .max = 4}}}});
  return cases;
}

struct BiasCase {
  std::string name;
  nn::AttentionBiasOptions options;
  bool has_grid = true, has_cameras = true, has_boxes = false;
};

std::vector<BiasCase> bias_cases() {
  using nn::ScaleSharing;
  const nn::AttentionBiasOptions plain{.camera_window = 3, .num_layers = 3, .num_heads = 4};
  const auto with = [&plain](auto change) {
    auto options = plain;
    change(options);
    return options;
  };
  std::vector<BiasCase> cases{{"plain", plain},
                              {"gaussian", with([](auto& o) { o.form = nn::WindowForm::kGaussian; })},
                              {"per_camera", with([](auto& o) { o.per_camera = o.segments = true; })},
                              {"locality", with([](auto& o) { o.locality = true; })},
                              {"locality_clipped", with([](auto& o) {
                                 o.locality = true;
                                 o.clip = 1.5;
                                 o.form = nn::WindowForm::kGaussian;
                               })},
                              {"locality_apart", with([](auto& o) {
                                 o.locality = o.segments = true;
                                 o.window_trust = false;
                                 o.locality_scale.bounds_schedule = {{.from_epoch = 3, .min = 1, .max = 2}};
                               })},
                              {"locality_per_modality", with([](auto& o) {
                                 o.locality = true;
                                 o.sharing = ScaleSharing::kPerModality;
                               })},
                              {"clipped", with([](auto& o) { o.clip = 1.5; })},
                              {"scheduled", with([](auto& o) {
                                 o.segments = true;
                                 o.clip_schedule = {{.from_epoch = 2, .clip = 2}, {.from_epoch = 5, .clip = 0.5}};
                                 o.scale.bounds_schedule = {{.from_epoch = 4, .min = 0.5, .max = 1}};
                               })},
                              {"grid_alone", with([](auto& o) { o.segments = true; }), true, false},
                              {"cameras_alone", with([](auto& o) { o.segments = true; }), false, true},
                              {"cameras_alone_per_camera", with([](auto& o) { o.per_camera = true; }), false, true},
                              {"cameras_alone_per_modality", with([](auto& o) {
                                 o.sharing = ScaleSharing::kPerModality;
                                 o.scale.shape = {1};
                               }),
                               false, true},
                              {"boxes", with([](auto& o) {
                                 o.sizing = nn::WindowSizing::kObject;
                                 o.centre = nn::WindowCentre::kRefined;
                                 o.form = nn::WindowForm::kGaussian;
                               }),
                               true, true, true}};
  for (const auto& [sharing, name] : config::enum_names<ScaleSharing>)
    cases.push_back({"sharing_" + std::string(name), with([sharing = sharing](auto& o) {
                       o.sharing = sharing;
                       o.segments = true;
                     })});
  return cases;
}

// Numbers of the same case, whatever is recorded before it.
torch::Tensor drawn(const std::string& name, torch::IntArrayRef shape, double low, double high) {
  random::Stream stream(17, name);
  auto tensor = torch::empty(shape, torch::kDouble);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.data_ptr<double>()[i] = stream.uniform(low, high);
  return tensor;
}

// What a loss multiplies results with.
torch::Tensor weighted(const torch::Tensor& result) {
  return (result * torch::arange(result.numel(), result.options()).view(result.sizes()).cos()).sum();
}

class Records {
 public:
  void put(const std::string& name, const torch::Tensor& tensor) {
    tensors_.push_back({name, tensor.detach().clone().contiguous()});
  }
  void put_state(const std::string& prefix, const torch::nn::Module& module) {
    for (const auto& [name, tensor] : weights::tensors_of(module, ""))
      put(std::string(prefix).append("/state/").append(name), tensor);
  }
  void add_scale(const ScaleCase& c, torch::Dtype type);
  void add_bias(const BiasCase& c, torch::Dtype type);
  void say(const std::string& name, std::string text) { metadata_[name] = std::move(text); }
  void write(const std::filesystem::path& path) { weights::write_state(path, tensors_, metadata_); }

 private:
  std::vector<NamedTensor> tensors_;
  storage::Metadata metadata_;
};

constexpr std::pair<std::int64_t, std::int64_t> kMoments[] = {{0, 0}, {3, 30}, {9, 90}};

std::string type_name(torch::Dtype type) {
  return type == torch::kDouble ? "double" : "float";
}

void Records::add_scale(const ScaleCase& c, torch::Dtype type) {
  const std::string prefix = "scale/" + c.name + "/" + type_name(type);
  nn::BoundedScale scale(c.options);
  scale->to(type);
  put_state(prefix, *scale);
  put(prefix + "/penalty", scale->penalty());
  const auto first = scale->raw().detach().clone();
  for (int i = 0; i < 7; ++i) {
    const std::string at = prefix + "/moved" + std::to_string(i);
    {
      const torch::NoGradGuard guard;
      scale->raw().copy_(first + 0.83 * (i - 3) * std::abs(i - 3));
    }
    put(at + "/raw", scale->raw());
    const auto value = scale->value();
    put(at + "/value", value);
    if (c.options.learnable) put(at + "/gradient", torch::autograd::grad({weighted(value)}, {scale->raw()})[0]);
    scale->project();
    put(at + "/projected", scale->raw());
  }
  put(prefix + "/share_at_bound", scale->share_at_bound());
  {
    const torch::NoGradGuard guard;
    scale->raw().copy_(first);
  }
  for (const auto& [epoch, step] : kMoments) {
    const std::string at = prefix + "/epoch" + std::to_string(epoch);
    scale->apply_schedule(epoch, step);
    put_state(at, *scale);
    put(at + "/value", scale->value());
  }
}

void Records::add_bias(const BiasCase& c, torch::Dtype type) {
  constexpr std::int64_t kBatch = 2, kQueries = 9;
  const std::string prefix = "bias/" + c.name + "/" + type_name(type);
  nn::SensorScene scene{.grid = geometry::BevGrid(-8, 8, -8, 8, 1), .cameras = {}, .has_grid = c.has_grid};
  auto matrices = torch::zeros({kBatch, 2, 4, 4}, torch::kDouble);
  for (std::int64_t b = 0; c.has_cameras && b < kBatch; ++b)
    for (std::int64_t v = 0; v < 2; ++v) {
      const double sign = v == 0 ? 1 : -1;
      const std::array<double, 16> matrix = {
          sign * 50, sign * (50 + static_cast<double>(b)), 0, 0, 0, sign * 30, -50, 0, 0, sign, 0, 0, 0, 0, 0, 1};
      std::copy(matrix.begin(), matrix.end(), matrices[b][v].data_ptr<double>());
      if (v == 0) scene.cameras.emplace_back();
      scene.cameras.back().push_back(
          {.name = "camera", .width = 100, .height = 60, .columns = 10, .rows = 6, .lidar_to_image = matrix});
    }
  const auto points = drawn("points", {kBatch, kQueries, 3}, -9, 9);
  const std::int64_t sensors = c.options.per_camera ? scene.num_maps() : (c.has_grid ? 1 : 0) + (c.has_cameras ? 1 : 0);
  const auto trust = drawn("trust", {kBatch, kQueries, sensors}, -1, 1).to(type).requires_grad_(true);
  put(prefix + "/points", points);
  put(prefix + "/lidar2img", matrices);
  put(prefix + "/trust", trust);
  std::optional<torch::Tensor> boxes;
  if (c.has_boxes) {
    boxes = torch::cat(
        {points, drawn("size", {kBatch, kQueries, 3}, 0.5, 5), drawn("yaw", {kBatch, kQueries, 1}, -3, 3)}, 2);
    put(prefix + "/boxes", *boxes);
  }
  nn::AttentionBias bias(c.options);
  bias->to(type);
  const auto windows = bias->windows(nn::project_queries(points, scene), scene, boxes);
  for (const auto& [epoch, step] : kMoments) {
    const std::string at = prefix + "/epoch" + std::to_string(epoch);
    bias->apply_schedule(epoch, step);
    put_state(at, *bias);
    const auto result = bias->forward(trust, windows, scene, /*layer=*/1);
    auto loss = weighted(result.windows->value);
    put(at + "/row_offsets", result.windows->row_offsets);
    put(at + "/key_index", result.windows->key_index);
    put(at + "/window_value", result.windows->value);
    put(at + "/segment_offsets", result.segments->offsets);
    if (result.segments->value) {
      put(at + "/segment_value", *result.segments->value);
      loss = loss + weighted(*result.segments->value);
    }
    std::vector<std::pair<std::string, torch::Tensor>> leaves = {{"grad_trust", trust}};
    if (c.options.window_trust) leaves.emplace_back("grad_scale", bias->scale->raw());
    if (bias->segment_scale) leaves.emplace_back("grad_segment_scale", bias->segment_scale->raw());
    if (bias->locality_scale) leaves.emplace_back("grad_locality_scale", bias->locality_scale->raw());
    for (const auto& [name, leaf] : leaves)
      put(std::string(at).append("/").append(name), torch::autograd::grad({loss}, {leaf}, {}, true)[0]);
    put(at + "/penalty", bias->penalty());
  }
}

void write(const std::filesystem::path& path) {
  Records records;
  for (const auto& c : scale_cases()) {
    records.say("scale/" + c.name, config::to_toml(c.options));
    for (const auto type : {torch::kDouble, torch::kFloat}) records.add_scale(c, type);
  }
  for (const auto& c : bias_cases()) {
    records.say("bias/" + c.name, config::to_toml(c.options));
    for (const auto type : {torch::kDouble, torch::kFloat}) records.add_bias(c, type);
  }
  records.write(path);
}

// A scale of other options takes everything from the file.
bool agrees(const ScaleCase& c, const std::filesystem::path& file) {
  nn::BoundedScale scale(nn::BoundedScaleOptions{.learnable = c.options.learnable, .shape = c.options.shape});
  scale->to(torch::kDouble);
  const weights::StateFile state(file);
  weights::load_whole(state, *scale);
  const auto expected = weights::tensor_of(*state.find("value"));
  return torch::allclose(scale->value(), expected, 1e-12, 0);
}

}  // namespace

int main(int count, char** arguments) try {
  const std::string what = count == 3 ? arguments[1] : "";
  if (what == "write") {
    write(arguments[2]);
    return 0;
  }
  if (what != "check") {
    std::cerr << "module_records write FILE | check FOLDER\n";
    return 2;
  }
  int failures = 0;
  for (const auto& c : scale_cases()) {
    if (agrees(c, std::filesystem::path(arguments[2]) / (c.name + ".safetensors"))) continue;
    std::cerr << c.name << ": the loaded scale has another value\n";
    ++failures;
  }
  return failures == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
