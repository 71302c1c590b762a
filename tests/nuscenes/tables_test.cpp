#include "camber/nuscenes/tables.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "camber/nuscenes/dataset.h"
#include "camber/nuscenes/paths.h"
#include "camber/nuscenes/splits.h"
#include "nuscenes/small_world.h"

namespace camber::nuscenes {
namespace {

using tests::message_of;

// The sentence that loading the small world ends in when `from` in a table is replaced by `to`.
std::string after_change(const std::string& table, const std::string& from, const std::string& to) {
  tests::TableTexts tables = tests::small_tables();
  std::string& text = tables.at(table);
  const std::size_t position = text.find(from);
  EXPECT_NE(position, std::string::npos) << table << ": " << from;
  text.replace(position, from.size(), to);
  const tests::TemporaryFolder folder;
  tests::write_small_world(folder.path(), tables, false);
  const std::string message = message_of([&] { load_tables(folder.path(), tests::kSmallVersion); });
  const std::string prefix = folder.path().string() + "/" + tests::kSmallVersion + "/";
  const std::size_t at = message.find(prefix);
  return at == std::string::npos ? message : std::string(message).erase(at, prefix.size());
}

TEST(Tables, AreReadAndJoinedByToken) {
  const tests::TemporaryFolder folder;
  tests::write_small_world(folder.path(), tests::small_tables(), false);
  const Tables tables = load_tables(folder.path(), tests::kSmallVersion);
  EXPECT_EQ(tables.scene.size(), 2);
  EXPECT_EQ(tables.sample.size(), 6);
  EXPECT_EQ(tables.sample_data.size(), 24);
  EXPECT_EQ(tables.sample_annotation.size(), 14);
  EXPECT_EQ(tables.scene[0].description, "a \"small\" scene, \xC3\xA9");
  const Index sample = tables.sample.find("sample-1-1");
  ASSERT_NE(sample, kNone);
  EXPECT_EQ(tables.scene[tables.sample[sample].scene].name, "small-1");
  EXPECT_EQ(tables.sample[tables.sample[sample].previous].token, "sample-1-0");
  EXPECT_EQ(tables.sample[tables.sample[sample].next].token, "sample-1-2");
  EXPECT_EQ(tables.sample[0].previous, kNone);
  EXPECT_EQ(tables.annotations_of(sample).size(), 2);
  EXPECT_EQ(tables.annotations_of(tables.sample.find("sample-1-0")).size(), 3);
  EXPECT_EQ(tables.key_frames_of(sample).size(), 3);
  const SampleAnnotation& annotation = tables.sample_annotation[tables.annotations_of(sample)[0]];
  ASSERT_EQ(tables.attributes_of(annotation).size(), 1);
  EXPECT_EQ(tables.attribute[tables.attributes_of(annotation)[0]].name, "vehicle.moving");
  EXPECT_EQ(tables.visibility[annotation.visibility].share, 0.2);
  EXPECT_EQ(tables.instance[annotation.instance].annotation_count, 3);
  EXPECT_EQ(tables.sample.find("sample-9-9"), kNone);
}

TEST(Tables, FollowTimeAndDoNotLoop) {
  EXPECT_NE(after_change("sample", "\"next\": \"sample-0-2\"", "\"next\": \"sample-0-0\"")
                .find("next must be a later sample, got 'sample-0-0'"),
            std::string::npos);
  EXPECT_NE(after_change("sample", "\"prev\": \"sample-0-0\"", "\"prev\": \"sample-0-1\"")
                .find("prev must be an earlier sample, got 'sample-0-1'"),
            std::string::npos);
  EXPECT_NE(after_change("sample_data", "\"next\": \"data-0-LIDAR_TOP-1\"", "\"next\": \"data-0-LIDAR_TOP-0\"")
                .find("next must not lead back in a loop"),
            std::string::npos);
  EXPECT_NE(after_change("sample", "\"timestamp\": ", "\"timestamp\": -")
                .find("timestamp must lie between 0 and 2^62 microseconds"),
            std::string::npos);
}

TEST(Tables, MustLieInTheirFolder) {
  const tests::TemporaryFolder folder, elsewhere;
  tests::write_small_world(folder.path(), tests::small_tables(), false);
  const auto table = folder.path() / tests::kSmallVersion / "scene.json";
  std::filesystem::rename(table, elsewhere.path() / "scene.json");
  std::filesystem::create_symlink(elsewhere.path() / "scene.json", table);
  EXPECT_NE(message_of([&] { load_tables(folder.path(), tests::kSmallVersion); }).find("leads outside"),
            std::string::npos);
}

TEST(Tables, AreTheSameForAnyNumberOfThreads) {
  const tests::TemporaryFolder folder;
  tests::TableTexts texts = tests::small_tables();
  // Enough rows for many chunks.
  std::string poses = "[";
  for (int i = 0; i < 30000; ++i)
    poses += (i ? "," : "") + std::string("{\"token\":\"extra-") + std::to_string(i) +
             "\",\"timestamp\":" + std::to_string(i) + ",\"translation\":[" + std::to_string(i * 0.1) +
             ",0,0],\"rotation\":[1,0,0,0],\"unknown\":{\"list\":[1,null,NaN,\"\\n\"]}}";
  texts["ego_pose"] = poses + "," + texts["ego_pose"].substr(1);
  tests::write_small_world(folder.path(), texts, false);
  const Tables one = load_tables(folder.path(), tests::kSmallVersion, 1);
  const Tables four = load_tables(folder.path(), tests::kSmallVersion, 4);
  ASSERT_EQ(one.ego_pose.size(), 30024);
  ASSERT_EQ(four.ego_pose.size(), 30024);
  for (Index row = 0; row < 30024; ++row) {
    EXPECT_EQ(one.ego_pose[row].token, four.ego_pose[row].token);
    EXPECT_EQ(one.ego_pose[row].translation, four.ego_pose[row].translation);
    EXPECT_EQ(four.ego_pose.find(one.ego_pose[row].token), row);
  }
  // The first damaged row is named whichever thread meets it.
  texts["ego_pose"].replace(texts["ego_pose"].find("\"extra-20000\""), 13, "\"extra-19999\"");
  tests::write_small_world(folder.path(), texts, false);
  const std::string sentence = message_of([&] { load_tables(folder.path(), tests::kSmallVersion, 4); });
  EXPECT_NE(sentence.find("row 20001 (token 'extra-19999'): an earlier row has the same token"), std::string::npos)
      << sentence;
}

TEST(Tables, RefuseWhatIsDamagedInASentence) {
  EXPECT_EQ(after_change("sample", "\"scene-1\"", "\"scene-7\""),
            "[load_tables] sample.json, row 4 (token 'sample-1-0'): scene_token 'scene-7' is not in scene.json");
  EXPECT_EQ(after_change("sample_data", "\"next\": \"data-0-LIDAR_TOP-1\"", "\"next\": \"nowhere\""),
            "[load_tables] sample_data.json, row 1 (token 'data-0-LIDAR_TOP-0'): next 'nowhere' is not in "
            "sample_data.json");
  EXPECT_EQ(after_change("sample_annotation", "[\"attribute-moving\"]", "[\"attribute-flying\"]"),
            "[load_tables] sample_annotation.json, row 1 (token 'annotation-0-0-0'): attribute_tokens "
            "'attribute-flying' is not in attribute.json");
  EXPECT_EQ(after_change("sample_data", "sweeps/LIDAR_TOP/", "sweeps/../../"),
            "[load_tables] sample_data.json, row 1 (token 'data-0-LIDAR_TOP-0'): filename must stay inside the data "
            "set's folder (relative, at most 1024 bytes, no control characters), got "
            "'sweeps/../../data-0-LIDAR_TOP-0.pcd.bin'");
  EXPECT_NE(after_change("sample_data", "sweeps/LIDAR_TOP/", "sweeps/" + std::string(1024, 'x') + "/")
                .find("filename must stay inside the data set's folder (relative, at most 1024 bytes, no control "
                      "characters), got 'sweeps/xx"),
            std::string::npos);
  EXPECT_EQ(after_change("ego_pose", "[1.0, 0.0, 0.0, 0.0]", "[0, 0, 0, 0]"),
            "[load_tables] ego_pose.json, row 1 (token 'pose-data-0-LIDAR_TOP-0'): rotation must be a quaternion with "
            "a length above 0");
  EXPECT_EQ(after_change("ego_pose", "[1.0, 0.0, 0.0, 0.0]", "[1, 0, 0]"),
            "[load_tables] ego_pose.json, row 1 (token 'pose-data-0-LIDAR_TOP-0'): rotation must be 4 numbers, got 3");
  EXPECT_EQ(after_change("ego_pose", "200.0", "NaN"),
            "[load_tables] ego_pose.json, row 1 (token 'pose-data-0-LIDAR_TOP-0'): translation must be a finite "
            "number, got NaN");
  EXPECT_EQ(after_change("sample", "\"timestamp\": ", "\"timestamp\": \"x\", \"other\": "),
            "[load_tables] sample.json, row 1 (token 'sample-0-0'): timestamp must be a whole number, got \"x\"");
  EXPECT_EQ(after_change("sensor", "\"channel\"", "\"chanel\""),
            "[load_tables] sensor.json, row 1 (token 'sensor-LIDAR_TOP'): field 'channel' is missing");
  EXPECT_EQ(after_change("calibrated_sensor", "[[100.0, 0.0, 80.0], ", "["),
            "[load_tables] calibrated_sensor.json, row 2 (token 'calibration-CAM_FRONT'): camera_intrinsic must be "
            "empty or have 3 rows, got 2");
  EXPECT_EQ(after_change("scene", "}\n]", "}\n"),
            "[read_json] scene.json, byte 393: must go on with ',' or ']', but ends here");
  EXPECT_EQ(after_change("scene", "]", "] x"), "[read_json] scene.json, byte 395: must end here, got 'x'");
  EXPECT_EQ(after_change("log", "[\n{", "{"),
            "[read_json] log.json, byte 0: must go on with '[' (a table is a list of rows), got '{'");
  EXPECT_EQ(after_change("log", "\"small town\"", "\"small town"),
            "[read_json] log.json, byte 47: ends in the middle "
            "of a value");
}

TEST(Tables, RefuseMissingFilesFoldersAndVersions) {
  const tests::TemporaryFolder folder;
  tests::write_small_world(folder.path(), tests::small_tables(), false);
  const std::string root = folder.path().string();
  EXPECT_EQ(message_of([&] { load_tables(folder.path() / "no", "v"); }),
            "[load_tables] root must be a folder, got '" + root + "/no'");
  EXPECT_EQ(message_of([&] { load_tables(folder.path(), "v1.0-mini"); }),
            "[load_tables] version must be a folder of " + root + " (v1.0-small), got 'v1.0-mini'");
  EXPECT_EQ(message_of([&] { load_tables(folder.path(), "../x"); }),
            "[load_tables] version must be a folder of " + root + " (v1.0-small), got '../x'");
  std::filesystem::remove(folder.path() / tests::kSmallVersion / "ego_pose.json");
  EXPECT_EQ(message_of([&] { load_tables(folder.path(), tests::kSmallVersion); }),
            "[storage] " + root + "/v1.0-small/ego_pose.json cannot be read: No such file or directory");
}

TEST(Paths, StayInsideTheDataSet) {
  for (const char* good : {"samples/a.jpg", "a", "a/..b/c", "a/b../c", "..."}) EXPECT_TRUE(stays_inside(good)) << good;
  for (const char* bad : {"", "/etc/passwd", "..", "../a", "a/../../b", "a/..", "a/../b"})
    EXPECT_FALSE(stays_inside(bad)) << bad;
  EXPECT_FALSE(stays_inside(std::string("a\0b", 3)));
  for (const char* bad : {"samples/a\nb.jpg", "\t", "a\x7F", "\x1B[2J"})
    EXPECT_FALSE(stays_inside(bad)) << "a control character";
  EXPECT_TRUE(stays_inside("samples/" + std::string(255, 'a')));
  EXPECT_FALSE(stays_inside("samples/" + std::string(256, 'a') + "/b"));
  EXPECT_TRUE(stays_inside("samples/caf\xC3\xA9.jpg"));
}

TEST(Dataset, GivesVelocityAsTheDevkitComputesIt) {
  const tests::TemporaryFolder folder;
  tests::TableTexts texts = tests::small_tables();
  tests::write_small_world(folder.path(), texts, false);
  const Dataset dataset(folder.path(), tests::kSmallVersion);
  const auto velocity = [&dataset](const char* token) {
    const auto& table = dataset.tables().sample_annotation;
    return dataset.velocity_of(table[table.find(token)]);
  };
  // One metre a sample; the time is the difference of two rounded products.
  const double both = 1e-6 * 1532402928672641. - 1e-6 * 1532402927647951.;
  const double one = 1e-6 * 1532402928160296. - 1e-6 * 1532402927647951.;
  EXPECT_EQ(velocity("annotation-0-0-1")[0], 2 / both);
  EXPECT_EQ(velocity("annotation-0-0-0")[0], 1 / one);
  EXPECT_NE(velocity("annotation-0-0-1")[0], 2 / 1.02469);  // the exact difference of the integers
  EXPECT_EQ(velocity("annotation-0-0-0")[1], 0);
  EXPECT_TRUE(std::isnan(velocity("annotation-0-1-0")[0]));  // seen once
}

TEST(Dataset, GivesNoVelocityAcrossALongGap) {
  tests::TableTexts texts = tests::small_tables();
  std::string& samples = texts.at("sample");
  const auto set_time = [&samples](const char* from, const char* to) {
    samples.replace(samples.find(from), std::string(from).size(), to);
  };
  set_time("1532402928672641", "1532402930647951");  // the last sample of scene 0, 3 s after its first
  const tests::TemporaryFolder folder;
  tests::write_small_world(folder.path(), texts, false);
  const Dataset dataset(folder.path(), tests::kSmallVersion);
  const auto& table = dataset.tables().sample_annotation;
  EXPECT_FALSE(std::isnan(dataset.velocity_of(table[table.find("annotation-0-0-0")])[0]));
  EXPECT_TRUE(std::isnan(dataset.velocity_of(table[table.find("annotation-0-0-2")])[0]));  // 2.5 s, one neighbour
  const double middle = dataset.velocity_of(table[table.find("annotation-0-0-1")])[0];     // 3 s, two neighbours
  EXPECT_EQ(std::isnan(middle), 1e-6 * 1532402930647951. - 1e-6 * 1532402927647951. > 3.0);
}

TEST(Splits, ComeFromSplitsJsonThenFromTheOfficialNames) {
  const tests::TemporaryFolder folder;
  tests::write_small_world(folder.path(), tests::small_tables(), false);
  const Dataset dataset(folder.path(), tests::kSmallVersion);
  EXPECT_EQ(message_of([&] { find_split(dataset, "val"); }),
            "[find_split] the official split 'val' wants a version that ends in 'trainval', got 'v1.0-small'");
  EXPECT_EQ(message_of([&] { find_split(dataset, "vall"); }),
            "[find_split] split must be one of train, val, test, mini_train, mini_val, train_detect, train_track, got "
            "'vall'");
  tests::write_text(folder.path() / "splits.json", R"({"val": ["small-1"], "none": ["small-9"]})");
  const Split val = find_split(dataset, "val");
  EXPECT_FALSE(val.official);
  ASSERT_EQ(val.samples.size(), 3);
  EXPECT_EQ(dataset.tables().sample[val.samples[0]].token, "sample-1-0");
  EXPECT_NE(message_of([&] { find_split(dataset, "none"); }).find("no sample is in its 1 scenes"), std::string::npos);
  // The version's own file comes first.
  tests::write_text(folder.path() / tests::kSmallVersion / "splits.json", R"({"val": ["small-0", "small-1"]})");
  EXPECT_EQ(find_split(dataset, "val").samples.size(), 6);
  EXPECT_EQ(find_split(dataset, "val").source, (folder.path() / tests::kSmallVersion / "splits.json").string());
  tests::write_text(folder.path() / tests::kSmallVersion / "splits.json", R"({"val": "small-0"})");
  EXPECT_NE(message_of([&] { find_split(dataset, "val"); }).find("split 'val' must be a list"), std::string::npos);
}

// As in the devkit, where the official names cannot be given another meaning: only such a split keeps the order of the
// predictions' file, which decides between equal scores.
TEST(Splits, OfficialNamesWinOverAFileThatRepeatsThem) {
  auto texts = tests::small_tables();
  std::string& scenes = texts["scene"];
  scenes.replace(scenes.find("small-1"), 7, "scene-0003");  // of the official val
  const tests::TemporaryFolder folder;
  tests::write_small_world(folder.path(), texts, false);
  std::filesystem::rename(folder.path() / tests::kSmallVersion, folder.path() / "v1.0-trainval");
  tests::write_text(folder.path() / "v1.0-trainval/splits.json", R"({"val": ["small-0"], "own": ["small-0"]})");
  const Dataset dataset(folder.path(), "v1.0-trainval");
  const Split val = find_split(dataset, "val");
  EXPECT_TRUE(val.official);
  EXPECT_EQ(val.source, "official");
  ASSERT_EQ(val.samples.size(), 3);
  EXPECT_EQ(dataset.tables().sample[val.samples[0]].token, "sample-1-0");
  EXPECT_FALSE(find_split(dataset, "own").official);
}

TEST(Splits, ComeFromAFileOfScenes) {
  const tests::TemporaryFolder folder;
  tests::write_small_world(folder.path(), tests::small_tables(), false);
  const Dataset dataset(folder.path(), tests::kSmallVersion);
  tests::write_text(folder.path() / "list.txt", "\nsmall-1 \r\n\n");
  EXPECT_EQ(read_scenes(dataset, folder.path() / "list.txt").samples.size(), 3);
  tests::write_text(folder.path() / "list.json", R"(  ["small-1", "small-0"])");
  EXPECT_EQ(read_scenes(dataset, folder.path() / "list.json").samples.size(), 6);
  tests::write_text(folder.path() / "list.txt", "small-5\n");
  EXPECT_NE(message_of([&] {
              read_scenes(dataset, folder.path() / "list.txt");
            }).find("must name scenes of the data set, got 'small-5'"),
            std::string::npos);
}

TEST(Splits, HaveTheOfficialSizes) {
  const auto size = [](const char* name) { return official_split(name).size(); };
  EXPECT_EQ(size("train"), 700);
  EXPECT_EQ(size("val"), 150);
  EXPECT_EQ(size("test"), 150);
  EXPECT_EQ(size("mini_train"), 8);
  EXPECT_EQ(size("mini_val"), 2);
  EXPECT_EQ(size("train_detect"), 350);
  EXPECT_EQ(size("train_track"), 350);
  EXPECT_EQ(official_split("mini_val"), (std::vector<std::string>{"scene-0103", "scene-0916"}));
  EXPECT_TRUE(official_split("nothing").empty());
}

}  // namespace
}  // namespace camber::nuscenes
