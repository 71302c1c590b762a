#include <algorithm>
#include <csignal>
#include <set>

#include "apps/train_program.h"

// Runs in the wild: data with holes, other working folders, signals, two programs in one folder.
namespace camber::app {
namespace {

const fs::path kTables = "v1.0-simulated";

Json read_table(const fs::path& world, const std::string& name) {
  return Json::parse(storage::read_file(world / kTables / (name + ".json")));
}

// A copy of the world without the key frames of a camera at the first `samples` samples; 0: at all of them.
void copy_with_holes(const fs::path& from, const fs::path& to, const std::string& channel, std::size_t samples) {
  fs::copy(from, to, fs::copy_options::recursive);
  std::set<std::string> hit, gone;
  for (const Json& sample : read_table(to, "sample"))
    if (samples == 0 || hit.size() < samples) hit.insert(sample["token"].get<std::string>());
  Json kept = Json::array();
  for (const Json& row : read_table(to, "sample_data"))
    if (row["filename"].get<std::string>().find("/" + channel + "/") != std::string::npos &&
        hit.contains(row["sample_token"].get<std::string>()))
      gone.insert(row["token"].get<std::string>());
    else
      kept.push_back(row);
  for (Json& row : kept)
    for (const char* neighbour : {"prev", "next"})
      if (gone.contains(row[neighbour].get<std::string>())) row[neighbour] = "";
  ASSERT_FALSE(gone.empty());
  fs::remove(to / kTables / "sample_data.json");
  std::ofstream(to / kTables / "sample_data.json") << kept.dump();
}

std::string without_steps(const std::string& small) {
  return std::regex_replace(small, std::regex("--loop.steps=6"), "--loop.steps=100000");
}

TEST_F(TrainProgram, AMissingImageIsACameraThatIsOff) {
  copy_with_holes(folder_ / "world", folder_ / "one_missing", "CAM_FRONT", 2);
  copy_with_holes(folder_ / "world", folder_ / "never", "CAM_BACK", 0);
  const auto trains_and_evaluates = [](const std::string& data, const std::string& embedding) {
    const std::string out = data + "_" + embedding;
    const Answer trained = call("train --out " + out + " " + kSmall + " --data.root=" + data +
                                " --detector.head.position_embedding=" + embedding);
    EXPECT_EQ(trained.code, 0) << trained.errors;
    const Answer evaluated =
        call("eval --run " + out + " --split train --faults frozen:2,calibration:3 --format json" + world_config());
    EXPECT_EQ(evaluated.code, 0) << evaluated.errors;
    const Answer found = call("predict --run " + out + " --split train --limit 2 --out found.json --image f.png");
    EXPECT_EQ(found.code, 0) << found.errors;
  };
  // A run of whole data meets the holes later, and so do the commands that look at data.
  const auto looks_at = [](const std::string& data) {
    const Answer later = call("predict --run run --data " + data + " --split train --out found.json");
    EXPECT_EQ(later.code, 0) << later.errors;
    EXPECT_EQ(call("inspect --data " + data + " --image holes.png --sheet sheet.png --gates").code, 0);
    EXPECT_EQ(call("faults --data " + data + " --faults frozen:2,camera_off:2 --out faulty_" + data).code, 0);
    EXPECT_EQ(call("bench detector --data " + data + " --repeats 1").code, 0);
  };
  for (const char* data : {"one_missing", "never"}) {
    for (const char* embedding : {"cmt", "split"}) trains_and_evaluates(data, embedding);
    looks_at(data);
  }
}

TEST_F(TrainProgram, OpensADataSetWithoutSplits) {
  fs::copy(folder_ / "world", folder_ / "bare", fs::copy_options::recursive);
  fs::remove(folder_ / "bare" / kTables / "splits.json");
  const std::string sample = read_table(folder_ / "bare", "sample")[0]["token"];
  const std::string scene = read_table(folder_ / "bare", "scene")[1]["name"];
  std::ofstream(folder_ / "scenes.txt") << scene << "\n";
  const std::string run = " --run run --data bare";
  const Answer one = call("predict" + run + " --sample " + sample + " --out one.json --format json");
  ASSERT_EQ(one.code, 0) << one.errors;
  EXPECT_EQ(json_of(one.output)["frames"], 1);
  const Answer strip = call("predict" + run + " --scene " + scene + " --image strip.png --format json");
  ASSERT_EQ(strip.code, 0) << strip.errors;
  EXPECT_EQ(json_of(strip.output)["frames"], 3);
  const Answer listed = call("predict" + run + " --scenes scenes.txt --out listed.json --format json");
  ASSERT_EQ(listed.code, 0) << listed.errors;
  EXPECT_EQ(json_of(listed.output)["frames"], 3);
  const Answer evaluated = call("eval" + run + " --scenes scenes.txt --format json" + world_config());
  EXPECT_EQ(evaluated.code, 0) << evaluated.errors;
  const Answer both = call("eval" + run + " --scenes scenes.txt --split val");
  EXPECT_EQ(both.code, 2);
  EXPECT_EQ(both.errors, "camber: [eval] --split and --scenes must not be given together\n");
  const Answer neither = call("eval" + run + world_config());
  EXPECT_EQ(neither.code, 0);
  EXPECT_NE(neither.errors.find("has no splits.json: all 15 samples are taken"), std::string::npos) << neither.errors;
  const Answer nowhere = call("predict" + run + " --sample 0123 --out no.json");
  EXPECT_EQ(nowhere.errors, "camber: [predict] --sample must be the token of a sample, got '0123'\n");
}

// The frames of a condition depend on its name alone, not on the training's seed: a run's own result is what eval says.
TEST_F(TrainProgram, ItsOwnResultIsWhatEvalFinds) {
  const Answer trained = call(
      "train --from run/model.safetensors --out evaluated --loop.steps=1 --seed 9 --threads 1 "
      "--data.validation_split=train --evaluation.limit=5 --evaluation.batch_size=3 "
      "--evaluation.faults='[\"frozen:2\", \"stale:3:other_scene\", \"noise\"]'");
  ASSERT_EQ(trained.code, 0) << trained.errors;
  const Answer evaluated = call(
      "eval --run evaluated --split train --limit 5 --faults frozen:2:true_timestamps,stale:other_scene,noise:3 "
      "--threads 1 "
      "--format json");
  ASSERT_EQ(evaluated.code, 0) << evaluated.errors;
  const auto timeless = [](const std::string& report) {
    return std::regex_replace(report, std::regex("\"eval_time\": [^,]*,"), "");
  };
  EXPECT_EQ(timeless(evaluated.output), timeless(storage::read_file(folder_ / "evaluated/result.json")));
  const Json trust = json_of(evaluated.output)["trust"];
  for (const char* name : {"frozen:2", "stale:3:other_scene", "noise:3"}) {
    ASSERT_TRUE(trust.contains(name)) << trust;
    EXPECT_NE(trust[name], trust["clean"]) << "the conditions must tell";
  }
}

TEST_F(TrainProgram, FaultsHaveOneNameInEveryResult) {
  const Answer trained = call(
      "train --from run/model.safetensors --out named --loop.steps=1 --threads 1 "
      "--evaluation.faults='[\"lidar_off\", \"black\", \"dark:2\"]'");
  ASSERT_EQ(trained.code, 0) << trained.errors;
  const Answer evaluated = call("eval --run named --faults lidar_off,black,dark:2 --format json");
  ASSERT_EQ(evaluated.code, 0) << evaluated.errors;
  const auto names = [](const Json& report) {
    std::vector<std::string> keys;
    for (const auto& [name, values] : report["faults"].items()) keys.push_back(name);
    return keys;
  };
  const auto in_training = names(json_of(storage::read_file(folder_ / "named/result.json")));
  EXPECT_EQ(in_training, names(json_of(evaluated.output)));
  EXPECT_EQ(in_training.size(), 3U);
  EXPECT_EQ(call("eval --run named --faults black,black:3").errors,
            "camber: [evaluate] faults must be different conditions, got black:3 twice\n");
  // A result of an earlier version, whose names are as they were written, still makes a page.
  fs::copy(folder_ / "named", folder_ / "earlier", fs::copy_options::recursive);
  std::string old = storage::read_file(folder_ / "earlier/result.json");
  old = std::regex_replace(old, std::regex("\"lidar_off:3\""), "\"lidar_off\"");
  std::ofstream(folder_ / "earlier/result.json") << old;
  const Answer page = call("report earlier --out earlier.html");
  EXPECT_EQ(page.code, 0) << page.errors;
  EXPECT_NE(storage::read_file(folder_ / "earlier.html").find("lidar_off"), std::string::npos);
}

TEST_F(TrainProgram, ARunDoesNotDependOnTheWorkingFolder) {
  fs::create_directories(folder_ / "own/evaluation");
  fs::create_directories(folder_ / "elsewhere");
  fs::copy_file(source_ + "/configs/evaluation/world.json", folder_ / "own/evaluation/near.json");
  std::ofstream(folder_ / "own/own.toml") << "[evaluation]\nconfig = \"evaluation/near.json\"\n";
  const Answer trained = call("train --config own/own.toml --out wandering " + kSmall);
  ASSERT_EQ(trained.code, 0) << trained.errors;
  const auto away = [&](const std::string& arguments) {
    return call_program(arguments, folder_ / "elsewhere", folder_);
  };
  const std::string run = (folder_ / "wandering").string();
  const Answer evaluated = away("eval --run '" + run + "' --format json");
  ASSERT_EQ(evaluated.code, 0) << evaluated.errors;
  EXPECT_EQ(json_of(evaluated.output)["clean"]["mean_ap"],
            json_of(storage::read_file(folder_ / "wandering/result.json"))["clean"]["mean_ap"]);
  EXPECT_EQ(away("eval --checkpoint '" + run + "/checkpoints/last.safetensors' --limit 1").code, 0);
  fs::remove(folder_ / "wandering/result.json");
  const Answer resumed = away("train --threads 1 --resume '" + run + "'");
  EXPECT_EQ(resumed.code, 0) << resumed.errors;
  EXPECT_TRUE(fs::exists(folder_ / "wandering/result.json"));
  // The same configuration again, by its own words.
  EXPECT_EQ(call("train --resume wandering --config own/own.toml " + kSmall).code, 0);
  // Shipped configurations name what lies beside them, wherever they are installed.
  for (const char* name : {"demo", "small"}) {
    const Answer shipped = away("train --print-config --config '" + source_ + "/configs/" + name + ".toml'");
    EXPECT_NE(shipped.output.find("\"" + source_ + "/configs/evaluation/world.json\""), std::string::npos) << name;
  }
}

TEST_F(TrainProgram, ChecksBeforeItWorks) {
  const auto refused = [&](const std::string& arguments, const std::string& words) {
    const Answer answer = call(arguments);
    EXPECT_NE(answer.code, 0) << arguments;
    EXPECT_NE(answer.errors.find(words), std::string::npos) << answer.errors;
    EXPECT_EQ(std::count(answer.errors.begin(), answer.errors.end(), '\n'), 1) << answer.errors;
  };
  refused("train --out unevaluated " + kSmall + " --evaluation.config=absent.json", "absent.json");
  refused("train --out unevaluated " + kSmall + " --evaluation.faults='[\"frozn\"]'", "frozen");
  refused("train --out unevaluated " + kSmall + " --evaluation.faults='[\"frozen\"]'", "a frame to repeat must exist");
  EXPECT_FALSE(fs::exists(folder_ / "unevaluated"));
  refused("eval --run run --faults black,frozen:3", "a frame to repeat must exist");
  refused("eval --run run --out nowhere/metrics.json", "nowhere/metrics.json cannot be written");
  refused("predict --run run --out nowhere/found.json", "nowhere/found.json cannot be written");
  refused("predict --run run --image nowhere/found.png", "nowhere/found.png cannot be written");
  EXPECT_TRUE(fs::is_empty(folder_) || !fs::exists(folder_ / "nowhere"));
}

TEST_F(TrainProgram, AnInterruptedRunSaysHowToGoOn) {
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    const std::string out = "stopped_" + std::to_string(code);
    Process training("train --out " + out + " " + without_steps(kSmall), folder_, folder_, out);
    ASSERT_TRUE(appears(folder_ / out / "checkpoints/last.safetensors"));
    training.send(signal);
    const Answer answer = training.wait();
    EXPECT_EQ(answer.code, code) << answer.errors;
    EXPECT_NE(answer.errors.find("continue with: camber train --resume " + out), std::string::npos) << answer.errors;
    EXPECT_NE(answer.output.find("stopped at step"), std::string::npos) << answer.output;
  }
}

TEST_F(TrainProgram, TwoProgramsDoNotWorkInOneRun) {
  Process first("train --out shared " + without_steps(kSmall), folder_, folder_, "shared");
  ASSERT_TRUE(appears(folder_ / "shared/checkpoints/last.safetensors"));
  const Answer second = call("train --resume shared --threads 1");
  EXPECT_EQ(second.code, 1) << second.errors;
  EXPECT_NE(second.errors.find("shared must be free, but process " + std::to_string(first.id()) + " on " + host_name() +
                               " works there"),
            std::string::npos)
      << second.errors;
  EXPECT_EQ(call("eval --run shared --limit 1" + world_config()).code, 0) << "looking at it is no work in it";
  first.send(SIGKILL);
  first.wait();
  Process third("train --resume shared --threads 1", folder_, folder_, "again");
  ASSERT_TRUE(third.says("continues from")) << "a lock vanishes with its process";
  third.send(SIGINT);
  const Answer resumed = third.wait();
  EXPECT_EQ(resumed.code, 130) << resumed.errors;
}

}  // namespace
}  // namespace camber::app
