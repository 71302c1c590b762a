// What a run tells while it trains.
#include <algorithm>

#include <camber/runs/detector_run.h>
#include <gtest/gtest.h>

#include "detection/example_batch.h"
#include "sensors/simulated_world.h"
#include "storage/scratch_folder.h"

namespace camber::runs {
namespace {

class DetectorRun : public storage::ScratchFolder {};

// A terminal of 80 columns has room for the words that a step says, beside the task, its share and the time left.
TEST_F(DetectorRun, SaysLossAndScalesInFewWordsAndAFindingOnce) {
  DetectorTrainingOptions options;
  options.detector = detection::examples::tiny_options();
  options.detector.router.mode = nn::RouterMode::kLearned;
  options.detector.bias.segments = options.detector.bias.locality = true;
  options.data.root = tests::simulated_world().dataset.root().string();
  options.data.validation_split = "test";  // this world has no other
  options.data.batch_size = 1;
  options.loop.steps = 2;
  std::vector<std::string> notes, said;
  train_detector({.options = options,
                  .out = folder_ / "run",
                  .evaluate = false,
                  .after_step = [&](const train::StepReport&, const std::string& note) { notes.push_back(note); },
                  .say = [&](const std::string& line) { said.push_back(line); }});
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_TRUE(notes[0].starts_with("loss ")) << notes[0];
  for (const char* words : {", scale 2.5", ", segment 2.5", ", locality 2.5"})
    EXPECT_NE(notes[0].find(words), std::string::npos) << notes[0];
  for (const std::string& note : notes) EXPECT_LE(note.size(), 54U) << note;
  const auto spoken = [](const std::string& line) { return line.find("can move only within") != std::string::npos; };
  EXPECT_EQ(std::count_if(said.begin(), said.end(), spoken), 3) << "two steps lead no scale to its bounds";
}

}  // namespace
}  // namespace camber::runs
