#include "apps/train_program.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <span>

#include "camber/storage/safetensors.h"

// train, eval, predict and bench detector, called as a person calls them, on a world of a few frames.
namespace camber::app {
namespace {

TEST_F(TrainProgram, PrintsACompleteConfigurationThatReadsBack) {
  const Answer printed = call("train --print-config --loop.steps=77");
  ASSERT_EQ(printed.code, 0) << printed.errors;
  EXPECT_NE(printed.output.find("steps = 77"), std::string::npos);
  std::ofstream(folder_ / "printed.toml") << printed.output;
  const Answer again = call("train --print-config --config printed.toml");
  EXPECT_EQ(again.output, printed.output);
  for (const char* name : {"demo", "small", "reference"}) {
    const Answer shipped = call("train --print-config --config '" + source_ + "/configs/" + name + ".toml'");
    EXPECT_EQ(shipped.code, 0) << shipped.errors;
  }
}

TEST_F(TrainProgram, WritesARunFolderThatIsWhole) {
  for (const char* name : {"config.toml", "environment.json", "metrics.jsonl", "metrics.csv", "result.json",
                           "model.safetensors", "checkpoints/last.safetensors", "checkpoints/previous.safetensors"})
    EXPECT_TRUE(fs::exists(folder_ / "run" / name)) << name;
  const Json environment = Json::parse(storage::read_file(folder_ / "run/environment.json"));
  EXPECT_EQ(environment["seed"], 3);
  EXPECT_EQ(environment["threads"], 1);
  EXPECT_EQ(environment["numerics"], 5);
  EXPECT_FALSE(environment["data_fingerprint"].get<std::string>().empty());
  const Json result = json_of(storage::read_file(folder_ / "run/result.json"));
  EXPECT_TRUE(result["clean"]["mean_ap"].is_number());
  EXPECT_TRUE(result["clean"]["tp_errors"].contains("trans_err"));
  std::ifstream lines(folder_ / "run/metrics.jsonl");
  std::string first;
  ASSERT_TRUE(std::getline(lines, first));
  const Json record = Json::parse(first);
  EXPECT_EQ(record["step"], 1);
  EXPECT_GT(record["loss/total"].get<double>(), 0);
  for (const char* name :
       {"effective_bias/lidar/mean", "effective_bias/segments/camera/mean", "effective_bias/layer0/lidar/p95",
        "effective_bias/layer1/camera/mean", "bias/layer1/segments/lidar/max"})
    EXPECT_TRUE(record.contains(name)) << name;
}

TEST_F(TrainProgram, ResumesToTheSameBytesAfterAStop) {
  const std::string whole = storage::read_file(folder_ / "run/checkpoints/last.safetensors");
  fs::copy(folder_ / "run", folder_ / "again", fs::copy_options::recursive);
  fs::rename(folder_ / "again/checkpoints/previous.safetensors", folder_ / "again/checkpoints/last.safetensors");
  const Answer resumed = call("train --resume again --threads 1");
  ASSERT_EQ(resumed.code, 0) << resumed.errors;
  EXPECT_NE(resumed.errors.find("at step 4"), std::string::npos) << resumed.errors;
  EXPECT_EQ(storage::read_file(folder_ / "again/checkpoints/last.safetensors"), whole);
  const auto metrics = [&](const char* run) {
    Json result = json_of(storage::read_file(folder_ / run / "result.json"));
    result["clean"].erase("eval_time");
    return result;
  };
  EXPECT_EQ(metrics("again"), metrics("run"));
}

// A checkpoint from before files stated their numerics goes on, and the promise of the same bits is taken back.
TEST_F(TrainProgram, ResumesFromOlderNumericsAndSaysSo) {
  fs::copy(folder_ / "run", folder_ / "older", fs::copy_options::recursive);
  {
    const storage::SafetensorsFile file(folder_ / "run/checkpoints/previous.safetensors");
    storage::Metadata metadata = file.metadata();
    EXPECT_EQ(metadata.erase("numerics"), 1U);
    metadata.erase("checksums");
    storage::write_safetensors(folder_ / "older/checkpoints/last.safetensors", file.tensors(), metadata);
  }
  const Answer resumed = call("train --resume older --threads 1");
  ASSERT_EQ(resumed.code, 0) << resumed.errors;
  EXPECT_NE(resumed.errors.find("this checkpoint was made with numerics 1, this program computes with 5"),
            std::string::npos)
      << resumed.errors;
}

TEST_F(TrainProgram, ResumesABranchFromItsFirstMomentOn) {
  const Answer branch = call("train --from run/model.safetensors --out early --loop.steps=2 --threads 1");
  ASSERT_EQ(branch.code, 0) << branch.errors;
  const std::string whole = storage::read_file(folder_ / "early/checkpoints/last.safetensors");
  // As killed before the first step: what it started from is all there is.
  fs::rename(folder_ / "early/checkpoints/previous.safetensors", folder_ / "early/checkpoints/last.safetensors");
  const Answer resumed = call("train --resume early --threads 1");
  ASSERT_EQ(resumed.code, 0) << resumed.errors;
  EXPECT_NE(resumed.errors.find("at step 0"), std::string::npos) << resumed.errors;
  EXPECT_EQ(storage::read_file(folder_ / "early/checkpoints/last.safetensors"), whole);
}

TEST_F(TrainProgram, RefusesWithOneSentence) {
  const auto refused = [&](const std::string& arguments, const std::string& words) {
    const Answer answer = call(arguments);
    EXPECT_EQ(answer.code, 2) << arguments;
    EXPECT_NE(answer.errors.find(words), std::string::npos) << answer.errors;
  };
  refused("train", "one of --out RUN");
  refused("train --out run --data.root=world", "holds a run");
  refused("train --out new --loop.stepz=3", "loop.steps");
  refused("train --resume run --loop.steps=9", "loop.steps must stay 6");
  refused("train --resume nowhere", "config.toml");
  refused("train --out new --data.root=world --exclude head", "--exclude must come with --from, got 'head' alone");
  refused("train --out new --from run/model.safetensors --exclude haed", "got 'haed', which no name");
  refused("eval --split val", "one of --run RUN");
  refused("eval --run run --faults frozn", "frozen");
  refused("predict --run run", "--out FILE.json");
}

TEST_F(TrainProgram, StartsFromACheckpointAndListsWhatDidNotMatch) {
  const Answer branch = call("train --from run/model.safetensors --out branch --loop.steps=2 --threads 1");
  ASSERT_EQ(branch.code, 0) << branch.errors;
  EXPECT_NE(branch.errors.find("0 missing in the file, 0 unknown to the model, 0 of another shape"), std::string::npos)
      << branch.errors;
  const Answer part = call(
      "train --from run/model.safetensors --out part --loop.steps=2 --threads 1 --detector.router.mode=off "
      "--detector.classes='[\"car\", \"pedestrian\"]' --exclude lidar_encoder");
  ASSERT_EQ(part.code, 0) << part.errors;
  EXPECT_NE(part.errors.find("unknown: head.router."), std::string::npos) << part.errors;
  EXPECT_NE(part.errors.find("shape:   head.task_heads.classes_weight"), std::string::npos) << part.errors;
  EXPECT_NE(part.errors.find("left out: lidar_encoder."), std::string::npos) << part.errors;
}

// Values come from the file; bounds, constraint and clip from what was written for the new run, and each is told.
TEST_F(TrainProgram, ABranchHasItsOwnBoundsAndSaysSo) {
  const Answer wide =
      call("train --from run/model.safetensors --out wide --loop.steps=1 --threads 1 --detector.bias.scale.max=8");
  ASSERT_EQ(wide.code, 0) << wide.errors;
  EXPECT_NE(wide.errors.find("scale 'head.attention_bias.scale': bounds 0.5 to 8 as configured, 0.5 to 5 in the file"),
            std::string::npos)
      << wide.errors;
  const storage::SafetensorsFile file(folder_ / "wide/model.safetensors");
  double bounds[2] = {};
  const auto bytes = file.at("model.head.attention_bias.scale.bounds").bytes;
  ASSERT_EQ(bytes.size(), sizeof bounds);
  std::memcpy(bounds, bytes.data(), sizeof bounds);
  EXPECT_EQ(bounds[1], 8);
  EXPECT_EQ(file.metadata().at("numerics"), "5");
  const Answer smooth = call(
      "train --from run/model.safetensors --out smooth --loop.steps=1 --threads 1 "
      "--detector.bias.scale.constraint=sigmoid");
  ASSERT_EQ(smooth.code, 0) << smooth.errors;
  EXPECT_NE(smooth.errors.find("constraint sigmoid as configured, projected in the file"), std::string::npos);
  const std::string ended = "scale head.attention_bias.scale ended at ";
  const std::size_t position = smooth.output.find(ended);
  ASSERT_NE(position, std::string::npos) << smooth.output;
  EXPECT_NEAR(std::stod(smooth.output.substr(position + ended.size())), 2.5, 0.02);  // 4.659 when raw is taken as it is
}

TEST_F(TrainProgram, EvaluatesUnderFaultsInEveryFormat) {
  const std::string arguments = "eval --run run --split val --faults lidar_off,black:5" + world_config();
  const Answer text = call(arguments);
  ASSERT_EQ(text.code, 0) << text.errors;
  for (const char* words : {"clean", "lidar_off", "black:5", "mean resilience", "trust", "pedestrian"})
    EXPECT_NE(text.output.find(words), std::string::npos) << words;
  const Answer json = call(arguments + " --format json");
  const Json report = json_of(json.output);
  EXPECT_EQ(report["faults"].size(), 2U);
  EXPECT_TRUE(report["trust"]["black:5"]["camera"]["area_under_curve"].is_number());
  const Answer csv = call(arguments + " --format csv");
  EXPECT_EQ(csv.output.substr(0, 27), "condition,mean_ap,nd_score,");
}

TEST_F(TrainProgram, PredictsResultsThatTheMetricsAccept) {
  const Answer predicted = call("predict --run run --split val --out results.json --image found.png --format json");
  ASSERT_EQ(predicted.code, 0) << predicted.errors;
  const std::int64_t boxes = json_of(predicted.output)["boxes"];
  EXPECT_GT(boxes, 0);
  EXPECT_EQ(storage::read_file(folder_ / "found.png").substr(1, 3), "PNG");
  const std::string evaluated = "eval --run run --split val --format json" + world_config();
  const Answer metrics =
      call("metrics --results results.json --data world --version v1.0-simulated --split val --format json" +
           world_config());
  ASSERT_EQ(metrics.code, 0) << metrics.errors;
  EXPECT_EQ(json_of(call(evaluated).output)["clean"]["mean_ap"], json_of(metrics.output)["mean_ap"]);
  const Json splits = Json::parse(storage::read_file(folder_ / "world/v1.0-simulated/splits.json"));
  const Answer strip = call("predict --run run --split val --scene " + splits["val"][0].get<std::string>() +
                            " --faults dark:3 --image strip.png");
  EXPECT_EQ(strip.code, 0) << strip.errors;
  EXPECT_EQ(storage::read_file(folder_ / "strip.png").substr(1, 3), "PNG");
}

TEST_F(TrainProgram, DrawsAFrameBesideItsFaultAndTheSceneAsAPage) {
  const Json splits = Json::parse(storage::read_file(folder_ / "world/v1.0-simulated/splits.json"));
  const std::string scene = " --scene " + splits["val"][0].get<std::string>();
  const Answer pair =
      call("predict --run run" + scene + " --frame 1 --faults lidar_off --beside-clean --score 0 --image pair.jpg");
  ASSERT_EQ(pair.code, 0) << pair.errors;
  EXPECT_EQ(storage::read_file(folder_ / "pair.jpg").substr(0, 2), "\xFF\xD8");
  const Answer view = call("view run" + scene + " --faults lidar_off --score 0 --out scene.html --format json");
  ASSERT_EQ(view.code, 0) << view.errors;
  EXPECT_LT(json_of(view.output)["bytes"], 15'000'000);
  const std::string html = storage::read_file(folder_ / "scene.html");
  const std::string mark = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = html.find(mark) + mark.size();
  const Json page = Json::parse(html.substr(begin, html.find("</script>", begin) - begin));
  EXPECT_EQ(page["conditions"], (Json{"clean", "lidar_off"}));
  EXPECT_EQ(page["frames"].size(), json_of(view.output)["frames"]);
  const Json& frame = page["frames"][0];
  EXPECT_GE(frame["views"][0]["points"], 0);
  EXPECT_EQ(frame["views"][1]["points"], -1) << "the LiDAR is off";
  const Json& found = frame["views"][0]["found"][0];
  EXPECT_EQ(found["trust"].size(), 2U);
  ASSERT_EQ(found["mass"].size(), 7U) << "the grid and six cameras";
  double mass = 0;
  for (const Json& share : found["mass"]) mass += share.get<double>();
  EXPECT_NEAR(mass, 1, 1e-2);
  EXPECT_EQ(found["window"]["cameras"].size(), 6U);
  const Answer bare = call("view --data world" + scene + " --out data.html");
  EXPECT_EQ(bare.code, 0) << bare.errors;
  const auto refused = [](const std::string& words, const std::string& sentence) {
    const Answer answer = call(words);
    EXPECT_EQ(answer.code, 2) << words;
    EXPECT_NE(answer.errors.find(sentence), std::string::npos) << answer.errors;
  };
  refused("predict --run run --image found.webp",
          "[predict] --image must end in .png, .jpg or .jpeg, got 'found.webp'");
  refused("predict --run run --out r.json --frame 1", "--frame must come with --image");
  refused("predict --run run --image a.png --beside-clean", "--beside-clean must be given with --faults");
  refused("predict --run run --image a.png --frame 99999", "[predict] --frame must be 0 to ");
  refused("view --scene x --out a.html", "[view] one of RUN, --checkpoint FILE and --data DIR must be given");
  refused("view run --scene scene-00000 --out a.html", "the nearest is 'scene-000");
  refused("view run" + scene + " --out a.png", "[view] --out must end in .html or .htm");
}

// Every tool that runs a detector over frames lets its cues err alike.
TEST_F(TrainProgram, CuesErrInEveryTool) {
  const std::string errors = " --cue-errors false_alarms:1,burst:2";
  const std::string frames = " --run run --split val --limit 3 --threads 1 --format json";
  const Answer evaluated = call("eval" + frames + world_config() + errors);
  ASSERT_EQ(evaluated.code, 0) << evaluated.errors;
  EXPECT_EQ(json_of(evaluated.output)["cue_errors"], "false_alarms:1,burst:2");
  EXPECT_FALSE(json_of(call("eval" + frames + world_config()).output).contains("cue_errors"));
  const auto predict = [&frames](const std::string& words) { return call("predict" + frames + words).code; };
  for (const std::string policy : {" --policy none", " --policy rule"}) {
    ASSERT_EQ(predict(policy + " --raw sound.json"), 0);
    ASSERT_EQ(predict(std::string(policy).append(" --raw erring.json").append(errors)), 0);
    // A rule takes every sensor out that a false alarm accuses: nothing is left to see.
    EXPECT_EQ(storage::read_file(folder_ / "sound.json") == storage::read_file(folder_ / "erring.json"),
              policy == " --policy none");
  }
  const Json splits = Json::parse(storage::read_file(folder_ / "world/v1.0-simulated/splits.json"));
  const std::string scene = " --scene " + splits["val"][0].get<std::string>();
  const Answer view = call("view run" + scene + " --policy rule --out alarms.html" + errors);
  ASSERT_EQ(view.code, 0) << view.errors;
  EXPECT_NE(storage::read_file(folder_ / "alarms.html").find("\"cues with false_alarms:1,burst:2\""),
            std::string::npos);
  const auto refused = [](const std::string& words, const std::string& sentence) {
    const Answer answer = call(words);
    EXPECT_EQ(answer.code, 2) << words;
    EXPECT_NE(answer.errors.find(sentence), std::string::npos) << answer.errors;
  };
  refused("predict --run run --raw a.json --policy trust", "[predict] --policy must be none, rule, verified_rule");
  refused("view run" + scene + " --out a.html --cue-errors miss:1", "did you mean 'misses'?");
  refused("eval --run run --faults misses:0.1", "got the cue error 'misses': option --cue-errors");
  refused("view --data world" + scene + " --out a.html" + errors, "must come with a detector");
}

TEST_F(TrainProgram, LearnsFromMapsOfOtherEncoders) {
  fs::create_directories(folder_ / "maps");
  std::vector<float> bev(std::size_t{8} * 32 * 32), cameras(std::size_t{6} * 8 * 6 * 15);
  for (const Json& sample : Json::parse(storage::read_file(folder_ / "world/v1.0-simulated/sample.json"))) {
    const std::string token = sample["token"];
    for (std::size_t i = 0; i < bev.size(); ++i)
      bev[i] = std::sin(static_cast<float>(i) + static_cast<float>(token[0]));
    for (std::size_t i = 0; i < cameras.size(); ++i) cameras[i] = std::cos(static_cast<float>(i) * 0.1F);
    storage::write_safetensors(
        folder_ / "maps" / (token + ".safetensors"),
        {{.name = "bev", .shape = {8, 32, 32}, .bytes = std::as_bytes(std::span(bev))},
         {.name = "cameras", .shape = {6, 8, 6, 15}, .bytes = std::as_bytes(std::span(cameras))}});
  }
  const std::string plain =
      " --data.root=world --data.batch_size=2 --loop.steps=2 --threads 1 --detector.encoder.kind=features "
      "--detector.encoder.bev_channels=8 --detector.encoder.camera_channels=8 --detector.head.shared_convolution=true "
      "--data.augmentation.flip=false --data.augmentation.rotation=0 --data.augmentation.scale_min=1 "
      "--data.augmentation.scale_max=1 --data.augmentation.image_flip=false "
      "--data.faults.kinds='[\"lidar_off\", \"cameras_off\"]'";
  const std::string maps = plain + " --detector.encoder.features=maps";
  const Answer trained = call("train --out of_maps" + maps);
  ASSERT_EQ(trained.code, 0) << trained.errors;
  const Answer evaluated = call("eval --run of_maps --split val --faults lidar_off --format json" + world_config());
  EXPECT_EQ(evaluated.code, 0) << evaluated.errors;
  const auto refused = [&](const std::string& arguments, const std::string& words) {
    const Answer answer = call(arguments);
    EXPECT_EQ(answer.code, 2) << arguments;
    EXPECT_NE(answer.errors.find(words), std::string::npos) << answer.errors;
  };
  refused("train --out no_folder" + plain, "detector.encoder.features must name the folder");
  refused("train --out turned" + maps + " --data.augmentation.rotation=5", "data.augmentation.rotation must be 0");
  refused("train --out black" + maps + " --data.faults.kinds='[\"black\"]'", "faults must be known ones");
  refused("eval --run of_maps --split val --faults black:5", "faults must be known ones");
  refused("eval --run of_maps --split val --cue-errors misses:1",
          "[detector] cue errors must be none with encoder.kind = features, whose frames have no cues, got misses:1");
  fs::remove(folder_ / "maps" / fs::directory_iterator(folder_ / "maps")->path().filename());
  const Answer missing = call("train --out of_fewer" + maps + " --loop.steps=20");
  EXPECT_NE(missing.code, 0);
  EXPECT_NE(missing.errors.find("maps/"), std::string::npos) << missing.errors;
}

TEST_F(TrainProgram, TimesEveryStage) {
  const std::string command = "bench detector --data world --split val --repeats 2 --bias --format json";
  const Answer bench = call(command + " --threads 2");
  ASSERT_EQ(bench.code, 0) << bench.errors;
  const Json report = json_of(bench.output);
  EXPECT_EQ(report["keys"], 1024 + 540);
  std::vector<std::string> stages;
  for (const Json& row : report["frame"]) stages.push_back(row["stage"]);
  EXPECT_EQ(stages, (std::vector<std::string>{"decode", "cues", "collate", "voxelise", "points", "images", "positions",
                                              "head", "boxes", "detect", "agreement (of head)"}));
  EXPECT_EQ(report["training"].size(), 5U);
  ASSERT_EQ(report["training_on_one"].size(), 5U);
  EXPECT_EQ(report["threads"], 2);
  EXPECT_NEAR(report["speedup"].get<double>() * report["training"][4]["p50"].get<double>(),
              report["training_on_one"][4]["p50"].get<double>(), 1e-2);
  const Answer alone = call(command + " --threads 1");
  ASSERT_EQ(alone.code, 0) << alone.errors;
  EXPECT_FALSE(json_of(alone.output).contains("speedup"));
}

}  // namespace
}  // namespace camber::app
