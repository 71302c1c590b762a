// Linear dense heads for a detector that has none: boxes stay, the heads learn, and alarms can be verified.
#include <numeric>

#include <nlohmann/json.hpp>

#include "camber/detection/cmt_weights.h"
#include "camber/detection/weights.h"
#include "camber/weights/load.h"
#include "cmt/small_program.h"
#include "nuscenes/small_world.h"
#include "support/comparison.h"

namespace camber::cmt_tests {
namespace {

using namespace detection;

DetectorOptions with_dense_heads(DetectorOptions options) {
  options.head.dense_auxiliary = true;
  return options;
}

DetectorBatch small_batch(const std::filesystem::path& folder) {
  tests::write_small_world(folder);
  const nuscenes::Dataset dataset(folder, tests::kSmallVersion);
  sensors::LoaderOptions options{.frame = small_options().frame_options(), .batch_size = 1, .shuffle = false};
  options.faults.share = 0;
  return collate(*sensors::Loader(dataset, {0}, options, 1, 1).next(), small_options());
}

// What CMT does not have is named in the report, and given back to nobody.
TEST(CmtDenseHeads, AreBeyondTheOriginalAndChangeNoBox) {
  const torch::NoGradGuard guard;
  Detector plain(small_options(), 4), dense(with_dense_heads(small_options()), 9);
  const auto report = import_cmt(export_cmt(*plain, SpconvLayout::kTwo), *dense, "plain");
  EXPECT_TRUE(report.complete()) << report.text();
  std::size_t named = 0;
  for (const std::string& name : names_beyond_cmt(*dense)) named += name.find("_classes.") != std::string::npos;
  EXPECT_EQ(named, 4U);
  EXPECT_EQ(export_cmt(*dense, SpconvLayout::kTwo).size(), export_cmt(*plain, SpconvLayout::kTwo).size());
  tests::TemporaryFolder folder;
  const auto batch = small_batch(folder.path());
  plain->eval();
  dense->eval();
  const auto expected = plain->forward(batch), found = dense->forward(batch);
  EXPECT_TRUE(proof::same_bits(found.class_logits, expected.class_logits));
  EXPECT_TRUE(proof::same_bits(found.codes, expected.codes));
  EXPECT_FALSE(expected.agreement.defined());
  EXPECT_TRUE(found.agreement.defined());
}

// Alone, they are computed on the keys that inference has, with the gradients of the whole training's.
TEST(CmtDenseHeads, AloneHaveTheLossesAndGradientsOfTheWhole) {
  Detector detector(with_dense_heads(small_options()), 2);
  tests::TemporaryFolder folder;
  const auto batch = small_batch(folder.path());
  EXPECT_FALSE(detector->learns_dense_heads_alone());
  train::Freezing freezing(*detector, {.patterns = {"encoder", "head"}, .except = {"grid_classes", "camera_classes"}});
  EXPECT_TRUE(detector->learns_dense_heads_alone());
  detector->train();
  freezing.hold();
  const auto gradients = [&](bool alone) {
    detector->zero_grad();
    const auto losses = detector->losses(detector->forward(batch, {.dense_alone = alone}), batch);
    losses.total.backward();
    std::vector<torch::Tensor> all;
    for (const auto& [name, value] : losses.terms)
      if (name.starts_with("dense_")) all.push_back(value.detach().clone());
    EXPECT_EQ(alone, all.size() == losses.terms.size());
    for (const auto& parameter : detector->named_parameters())
      if (parameter.value().requires_grad()) all.push_back(parameter.value().grad().clone());
    return all;
  };
  const auto whole = gradients(false), alone = gradients(true);
  ASSERT_EQ(alone.size(), 6U);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_TRUE(proof::close(alone[i], whole[i], 1e-5)) << i;
    EXPECT_GT(alone[i].abs().max().item<double>(), 0) << i;
  }
  Detector none(small_options(), 2);
  EXPECT_NE(proof::error_of([&] {
              none->forward(batch, {.dense_alone = true});
            }).find("dense_alone must be false without head.dense_auxiliary"),
            std::string::npos);
}

// configs/dense_heads.toml on a reduced CMT whose features know the simulated world.
class CmtDenseHeadsProgram : public app::CalledProgram {
 protected:
  // A file as an import writes it: a detector and its options, no training, no dense heads.
  void write_bare() const {
    const std::filesystem::path trained = folder_ / "trained/model.safetensors";
    DetectorOptions options = Detector::load(trained)->options();
    options.head.dense_auxiliary = false;
    Detector bare(options, 1);
    EXPECT_EQ(weights::load(weights::StateFile(trained), *bare).unknown.size(), 4U);
    save(*bare, folder_ / "bare.safetensors", {});
  }
  std::vector<double> losses_of(const std::string& run) const {
    std::vector<double> losses;
    std::istringstream lines(storage::read_file(folder_ / run / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      losses.push_back(nlohmann::json::parse(line).value("loss/total", 0.0));
    return losses;
  }
  static std::string source(const std::string& file) {
    return (std::filesystem::path(std::getenv("CAMBER_SOURCE")) / "configs" / file).string();
  }
};

TEST_F(CmtDenseHeadsProgram, LearnOnFrozenFeaturesAndVerifyAlarms) {
  ASSERT_EQ(call("simulate --out world --scenes 6 --seed 3 --world.frames=6 --world.night_share=0 "
                 "--world.standing_share=0 --val_share=0.17 --test_share=0 --quiet")
                .code,
            0);
  const std::string data = " --data.root=world --data.batch_size=2 --evaluation.limit=1 --evaluation.faults='[]' ";
  const app::Answer trained =
      call("train --config " + source("cmt_small.toml") + data + "--loop.steps=70 --out trained");
  ASSERT_EQ(trained.code, 0) << trained.errors;
  write_bare();

  const app::Answer dense = call("train --config " + source("dense_heads.toml") + " --from bare.safetensors" + data +
                                 "--loop.steps=40 --log_every=1 --out dense");
  ASSERT_EQ(dense.code, 0) << dense.errors;
  for (const char* words : {"4 missing in the file, 0 unknown", "missing: head.grid_classes.weight",
                            "the dense heads learn alone: no query is decoded, and the loss is theirs"})
    EXPECT_NE(dense.errors.find(words), std::string::npos) << words << "\n" << dense.errors;
  const std::vector<double> losses = losses_of("dense");
  ASSERT_GE(losses.size(), 40U);
  const auto mean = [&](std::size_t from) {
    return std::accumulate(losses.begin() + static_cast<std::ptrdiff_t>(from),
                           losses.begin() + static_cast<std::ptrdiff_t>(from) + 10, 0.0) /
           10;
  };
  EXPECT_LT(mean(30), 0.9 * mean(0));

  // Every tensor of the given model, and every box, to the bit.
  const storage::SafetensorsFile before(folder_ / "bare.safetensors"), after(folder_ / "dense/model.safetensors");
  for (const auto& view : before.tensors())
    EXPECT_TRUE(torch::equal(weights::tensor_of(view), weights::tensor_of(after.at(view.name)))) << view.name;
  const std::string frames = " --data world --version v1.0-simulated --split train --limit 4 --threads 1 --quiet";
  ASSERT_EQ(call("predict --checkpoint bare.safetensors --raw bare.json" + frames).code, 0);
  ASSERT_EQ(call("predict --checkpoint dense/model.safetensors --raw dense.json" + frames).code, 0);
  EXPECT_EQ(storage::read_file(folder_ / "bare.json"), storage::read_file(folder_ / "dense.json"));

  const std::string calibrate = " --split train --out verified.safetensors --policy verified_rule --format json";
  const app::Answer refused = call("calibrate-agreement --checkpoint bare.safetensors --data world" + calibrate);
  EXPECT_NE(refused.errors.find("the detector must have dense heads (head.dense_auxiliary)"), std::string::npos)
      << refused.errors;
  const app::Answer found = call("calibrate-agreement --run dense" + calibrate);
  ASSERT_EQ(found.code, 0) << found.errors;
  const auto answer = nlohmann::json::parse(found.output);
  EXPECT_EQ(answer["not_known"], 0);
  for (const char* fault : {"frozen:5", "stale:5"})
    EXPECT_GT(answer["faults"][fault]["area_under_curve"].get<double>(), 0.7) << fault;
  const auto alarms = Detector::load(folder_ / "verified.safetensors")->options().alarms;
  EXPECT_EQ(alarms.policy, TrustPolicy::kVerifiedRule);
  EXPECT_NEAR(alarms.threshold, answer["threshold"].get<double>(), 1e-12);
}

}  // namespace
}  // namespace camber::cmt_tests
