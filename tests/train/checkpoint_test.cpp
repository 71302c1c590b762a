// Checkpoints: what they carry, what is refused and with which words, and which one is used then.
#include <atomic>
#include <cerrno>
#include <fstream>
#include <stdexcept>

#include <camber/storage/file.h>
#include <camber/storage/safetensors.h>
#include <camber/weights/load.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "train/tiny_model.h"

namespace {
std::atomic<bool> hard_links_refused{false};
}  // namespace

// In front of the C library's: a file system without hard links, such as exFAT or some network drives.
extern "C" int link(const char* from, const char* to) noexcept {
  if (!hard_links_refused) return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
  errno = EPERM;
  return -1;
}

namespace camber::train {
namespace {

using testing::losses_of;
using testing::TemporaryFolder;
using testing::tiny_options;
using testing::TinyModel;

std::string sentence_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

struct TinyRun {
  explicit TinyRun(TrainingLoopOptions options = tiny_options())
      : loop(*model, std::move(options), {{"config", "x = 1"}}) {}
  bool steps(std::int64_t count, const CheckpointFolder* folder = nullptr) {
    TrainingHooks hooks;
    const std::int64_t end = loop.step() + count;
    hooks.stop_requested = [this, end] { return loop.step() >= end; };
    return loop.run([this](std::int64_t batch) { return losses_of(model, batch); }, folder, hooks);
  }
  TinyModel model;
  TrainingLoop loop;
};

TEST(Checkpoint, NeedsNoHardLinks) {
  const TemporaryFolder folder("no_links");
  const CheckpointFolder checkpoints(folder.path());
  TinyRun run;
  hard_links_refused = true;
  for (int i = 0; i < 3; ++i) {
    run.steps(1);
    EXPECT_EQ(sentence_of([&] { checkpoints.save_last(run.loop.state(), run.loop.info()); }), "");
  }
  hard_links_refused = false;
  EXPECT_EQ(read_checkpoint_info(checkpoints.last()).counters.at("step"), 3);
  ASSERT_TRUE(std::filesystem::exists(checkpoints.previous()));
  EXPECT_EQ(read_checkpoint_info(checkpoints.previous()).counters.at("step"), 2);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "previous.link"));
}

TEST(Checkpoint, CarriesWeightsOptimizerAverageCountersAndMetadata) {
  const TemporaryFolder folder("carries");
  TinyRun run;
  run.steps(3);
  const auto path = folder.path() / "a.safetensors";
  save_checkpoint(path, run.loop.state(), run.loop.info());
  const storage::SafetensorsFile file(path);
  for (const char* name :
       {"model.first.weight", "model.norm.running_mean", "model.norm.num_batches_tracked", "model.scale.raw",
        "optimizer.last.bias.exp_avg", "optimizer.scale.raw.step", "average.first.weight"}) {
    EXPECT_NE(file.find(name), nullptr) << name;
  }
  EXPECT_EQ(file.metadata().at("config"), "x = 1");
  const CheckpointInfo info = read_checkpoint_info(path);
  EXPECT_EQ(info.counters.at("step"), 3);
  EXPECT_EQ(info.counters.at("average_updates"), 3);
  EXPECT_EQ(info.metadata, (std::map<std::string, std::string>{{"config", "x = 1"}}));
}

TEST(Checkpoint, NamesTheTensorThatIsDamaged) {
  const TemporaryFolder folder("damaged");
  TinyRun run;
  run.steps(2);
  const auto path = folder.path() / "a.safetensors";
  save_checkpoint(path, run.loop.state(), run.loop.info());
  const std::string sound = storage::read_file(path);
  const storage::SafetensorsFile file(path);
  const storage::TensorView& tensor = file.at("optimizer.first.weight.exp_avg");
  const auto* first = reinterpret_cast<const char*>(tensor.bytes.data());
  std::string damaged = sound;
  damaged[damaged.find(std::string(first, tensor.bytes.size())) + 5] ^= 0x10;
  write_bytes(path, damaged);

  TinyRun other;
  const std::string sentence = sentence_of([&] { load_checkpoint(path, other.loop.state()); });
  EXPECT_NE(sentence.find("a.safetensors"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("'optimizer.first.weight.exp_avg'"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("damaged"), std::string::npos) << sentence;

  damaged = sound;
  damaged[damaged.find("x = 1")] = 'y';
  write_bytes(path, damaged);
  EXPECT_NE(sentence_of([&] { load_checkpoint(path, other.loop.state()); }).find("metadata"), std::string::npos);
}

TEST(Checkpoint, RefusesEveryTruncationAndUsesTheOneBefore) {
  const TemporaryFolder folder("truncated");
  const CheckpointFolder checkpoints(folder.path());
  TinyRun run;
  run.steps(5, &checkpoints);
  run.steps(5, &checkpoints);
  const std::string sound = storage::read_file(checkpoints.last());
  for (const double share : {0.0, 0.001, 0.1, 0.5, 0.9, 0.9999}) {
    write_bytes(checkpoints.last(),
                sound.substr(0, static_cast<std::size_t>(share * static_cast<double>(sound.size()))));
    TinyRun other;
    const auto resumed = other.loop.resume(checkpoints);
    ASSERT_TRUE(resumed);
    EXPECT_EQ(resumed->path, checkpoints.previous());
    EXPECT_EQ(other.loop.step(), 5);
    ASSERT_EQ(resumed->refused.size(), 1U);
    EXPECT_NE(resumed->refused[0].find("last.safetensors"), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(checkpoints.last()));  // put aside
  }
}

TEST(Checkpoint, ChangesNothingWhenItIsRefused) {
  const TemporaryFolder folder("nothing");
  const auto path = folder.path() / "a.safetensors";
  TrainingLoopOptions plain = tiny_options();
  plain.average.enabled = false;
  TinyRun without(plain);
  without.steps(2);
  save_checkpoint(path, without.loop.state(), without.loop.info());
  TinyRun run;
  const torch::Tensor before = run.model->first->weight.detach().clone();
  const std::string sentence = sentence_of([&] { load_checkpoint(path, run.loop.state()); });
  EXPECT_NE(sentence.find("'average."), std::string::npos) << sentence;
  EXPECT_TRUE(torch::equal(before, run.model->first->weight));
}

TEST(Checkpoint, ExportedWeightsAreTheAverage) {
  const TemporaryFolder folder("export");
  const auto path = folder.path() / "model.safetensors";
  TinyRun run;
  run.steps(4);
  save_weights(path, run.loop.state(), run.loop.info());
  TinyModel model;
  weights::load_whole(weights::StateFile(path), *model);
  EXPECT_FALSE(torch::equal(model->first->weight, run.model->first->weight));
  EXPECT_TRUE(torch::equal(model->first->weight, run.loop.average()->entries()[0].average));
}

// Files from before the mapping and the clip were kept lack them, and are read as the model was built.
TEST(Checkpoint, OlderOnesWithoutMappingAreResumed) {
  const TemporaryFolder folder("older");
  const auto path = folder.path() / "a.safetensors";
  TinyRun run;
  run.steps(3);
  save_checkpoint(path, run.loop.state(), run.loop.info());
  {
    const storage::SafetensorsFile whole(path);
    std::vector<storage::TensorView> kept;
    for (const storage::TensorView& view : whole.tensors())
      if (!view.name.ends_with("scale.mapping")) kept.push_back(view);
    ASSERT_EQ(kept.size() + 2, whole.tensors().size());  // of the model and of the average
    storage::Metadata metadata = whole.metadata();
    metadata.erase("checksums");
    storage::write_safetensors(folder.path() / "old.safetensors", kept, metadata);
  }
  TinyRun other;
  load_checkpoint(folder.path() / "old.safetensors", other.loop.state());
  EXPECT_EQ(other.model->scale->value().item<float>(), run.model->scale->value().item<float>());
  TinyModel exported;
  weights::load_whole(weights::StateFile(folder.path() / "old.safetensors"), *exported);
  EXPECT_TRUE(torch::equal(exported->first->weight, run.loop.average()->entries()[0].average));
}

}  // namespace
}  // namespace camber::train
