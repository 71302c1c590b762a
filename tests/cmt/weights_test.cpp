// The names, shapes and layouts of CMT's weights, in and out.
#include "camber/detection/weights.h"

#include <fstream>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "camber/detection/cmt_weights.h"
#include "cmt/golden_fixture.h"
#include "cmt/recipe.h"
#include "storage/scratch_folder.h"
#include "support/comparison.h"

namespace camber::cmt_tests {
namespace {

using camber::proof::error_of;
using namespace detection;
using weights::NamedTensor;

struct Model {
  std::string preset, original;
  std::size_t tensors;
  std::int64_t parameters;
};
const std::vector<Model> kPublished = {{"cmt_r50", "cmt_voxel0100_r50_800x320_cbgs", 689, 40919572},
                                       {"cmt_vov", "cmt_voxel0075_vov_1600x640_cbgs", 997, 86607380},
                                       {"cmt_lidar", "cmt_lidar_voxel0075_cbgs", 361, 16769492},
                                       {"cmt_camera", "cmt_camera_vov_1600x640_cbgs", 781, 78156100}};

// Numbers of those shapes that differ from tensor to tensor and within them.
std::vector<NamedTensor> numbered(const std::vector<NamedTensor>& like) {
  std::vector<NamedTensor> state;
  for (const auto& [name, tensor] : like) {
    const auto start = static_cast<double>(state.size());
    state.push_back({name, tensor.is_floating_point()
                               ? torch::arange(tensor.numel(), torch::kFloat).mul(1e-3).add(start).view(tensor.sizes())
                               : torch::full(tensor.sizes(), static_cast<std::int64_t>(start), torch::kLong)});
  }
  return state;
}

::testing::AssertionResult equal_states(const std::vector<NamedTensor>& actual,
                                        const std::vector<NamedTensor>& expected) {
  if (actual.size() != expected.size())
    return ::testing::AssertionFailure() << actual.size() << " tensors, expected " << expected.size();
  std::map<std::string, torch::Tensor> named;
  for (const auto& [name, tensor] : expected) named[name] = tensor;
  for (const auto& [name, tensor] : actual)
    if (!named.contains(name) || !tensor.equal(named[name])) return ::testing::AssertionFailure() << name << " differs";
  return ::testing::AssertionSuccess();
}

std::vector<NamedTensor> in_layout(std::vector<NamedTensor> state, SpconvLayout layout) {
  if (layout == SpconvLayout::kTwo) return state;
  for (auto& [name, tensor] : state)
    if (tensor.dim() == 5) tensor = tensor.permute({1, 2, 3, 4, 0}).contiguous();
  return state;
}

class CmtRoundTrip : public ::testing::TestWithParam<Model> {};

// One detector for all, since those of the published sizes take seconds to make.
TEST_P(CmtRoundTrip, LosesNothingInEitherLayout) {
  const auto& [preset, original, tensors, parameters] = GetParam();
  const Detector detector(DetectorOptions::preset(preset));
  const auto two = numbered(export_cmt(*detector, SpconvLayout::kTwo));
  const auto one = in_layout(two, SpconvLayout::kOne);
  EXPECT_EQ(two.size(), tensors);
  std::int64_t count = 0;
  for (const auto& parameter : detector->parameters()) count += parameter.numel();
  EXPECT_EQ(count, parameters);
  EXPECT_TRUE(import_cmt(one, *detector.ptr(), "state").complete());
  EXPECT_TRUE(equal_states(export_cmt(*detector, SpconvLayout::kTwo), two));
  for (auto& parameter : detector->parameters()) parameter.data().zero_();
  EXPECT_TRUE(import_cmt(two, *detector.ptr(), "state").complete());
  EXPECT_TRUE(equal_states(export_cmt(*detector, SpconvLayout::kOne), one));

  const auto file = golden_folder() / "state_dict.json";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no names of CMT in " << file << " (set CAMBER_DATA)";
  std::map<std::string, std::vector<std::int64_t>> expected, actual;
  const auto json = nlohmann::json::parse(std::ifstream(file));
  for (const auto& entry : json.at("configs").at(original).at("entries"))
    expected[entry.at("name")] = entry.at("shape").get<std::vector<std::int64_t>>();
  for (const auto& [name, tensor] : two) actual[name] = tensor.sizes().vec();
  EXPECT_EQ(actual, expected);
}

INSTANTIATE_TEST_SUITE_P(Models, CmtRoundTrip, ::testing::ValuesIn(kPublished),
                         [](const auto& model) { return model.param.preset; });

class CmtWeights : public storage::ScratchFolder {
 protected:
  CmtWeights() : detector_(small_options()), state_(numbered(export_cmt(*detector_, SpconvLayout::kTwo))) {}

  std::string refusal(const std::vector<NamedTensor>& state) {
    return error_of([&] { import_cmt(state, *detector_, "file.pth"); });
  }
  std::vector<NamedTensor> prefixed(const std::string& prefix) const {
    auto state = state_;
    for (auto& entry : state) entry.name.insert(0, prefix);
    return state;
  }
  bool took(const std::vector<NamedTensor>& expected) const {
    return static_cast<bool>(equal_states(export_cmt(*detector_, SpconvLayout::kTwo), expected));
  }

  Detector detector_;
  std::vector<NamedTensor> state_;
};

TEST_F(CmtWeights, ReadsNamesBehindThePrefixesOfWrappers) {
  for (const char* prefix : {"module.", "state_dict.", "state_dict.module.", "model.", "ema_model.module.", "ema."}) {
    for (auto& parameter : detector_->parameters()) parameter.data().zero_();
    EXPECT_TRUE(import_cmt(prefixed(prefix), *detector_, "file").complete()) << prefix;
    EXPECT_TRUE(took(state_)) << prefix;
  }
}

TEST_F(CmtWeights, TakesTheRunningAverageUnlessToldOtherwise) {
  auto both = prefixed("state_dict.");
  auto plain = state_;
  for (auto& [name, tensor] : both)
    if (tensor.is_floating_point()) tensor = tensor + 1;
  for (std::size_t i = 0; i < plain.size(); ++i) plain[i].tensor = both[i].tensor;
  for (const auto& entry : prefixed("ema_state_dict.module.")) both.push_back(entry);
  const auto report = import_cmt(both, *detector_, "file");
  EXPECT_TRUE(took(state_));
  EXPECT_EQ(report.notes.at(0), "the running average was taken");
  import_cmt(both, *detector_, "file", TakenWeights::kPlain);
  EXPECT_TRUE(took(plain));
}

TEST_F(CmtWeights, PassesOverTheSecondCopyThatMmcvKeeps) {
  auto state = state_;
  for (const auto& [name, tensor] : state_) {
    std::string copy = "ema_" + name;
    std::replace(copy.begin(), copy.end(), '.', '_');
    state.push_back({copy, tensor + 1});
  }
  const auto report = import_cmt(state, *detector_, "file");
  EXPECT_TRUE(took(state_));
  EXPECT_EQ(report.notes.at(0), "635 tensors named ema_... were passed over: a second copy of the weights");
}

TEST_F(CmtWeights, AccountsForEveryName) {
  auto state = state_;
  std::erase_if(state, [](const NamedTensor& e) { return e.name == "img_neck.fpn_convs.0.conv.bias"; });
  state.push_back({"img_backbone.fc.weight", torch::zeros({2, 2})});
  for (auto& [name, tensor] : state)
    if (name == "pts_bbox_head.bev_embedding.0.weight") tensor = torch::zeros({64, 100});
  const auto before = export_cmt(*detector_, SpconvLayout::kTwo);
  std::vector<torch::Tensor> copies;
  copies.reserve(before.size());
  for (const auto& entry : before) copies.push_back(entry.tensor.clone());
  EXPECT_EQ(refusal(state),
            "[cmt] file.pth must hold the weights of this CMT, got 633 that fit, 1 missing "
            "(img_neck.fpn_convs.0.conv.bias), 1 unknown (img_backbone.fc.weight) and 1 of another shape "
            "(pts_bbox_head.bev_embedding.0.weight is F32 [64, 100], not F32 [64, 128])");
  const auto after = export_cmt(*detector_, SpconvLayout::kTwo);
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(after[i].tensor.equal(copies[i])) << after[i].name;
  const auto report = import_cmt(state, *detector_, "file.pth", TakenWeights::kAverage, /*partial=*/true);
  EXPECT_EQ(report.loaded.size(), 633);
  EXPECT_EQ(report.unknown, std::vector<std::string>{"img_backbone.fc.weight"});
}

TEST_F(CmtWeights, RefusesAnotherModelInOneSentence) {
  const auto sentence = refusal({{"backbone.conv1.weight", torch::zeros({3})}, {"fc.bias", torch::zeros({2})}});
  EXPECT_NE(sentence.find("got 0 that fit"), std::string::npos) << sentence;
  EXPECT_EQ(sentence.find('\n'), std::string::npos);
  EXPECT_NE(error_of([&] {
              import_cmt({{"fc.bias", torch::zeros({2})}}, *detector_, "f", TakenWeights::kAverage, true);
            }).find("got 0 that fit"),
            std::string::npos);
  Detector other(DetectorOptions::small());
  EXPECT_EQ(error_of([&] { import_cmt(state_, *other, "f"); }),
            "[cmt] the detector must be CMT's: encoder.kind, head.position_embedding and head.box_code \"cmt\", "
            "head.references \"learned\"");
}

TEST_F(CmtWeights, LeavesRouterAndBiasAlone) {
  auto options = small_options();
  options.router = {.mode = nn::RouterMode::kLearned, .width = 64, .num_heads = 4, .feedforward_width = 64};
  options.bias.num_layers = 3;
  Detector biased(options, 3);
  const auto report = import_cmt(state_, *biased, "file");
  EXPECT_TRUE(report.complete());
  EXPECT_FALSE(names_beyond_cmt(*biased).empty());
  EXPECT_TRUE(equal_states(export_cmt(*biased, SpconvLayout::kTwo), state_));
  EXPECT_NE(report.text().find("tensors of router and bias are not the original's"), std::string::npos);
}

TEST_F(CmtWeights, FilesOfBothKindsComeBack) {
  import_cmt(state_, *detector_, "state");
  for (const auto& [name, layout] : std::vector<std::pair<std::string, std::optional<SpconvLayout>>>{
           {"a.pth", {}}, {"b.safetensors", {}}, {"c.safetensors", SpconvLayout::kTwo}}) {
    write_cmt_file(*detector_, folder_ / name, layout);
    Detector again(small_options(), 9);
    const auto report = import_cmt(read_cmt_file(folder_ / name), *again, name);
    EXPECT_TRUE(equal_states(export_cmt(*again, SpconvLayout::kTwo), state_)) << name;
    const bool turned = report.text().find("spconv 1") != std::string::npos;
    EXPECT_EQ(turned, name == "b.safetensors") << name;
  }
  EXPECT_NE(error_of([&] { write_cmt_file(*detector_, folder_ / "d.pth", SpconvLayout::kOne); }).find("_metadata"),
            std::string::npos);
  EXPECT_NE(error_of([&] { write_cmt_file(*detector_, folder_ / "d.txt"); }).find(".pth or .safetensors"),
            std::string::npos);
}

TEST_F(CmtWeights, AnImportedDetectorIsSavedAndLoadedAsAnyOther) {
  import_cmt(state_, *detector_, "state");
  save(*detector_, folder_ / "model.safetensors");
  const auto loaded = Detector::load(folder_ / "model.safetensors");
  EXPECT_TRUE(equal_states(export_cmt(*loaded, SpconvLayout::kTwo), state_));
}

TEST(CmtRecipe, GivesTheStoredWeightsToTheBit) {
  const auto rules = golden_folder() / "weight_rules.json";
  if (!std::filesystem::exists(rules)) GTEST_SKIP() << "no rules in " << golden_folder() << " (set CAMBER_DATA)";
  auto stored = Golden("weights.safetensors").all();
  for (auto& [name, tensor] : stored)
    if (!tensor.is_floating_point()) tensor = tensor.view({});
  EXPECT_TRUE(equal_states(recipe_weights(stored, read_rules(rules), 19), stored));
}

}  // namespace
}  // namespace camber::cmt_tests
