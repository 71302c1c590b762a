#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>

#include <camber/config/options.h>
#include <camber/nn/attention_bias_options.h>
#include <camber/nn/bounded_scale_options.h>
#include <gtest/gtest.h>

namespace camber::nn {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct BadOptions {
  const char* name;
  BoundedScaleOptions options;
  const char* sentence;
};

class BadOptionsTest : public testing::TestWithParam<BadOptions> {};

TEST_P(BadOptionsTest, SaysExactlyWhatIsWrong) {
  try {
    GetParam().options.validate();
    FAIL() << "was accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), GetParam().sentence);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadOptionsTest,
    testing::Values(
        BadOptions{"InitAbove", {.init = 7}, "[bounded_scale] init must lie inside [min, max] = [0.5, 5], got 7"},
        BadOptions{"InitBelow", {.init = 0.1}, "[bounded_scale] init must lie inside [min, max] = [0.5, 5], got 0.1"},
        BadOptions{"InitNan", {.init = kNan}, "[bounded_scale] init must be a finite number, got nan"},
        BadOptions{"MinNan", {.min = kNan}, "[bounded_scale] min must be a finite number, got nan"},
        BadOptions{"MaxInfinite", {.max = INFINITY}, "[bounded_scale] max must be a finite number, got inf"},
        BadOptions{"MinAboveMax", {.min = 5, .max = 0.5}, "[bounded_scale] min must be below max, got 5 and 0.5"},
        BadOptions{
            "MinEqualsMax", {.init = 2, .min = 2, .max = 2}, "[bounded_scale] min must be below max, got 2 and 2"},
        BadOptions{"LogSpaceFromZero",
                   {.min = 0, .space = Space::kLog},
                   "[bounded_scale] min must be above 0 in log space, got 0"},
        BadOptions{"LogClampFromBelowZero",
                   {.min = -1, .constraint = Constraint::kLogClamp},
                   "[bounded_scale] min must be above 0 in log space, got -1"},
        BadOptions{"SigmoidAtBound",
                   {.init = 5, .constraint = Constraint::kSigmoid},
                   "[bounded_scale] init must lie strictly inside [min, max] = [0.5, 5] for sigmoid, which never "
                   "touches a bound, got 5"},
        BadOptions{
            "WarnNan", {.warn_threshold = kNan}, "[bounded_scale] warn_threshold must be a finite number, got nan"},
        BadOptions{"NegativePull",
                   {.l2_weight = -0.01},
                   "[bounded_scale] l2_weight must be a finite number of at least 0, got -0.01"},
        BadOptions{"CenterNan", {.l2_center = {kNan}}, "[bounded_scale] l2_center must be a finite number, got nan"},
        BadOptions{"TooManyCenters",
                   {.l2_center = {1, 2}, .shape = {3}},
                   "[bounded_scale] l2_center must be empty, one number or one for each of the 3 elements, got 2 "
                   "numbers"},
        BadOptions{"EmptyShape", {.shape = {6, 0}}, "[bounded_scale] shape must hold sizes of at least 1, got 0"},
        BadOptions{"StageWithoutStart",
                   {.bounds_schedule = {{.min = 1, .max = 2.5}}},
                   "[bounded_scale] bounds_schedule[0] must give either from_epoch or from_step, got from_epoch -1 and "
                   "from_step -1"},
        BadOptions{"StageWithTwoStarts",
                   {.bounds_schedule = {{.from_epoch = 3, .from_step = 40, .min = 1, .max = 2.5}}},
                   "[bounded_scale] bounds_schedule[0] must give either from_epoch or from_step, got from_epoch 3 and "
                   "from_step 40"},
        BadOptions{"StagesInTwoUnits",
                   {.bounds_schedule = {{.from_epoch = 1}, {.from_step = 900}}},
                   "[bounded_scale] bounds_schedule[1] must count in epochs like the stage before it, got from_step"},
        BadOptions{
            "StagesOutOfOrder",
            {.bounds_schedule = {{.from_step = 50}, {.from_step = 50}}},
            "[bounded_scale] bounds_schedule[1].from_step must be above that of the stage before it, 50, got 50"},
        BadOptions{"StageUpsideDown",
                   {.bounds_schedule = {{.from_epoch = 5, .min = 4, .max = 0.5}}},
                   "[bounded_scale] bounds_schedule[0].min must be below bounds_schedule[0].max, got 4 and 0.5"},
        BadOptions{"StageFromZeroInLogSpace",
                   {.space = Space::kLog, .bounds_schedule = {{.from_epoch = 5, .min = 0, .max = 5}}},
                   "[bounded_scale] bounds_schedule[0].min must be above 0 in log space, got 0"},
        BadOptions{"InitOutsideFirstStage",
                   {.init = 3, .bounds_schedule = {{.from_epoch = 0, .min = 1, .max = 2.5}}},
                   "[bounded_scale] init must lie inside the bounds of bounds_schedule[0] = [1, 2.5], got 3"}),
    [](const auto& case_info) { return case_info.param.name; });

TEST(BoundedScaleOptions, DefaultsAreThoseOfTheSpecification) {
  const BoundedScaleOptions options;
  options.validate();
  EXPECT_EQ(options.init, 2.5);
  EXPECT_TRUE(options.learnable);
  EXPECT_EQ(options.min, 0.5);
  EXPECT_EQ(options.max, 5.0);
  EXPECT_EQ(options.constraint, Constraint::kProjected);
  EXPECT_EQ(options.space, Space::kLinear);
  EXPECT_EQ(options.warn_threshold, 4.0);
  EXPECT_EQ(options.l2_weight, 0.0);
}

TEST(BoundedScaleOptions, BoundsFollowTheScheduleByEpochOrStep) {
  BoundedScaleOptions options{.bounds_schedule = {{.from_epoch = 0, .min = 1.0, .max = 2.5},
                                                  {.from_epoch = 5, .min = 0.5, .max = 4.0},
                                                  {.from_epoch = 15, .min = 0.1, .max = 5.0}}};
  options.validate();
  using Bounds = std::pair<double, double>;
  EXPECT_EQ(options.bounds_at(0, 99999), Bounds(1.0, 2.5));
  EXPECT_EQ(options.bounds_at(4, 0), Bounds(1.0, 2.5));
  EXPECT_EQ(options.bounds_at(5, 0), Bounds(0.5, 4.0));
  EXPECT_EQ(options.bounds_at(40, 0), Bounds(0.1, 5.0));

  options.bounds_schedule = {{.from_step = 100, .min = 1.0, .max = 3.0}};
  options.validate();
  EXPECT_EQ(options.bounds_at(77, 99), Bounds(0.5, 5.0));
  EXPECT_EQ(options.bounds_at(0, 100), Bounds(1.0, 3.0));
}

TEST(BoundedScaleOptions, VisitListsEveryOption) {
  std::vector<std::string> names;
  const auto collect = [&names](const char* name, const auto& /*field*/, const char* meaning, auto&&... /*range*/) {
    EXPECT_NE(std::string_view(meaning), "");
    names.emplace_back(name);
  };
  BoundedScaleOptions options;
  options.visit(collect);
  EXPECT_EQ(names, (std::vector<std::string>{"init", "learnable", "min", "max", "constraint", "space", "warn_threshold",
                                             "l2_weight", "l2_center", "bounds_schedule", "shape"}));
  names.clear();
  BoundsStage stage;
  stage.visit(collect);
  EXPECT_EQ(names, (std::vector<std::string>{"from_epoch", "from_step", "min", "max"}));
}

TEST(BoundedScaleOptions, ReadsAndWritesTomlAndRefusesWhatIsUnknown) {
  const BoundedScaleOptions options{
      .init = 25,
      .min = 1,
      .max = 100,
      .constraint = Constraint::kStraightThrough,
      .space = Space::kLog,
      .l2_weight = 0.01,
      .l2_center = {20},
      .bounds_schedule = {{.from_epoch = 0, .min = 1, .max = 30}, {.from_epoch = 5, .min = 0.1, .max = 100}},
      .shape = {6, 8}};
  EXPECT_EQ(config::parse<BoundedScaleOptions>(config::to_toml(options), "scale.toml"), options);
  EXPECT_EQ(config::parse<BoundedScaleOptions>("constraint = 'log_clamp'", "scale.toml").constraint,
            Constraint::kLogClamp);
  EXPECT_THROW(config::parse<BoundedScaleOptions>("init = 7", "scale.toml"), std::invalid_argument);
  EXPECT_THROW(config::parse<BoundedScaleOptions>("constrain = 'none'", "scale.toml"), std::invalid_argument);
}

struct PresetValues {
  const char* name;
  double init, min, max, warn;
  bool learnable;
};

TEST(ScalePreset, ValuesAreThoseOfTheSpecification) {
  const std::vector<PresetValues> expected = {
      {"conservative", 2.5, 0.5, 5.0, 4.0, true},       {"aggressive", 3.5, 1.0, 8.0, 6.0, true},
      {"ultra_conservative", 2.0, 0.5, 3.0, 2.5, true}, {"fixed", 2.5, 0.5, 5.0, 4.0, false},
      {"strong_fixed", 5.0, 0.5, 5.0, 4.0, false},      {"logit", 25, 1, 100, 80, true}};
  ASSERT_EQ(BoundedScaleOptions::presets().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(BoundedScaleOptions::presets()[i].first, expected[i].name);
    const BoundedScaleOptions preset = scale_preset(expected[i].name);
    preset.validate();
    EXPECT_EQ(preset.init, expected[i].init) << expected[i].name;
    EXPECT_EQ(preset.min, expected[i].min) << expected[i].name;
    EXPECT_EQ(preset.max, expected[i].max) << expected[i].name;
    EXPECT_EQ(preset.warn_threshold, expected[i].warn) << expected[i].name;
    EXPECT_EQ(preset.learnable, expected[i].learnable) << expected[i].name;
    EXPECT_EQ(preset.constraint, Constraint::kProjected) << expected[i].name;
    EXPECT_EQ(preset.in_log_space(), preset.init == 25) << expected[i].name;
  }
}

// A preset is read as its values: what is printed is the same whether it was named or written out.
TEST(ScalePreset, IsAnOptionOfEveryScale) {
  const auto load = [](const std::vector<std::string>& arguments) {
    return config::load<AttentionBiasOptions>({.file = {}, .arguments = arguments});
  };
  EXPECT_EQ(load({"--scale.preset=aggressive"}).scale, scale_preset("aggressive"));
  EXPECT_EQ(load({"--segment_scale.preset=ultra_conservative"}).segment_scale, scale_preset("ultra_conservative"));
  for (const auto& [name, options] : BoundedScaleOptions::presets()) {
    const auto read = config::parse<AttentionBiasOptions>("scale.preset = '" + name + "'", "bias.toml");
    EXPECT_EQ(read.scale, options) << name;
    EXPECT_EQ(config::parse<AttentionBiasOptions>(config::to_toml(read), "again.toml").scale, options) << name;
  }
  // A field beside the preset wins, whatever the order; what presets do not speak of stays.
  BoundedScaleOptions expected = scale_preset("aggressive");
  expected.max = 7;
  expected.constraint = Constraint::kSigmoid;
  expected.bounds_schedule = {{.from_epoch = 3, .min = 1, .max = 7}};
  EXPECT_EQ(load({"--scale.max=7", "--scale.preset=aggressive", "--scale.constraint=sigmoid",
                  "--scale.bounds_schedule=[{from_epoch=3, min=1, max=7}]"})
                .scale,
            expected);
}

TEST(ScalePreset, OnTheCommandLineWinsOverTheFile) {
  const auto file = std::filesystem::path(::testing::TempDir()) / "preset.toml";
  std::ofstream(file) << "init = 4.5\nl2_weight = 0.5\nmax = 6\n";
  BoundedScaleOptions expected = scale_preset("aggressive");
  expected.l2_weight = 0.5;
  const auto read = config::load<BoundedScaleOptions>({.file = file, .arguments = {"--preset=aggressive"}});
  EXPECT_EQ(read, expected);
  std::ofstream(file) << "preset = 'aggressive'\nmax = 6\n";
  expected = scale_preset("aggressive");
  expected.max = 6;
  expected.init = 4;
  EXPECT_EQ(config::load<BoundedScaleOptions>({.file = file, .arguments = {"--init=4"}}), expected);
  std::filesystem::remove(file);
}

TEST(ScalePreset, AWrongNameIsASentence) {
  try {
    config::load<AttentionBiasOptions>({.file = {}, .arguments = {"--scale.preset=bold"}});
    FAIL() << "was accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "[config] command line: --scale.preset must be conservative, aggressive, ultra_conservative, fixed, "
                 "strong_fixed or logit, got 'bold'");
  }
}

TEST(ScalePreset, HelpNamesItAndWhatItSets) {
  const auto rows = config::option_rows(config::describe<AttentionBiasOptions>());
  const auto row = std::find_if(rows.begin(), rows.end(), [](const auto& one) { return one.path == "scale.preset"; });
  ASSERT_NE(row, rows.end());
  EXPECT_EQ(row->type, "conservative|aggressive|ultra_conservative|fixed|strong_fixed|logit");
  EXPECT_EQ(row->meaning,
            "a named choice of init, learnable, min, max, space, warn_threshold; one of these written beside it, or "
            "later, wins over it");
}

TEST(ScalePreset, UnknownNameIsAnErrorThatListsTheKnownOnes) {
  try {
    scale_preset("agressive");
    FAIL() << "was accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "[scale_preset] name must be one of conservative, aggressive, ultra_conservative, fixed, "
                 "strong_fixed, logit, got 'agressive'");
  }
}

}  // namespace
}  // namespace camber::nn
