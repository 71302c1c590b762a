#include "camber/runs/fewshot_source.h"

#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <unistd.h>

#include "camber/drawing/canvas.h"
#include "camber/episodes/tabular_sets.h"

namespace camber::runs {
namespace {

namespace fs = std::filesystem;

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

SourceOptions small_glyphs() {
  SourceOptions options{.test_classes = 4};
  options.glyphs = {.classes = 12, .hands = 4, .size = 16, .domains = {"ink", "inverted", "noisy"}};
  return options;
}

class Source : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("camber_source_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void put_image(const fs::path& name) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << drawing::encode_png(drawing::Canvas(16, 16));
  }
  fs::path folder_;
};

TEST_F(Source, HoldsClassesOutForTheTest) {
  const auto data = load_episode_data(small_glyphs());
  EXPECT_EQ(data.setting, "novel classes");
  EXPECT_EQ(data.train.num_classes(), 8);
  EXPECT_EQ(data.test.num_classes(), 4);
  EXPECT_EQ(data.test.size(), 4 * 3 * 4);
  EXPECT_TRUE(episodes::shared_classes(data.train, data.test).empty());
}

TEST_F(Source, ValidationClassesComeFromTheTrainingSetAlone) {
  auto options = small_glyphs();
  const auto plain = load_episode_data(options);
  options.validation_classes = 2;
  const auto without = load_episode_data(options);
  EXPECT_EQ(without.train.num_classes(), 6);
  EXPECT_EQ(without.test.class_names, plain.test.class_names);
  options.test_on_validation = true;
  const auto chosen = load_episode_data(options);
  EXPECT_EQ(chosen.test.num_classes(), 2);
  EXPECT_TRUE(episodes::shared_classes(chosen.test, plain.test).empty())
      << "settings are never chosen on the test classes";
  EXPECT_TRUE(episodes::shared_classes(chosen.test, chosen.train).empty());
}

TEST_F(Source, HoldsADomainOutAndSaysWhatThatIs) {
  auto options = small_glyphs();
  options.target_domain = "noisy";
  options.held_out_share = 0.5;
  const auto data = load_episode_data(options);
  EXPECT_EQ(data.setting, "domain generalisation over the same 12 classes");
  EXPECT_EQ(data.train.domain_names, (std::vector<std::string>{"ink", "inverted"}));
  EXPECT_EQ(data.train.size(), 12 * 2 * 2);
  EXPECT_EQ(data.test.size(), 12 * 2 * 2 + 12 * 4);
  EXPECT_TRUE(episodes::shared_examples(data.train, data.test).empty());
  EXPECT_EQ(data.query_domains, std::vector<std::string>{"noisy"});
  options.target_domain = "moon";
  EXPECT_NE(refusal([&] { load_episode_data(options); }).find("got 'moon'"), std::string::npos);
}

TEST_F(Source, DetectsClassesThatTrainingAndTestShare) {
  for (const char* split : {"one", "two"})
    for (const char* name : {"cat", "dog"}) put_image(fs::path(split) / name / "1.png");
  put_image("two/emu/1.png");
  SourceOptions options{.kind = SourceKind::kImageFolders,
                        .path = (folder_ / "one").string(),
                        .test_path = (folder_ / "two").string(),
                        .size = 16};
  EXPECT_NE(refusal([&] {
              load_episode_data(options);
            }).find("2 of the test's 3 classes are training classes too (cat, dog)"),
            std::string::npos);
  options.drop_shared_classes = true;
  const auto data = load_episode_data(options);
  EXPECT_EQ(data.test.class_names, std::vector<std::string>{"emu"});
  ASSERT_EQ(data.notes.size(), 1U);
  EXPECT_NE(data.notes[0].find("left out of the test"), std::string::npos);
}

TEST_F(Source, RefusesOptionsThatDoNotFit) {
  EXPECT_NE(refusal([] { SourceOptions{.kind = SourceKind::kLetter}.validate(); }).find("path must name the data"),
            std::string::npos);
  EXPECT_NE(refusal([] { SourceOptions{.test_on_validation = true}.validate(); }).find("validation_classes"),
            std::string::npos);
}

}  // namespace
}  // namespace camber::runs
