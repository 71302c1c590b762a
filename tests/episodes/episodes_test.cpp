#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include <gtest/gtest.h>
#include <unistd.h>

#include "camber/drawing/canvas.h"
#include "camber/episodes/archive.h"
#include "camber/episodes/episode.h"
#include "camber/episodes/image_sets.h"
#include "camber/episodes/tabular_sets.h"
#include "camber/storage/atomic_file.h"

namespace camber::episodes {
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

#define EXPECT_SAYS(call, words) \
  EXPECT_NE(refusal([&] { call; }).find(words), std::string::npos) << refusal([&] { call; })

class Episodes : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("camber_episodes_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const std::string& name, const std::string& bytes) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  void put_image(const std::string& name, int width = 20, int height = 20,
                 drawing::Colour colour = {10, 20, 30}) const {
    put(name, drawing::encode_png(drawing::Canvas(width, height, colour)));
  }

  fs::path folder_;
};

ExampleSet made_set(std::int64_t classes, std::int64_t domains, std::int64_t each) {
  ExampleSet set{.name = "made", .shape = {1}};
  for (std::int64_t c = 0; c < classes; ++c)
    for (std::int64_t d = 0; d < domains; ++d)
      for (std::int64_t i = 0; i < each; ++i) {
        const std::vector<float> value{static_cast<float>(set.size())};
        set.add(value, "class" + std::to_string(c), "domain" + std::to_string(d), std::to_string(set.size()));
      }
  return set;
}

TEST_F(Episodes, SupportAndQueriesAreDisjointAndLabelled) {
  const auto set = made_set(9, 1, 8);
  const EpisodeSampler sampler(set, {.n_way = 5, .k_shot = 3, .queries = 5});
  std::set<std::int64_t> seen;
  for (std::uint64_t e = 0; e < 200; ++e) {
    const auto episode = sampler.sample(random::Stream(1, "e").at(e));
    ASSERT_EQ(episode.examples.size(), 40U);
    EXPECT_EQ(std::set(episode.examples.begin(), episode.examples.end()).size(), 40U);
    std::vector<std::int64_t> class_of_way(5, -1);
    for (std::size_t i = 0; i < 40; ++i) {
      auto& expected = class_of_way[static_cast<std::size_t>(episode.labels[i])];
      const auto actual = set.class_of[static_cast<std::size_t>(episode.examples[i])];
      if (expected < 0) expected = actual;
      EXPECT_EQ(expected, actual);
    }
    EXPECT_EQ(std::set(class_of_way.begin(), class_of_way.end()).size(), 5U);
    seen.insert(episode.examples.begin(), episode.examples.end());
  }
  EXPECT_EQ(seen.size(), 72U) << "every example is drawn some time";
  const auto again = sampler.sample(random::Stream(1, "e").at(7));
  EXPECT_EQ(again.examples, sampler.sample(random::Stream(1, "e").at(7)).examples);
}

TEST_F(Episodes, DomainsOfSupportAndQueriesAreDisjoint) {
  const auto set = made_set(6, 4, 6);
  const auto domains = [&](const Episode& episode, bool support) {
    std::set<std::int64_t> found;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(episode.examples.size()); ++i)
      if ((i < episode.num_support()) == support)
        found.insert(set.domain_of[static_cast<std::size_t>(episode.examples[static_cast<std::size_t>(i)])]);
    return found;
  };
  const EpisodeSampler sampler(set, {.n_way = 4, .k_shot = 2, .queries = 3, .cross_domain = true});
  std::set<std::set<std::int64_t>> supports;
  for (std::uint64_t e = 0; e < 100; ++e) {
    const auto episode = sampler.sample(random::Stream(2, "e").at(e));
    const auto support = domains(episode, true), query = domains(episode, false);
    for (const auto d : support) EXPECT_FALSE(query.contains(d));
    supports.insert(support);
  }
  EXPECT_GT(supports.size(), 5U);
  const EpisodeSampler fixed(set, {.n_way = 4,
                                   .k_shot = 2,
                                   .queries = 3,
                                   .cross_domain = true,
                                   .support_domains = {"domain0", "domain2"},
                                   .query_domains = {"domain3"}});
  const auto episode = fixed.sample(random::Stream(2, "e"));
  EXPECT_EQ(domains(episode, false), std::set<std::int64_t>{3});
}

TEST_F(Episodes, SaysWhatIsTooSmall) {
  auto set = made_set(5, 1, 8);
  set.add(std::vector<float>{0}, "lonely", "domain0", "x");
  EXPECT_SAYS(EpisodeSampler(set, {.n_way = 5, .k_shot = 1, .queries = 5}), "class 'lonely' of made has 1 examples");
  EXPECT_SAYS(EpisodeSampler(set, {.n_way = 7}), "n_way must be at most the 6 classes of made, got 7");
  EXPECT_SAYS(EpisodeSampler(set, {.n_way = 2, .k_shot = 1, .queries = 1, .cross_domain = true}),
              "at least two domains");
  const auto many = made_set(3, 3, 4);
  EXPECT_SAYS(EpisodeSampler(many, {.n_way = 2, .k_shot = 5, .queries = 1, .cross_domain = true}),
              "has 4 examples in domain0");
  EXPECT_SAYS(EpisodeSampler(many, {.n_way = 2, .cross_domain = true, .support_domains = {"moon"}}), "got 'moon'");
}

TEST_F(Episodes, SplitsShareNothing) {
  const auto set = made_set(10, 3, 6);
  const auto classes = split_classes(set, 3, random::Stream(1, "s"));
  EXPECT_EQ(classes.first.num_classes(), 3);
  EXPECT_EQ(classes.second.num_classes(), 7);
  EXPECT_TRUE(shared_classes(classes.first, classes.second).empty());
  const auto halves = split_examples(set, 0.5, random::Stream(1, "s"));
  EXPECT_EQ(halves.first.size(), 90);
  EXPECT_TRUE(shared_examples(halves.first, halves.second).empty());
  EXPECT_EQ(shared_classes(halves.first, halves.second).size(), 10U);
  const std::vector<std::string> two{"class2", "class5"};
  EXPECT_EQ(select_classes(set, two).class_names, two);
  EXPECT_EQ(select_classes(set, two, true).num_classes(), 8);
  EXPECT_NE(set.fingerprint(), halves.first.fingerprint());
  EXPECT_SAYS(split_classes(set, 10, random::Stream(1, "s")), "from 1 to 9, got 10");
}

TEST_F(Episodes, RotationsAreClassesOfTheirOwn) {
  ExampleSet set{.name = "small", .shape = {1, 2, 2}};
  set.add(std::vector<float>{1, 2, 3, 4}, "a", "all", "a1");
  const auto turned = add_rotations(set);
  ASSERT_EQ(turned.num_classes(), 4);
  const auto values = [&](std::int64_t i) {
    const auto example = turned.example(i);
    return std::vector<float>(example.begin(), example.end());
  };
  EXPECT_EQ(values(1), (std::vector<float>{2, 4, 1, 3}));  // a quarter against the clock
  EXPECT_EQ(values(2), (std::vector<float>{4, 3, 2, 1}));
  EXPECT_EQ(values(3), (std::vector<float>{3, 1, 4, 2}));
  EXPECT_EQ(turned.class_names[2], "a@180");
}

TEST_F(Episodes, ReadsFoldersOfClassesAndOfDomains) {
  for (const char* domain : {"photo", "sketch"})
    for (const char* name : {"dog", "horse"})
      for (const char* file : {"1.png", "2.png"}) put_image(std::string("pets/") + domain + "/" + name + "/" + file);
  const auto set = read_domain_folder({.path = folder_ / "pets", .size = 16});
  EXPECT_EQ(set.size(), 8);
  EXPECT_EQ(set.class_names, (std::vector<std::string>{"dog", "horse"}));
  EXPECT_EQ(set.domain_names, (std::vector<std::string>{"photo", "sketch"}));
  EXPECT_EQ(set.shape, (std::vector<std::int64_t>{3, 16, 16}));
  EXPECT_NEAR(set.example(0)[0], 10 / 255.0, 1e-6);
  EXPECT_NEAR(set.example(0)[std::size_t{2} * 256], 30 / 255.0, 1e-6);
  const auto plain = read_image_folder({.path = folder_ / "pets" / "photo", .size = 0, .colour = false, .ink = true});
  EXPECT_EQ(plain.shape, (std::vector<std::int64_t>{1, 20, 20}));
  EXPECT_NEAR(plain.example(0)[0], 1 - (0.299 * 10 + 0.587 * 20 + 0.114 * 30) / 255, 1e-5);
}

TEST_F(Episodes, SpeaksOfBadImagesFoldersAndSizes) {
  put_image("a/x/1.png");
  put("a/x/2.png", "this is no image");
  EXPECT_SAYS(read_image_folder({.path = folder_ / "a"}), "x/2.png must be a PNG or JPEG image");
  const std::string whole = drawing::encode_png(drawing::Canvas(20, 20));
  put("a/x/2.png", whole.substr(0, whole.size() / 2));
  EXPECT_SAYS(read_image_folder({.path = folder_ / "a"}), "x/2.png is a damaged PNG file");
  put("a/x/2.png", "\xFF\xD8\xFF\xE0 cut");
  EXPECT_SAYS(read_image_folder({.path = folder_ / "a"}), "x/2.png");
  put("a/x/2.png", "");
  EXPECT_SAYS(read_image_folder({.path = folder_ / "a"}), "an empty file");
  put_image("a/x/2.png", 30, 20);
  EXPECT_SAYS(read_image_folder({.path = folder_ / "a", .size = 0}),
              "has 30 x 20 pixels, but the images before it 20 x 20");
  EXPECT_EQ(read_image_folder({.path = folder_ / "a", .size = 16}).size(), 2) << "with a size they are scaled";
  fs::create_directories(folder_ / "a" / "empty");
  EXPECT_SAYS(read_image_folder({.path = folder_ / "a"}), "empty is an empty folder");
  fs::create_directories(folder_ / "nothing");
  EXPECT_SAYS(read_image_folder({.path = folder_ / "nothing"}), "holds none");
  EXPECT_SAYS(read_image_folder({.path = folder_ / "absent"}), "absent");
  put_image("flat/1.png");
  EXPECT_SAYS(read_image_folder({.path = folder_ / "flat"}), "must lie in a folder of the form <class>/<image>");
}

TEST_F(Episodes, ReadsLibFewShotLists) {
  put_image("mini/images/a.png");
  put_image("mini/images/b.png");
  put("mini/train.csv", "image_name,class_name\na.png,cat\r\nb.png,dog\n");
  const auto set = read_libfewshot({.path = folder_ / "mini", .size = 16}, "train");
  EXPECT_EQ(set.class_names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(set.origins[1], "b.png");
  put("mini/test.csv", "image_name,class_name\na.png\n");
  EXPECT_SAYS(read_libfewshot({.path = folder_ / "mini"}, "test"), "test.csv:2 must have two fields");
  EXPECT_SAYS(read_libfewshot({.path = folder_ / "mini"}, "val"), "val.csv");
}

TEST_F(Episodes, TakesNoImageFromOutsideOfItsFolder) {
  put_image("secret.png");
  put_image("mini/images/a.png");
  put("mini/train.csv", "image_name,class_name\na.png,cat\n../../secret.png,dog\n");
  EXPECT_SAYS(read_libfewshot({.path = folder_ / "mini", .size = 16}, "train"), "must name images inside of");
  put("mini/train.csv", "image_name,class_name\n" + std::string(1025, 'x') + ",cat\n");
  EXPECT_SAYS(read_libfewshot({.path = folder_ / "mini", .size = 16}, "train"), "in at most 1024 bytes, which line 2");
  std::filesystem::create_symlink(folder_ / "secret.png", folder_ / "mini/images/b.png");
  put("mini/train.csv", "image_name,class_name\na.png,cat\nb.png,dog\n");
  EXPECT_SAYS(read_libfewshot({.path = folder_ / "mini", .size = 16}, "train"), "but leads outside");
  put_image("birds/wren/1.png");
  std::filesystem::create_symlink(folder_ / "secret.png", folder_ / "birds/wren/2.png");
  EXPECT_SAYS(read_image_folder({.path = folder_ / "birds", .size = 16}), "but leads outside");
}

TEST_F(Episodes, ReadsTheLetterTable) {
  put("letters", "T,2,8,3,5,1,8,13,0,6,6,10,8,0,8,0,8\nI,5,12,3,7,2,10,5,5,4,13,3,9,2,8,4,10\n");
  const auto set = read_letter(folder_ / "letters");
  EXPECT_EQ(set.size(), 2);
  EXPECT_EQ(set.num_classes(), 26);
  EXPECT_EQ(set.class_of[0], 'T' - 'A');
  EXPECT_NEAR(set.example(0)[0], 2 / 7.5 - 1, 1e-6);
  put("letters", "T,2,8,3,5,1,8,13,0,6,6,10,8,0,8,0\n");
  EXPECT_SAYS(read_letter(folder_ / "letters"), "letters:1 must be a capital letter and 16 numbers");
  put("letters", "T,2,8,3,5,1,8,13,0,6,6,10,8,0,8,0,99\n");
  EXPECT_SAYS(read_letter(folder_ / "letters"), "from 0 to 15");
}

TEST_F(Episodes, FeaturesComeBackAsTheyWere) {
  const auto set = made_set(3, 2, 2);
  write_features(folder_ / "f.safetensors", set);
  const auto read = read_features(folder_ / "f.safetensors");
  EXPECT_EQ(read.values, set.values);
  EXPECT_EQ(read.class_of, set.class_of);
  EXPECT_EQ(read.domain_of, set.domain_of);
  EXPECT_EQ(read.class_names, set.class_names);
  put("bad.safetensors", "no");
  EXPECT_SAYS(read_features(folder_ / "bad.safetensors"), "bad.safetensors");
}

// A tar of one file, as `tar cf` writes it.
std::string tar_of(const std::string& name, const std::string& content) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 7, "0000644");
  char size[12];
  std::snprintf(size, sizeof size, "%011o", static_cast<unsigned>(content.size()));
  header.replace(124, 11, size);
  header[156] = '0';
  header.replace(257, 5, "ustar");
  header.replace(263, 2, "00");
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  header.replace(148, 7, std::string(text, 7));
  return header + content + std::string((512 - content.size() % 512) % 512, '\0') + std::string(1024, '\0');
}

TEST_F(Episodes, ReadsTarsAndRefusesDamagedOnes) {
  const std::string tar = tar_of("photo/dog/1.png", drawing::encode_png(drawing::Canvas(20, 20)));
  put("a.tar", tar);
  EXPECT_EQ(read_domain_folder({.path = folder_ / "a.tar", .size = 16}).size(), 1);
  put("cut.tar", tar.substr(0, 560));
  EXPECT_SAYS(Archive(folder_ / "cut.tar"), "cut.tar is cut off");
  std::string damaged = tar;
  damaged[3] = 'X';
  put("bad.tar", damaged);
  EXPECT_SAYS(Archive(folder_ / "bad.tar"), "damaged header at byte 0");
  put("other", "something else entirely");
  EXPECT_SAYS(Archive(folder_ / "other"), "must be a folder, a zip or a tar");
}

fs::path real_data() {
  const char* root = std::getenv("CAMBER_DATA");
  return fs::path(root != nullptr && *root != '\0' ? root : "../shared/data");
}

TEST_F(Episodes, ReadsOmniglotAsItIsDistributed) {
  const auto root = real_data() / "omniglot";
  if (!fs::exists(root / "images_background_small1.zip")) GTEST_SKIP() << "no Omniglot below CAMBER_DATA";
  const ImageSetOptions options{
      .path = root / "images_background_small1.zip", .size = 28, .colour = false, .ink = true};
  const auto small1 = read_omniglot(options);
  EXPECT_EQ(small1.num_classes(), 136);
  EXPECT_EQ(small1.size(), 136 * 20);
  double ink = 0;
  for (const float value : small1.values) {
    ASSERT_GE(value, -1e-6F);
    ASSERT_LE(value, 1.00001F);
    ink += value;
  }
  EXPECT_NEAR(ink / static_cast<double>(small1.values.size()), 0.07, 0.04) << "strokes are few and have the value 1";
  auto second = options;
  second.path = root / "images_background_small2.zip";
  const auto small2 = read_omniglot(second);
  EXPECT_EQ(small2.num_classes(), 156);
  EXPECT_EQ(shared_classes(small1, small2).size(), 50U);
  auto runs_options = options;
  runs_options.path = root / "all_runs.zip";
  const auto runs = read_omniglot_runs(runs_options);
  ASSERT_EQ(runs.episodes.size(), 20U);
  for (const Episode& run : runs.episodes) {
    EXPECT_EQ(run.n_way, 20);
    EXPECT_EQ(run.examples.size(), 40U);
    EXPECT_EQ(std::set(run.examples.begin(), run.examples.end()).size(), 40U);
    EXPECT_EQ(std::set(run.labels.begin() + 20, run.labels.end()).size(), 20U);
  }
}

TEST_F(Episodes, RefusesADamagedZip) {
  const auto path = real_data() / "omniglot" / "all_runs.zip";
  if (!fs::exists(path)) GTEST_SKIP() << "no Omniglot below CAMBER_DATA";
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  put("cut.zip", bytes.substr(0, bytes.size() / 2));
  EXPECT_SAYS(Archive(folder_ / "cut.zip"), "cut.zip is cut off");
  std::string damaged = bytes;
  for (std::size_t i = 400; i < 2000; ++i) damaged[i] = static_cast<char>(damaged[i] ^ 0x5A);
  put("bad.zip", damaged);
  const Archive archive(folder_ / "bad.zip");
  EXPECT_SAYS(for (std::size_t i = 0; i < archive.names().size(); ++i) archive.read(i), "has a damaged file");
}

TEST_F(Episodes, CutAndFlippedZipsNeverCrash) {
  const auto path = real_data() / "omniglot" / "all_runs.zip";
  if (!fs::exists(path)) GTEST_SKIP() << "no Omniglot below CAMBER_DATA";
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  random::Stream stream(3, "zip");
  for (int round = 0; round < 40; ++round) {
    std::string damaged = bytes.substr(bytes.size() - 4000 - stream.integer(60000));
    damaged.replace(0, 4, "PK\3\4");
    for (int i = 0; i < 20; ++i) damaged[stream.integer(damaged.size())] = static_cast<char>(stream.integer(256));
    put("random.zip", damaged);
    refusal([&] {
      const Archive archive(folder_ / "random.zip");
      for (std::size_t i = 0; i < archive.names().size(); ++i) refusal([&] { archive.read(i); });
    });
  }
}

}  // namespace
}  // namespace camber::episodes
