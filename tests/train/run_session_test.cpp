// The shell around every run: folder, lock, resume, metrics, findings.
#include <limits>
#include <stdexcept>

#include <camber/health/records.h>
#include <camber/storage/atomic_file.h>
#include <camber/storage/file.h>
#include <camber/train/run_session.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "train/tiny_model.h"

namespace camber::train {
namespace {

using testing::TinyModel;

struct SessionRun {
  explicit SessionRun(RunRequest request, std::int64_t stop_at = 0) {
    request.config = "x = 1\n";
    request.health = {.interval = 2};
    request.say = [this](const std::string& sentence) { said.push_back(sentence); };
    if (stop_at > 0) {
      request.stop_requested = [this, stop_at] { return loop.step() >= stop_at; };
    }
    session.emplace(loop, std::move(request));
  }
  bool train(std::int64_t broken_batch = -1) {
    return session->train(
        [&](std::int64_t batch) {
          NamedLosses losses = testing::losses_of(model, batch);
          if (batch == broken_batch) {
            losses[0].second = losses[0].second * std::numeric_limits<float>::quiet_NaN();
          }
          return losses;
        },
        {.after_step = [this](const StepReport& report) {
          if (session->sampled(report.step)) {
            HealthAdapter adapter = session->health(report.step);
            session->record(report.step, session->metrics_of(report), &adapter.sample());
          }
        }});
  }
  bool has_said(const std::string& words) const {
    return std::any_of(said.begin(), said.end(),
                       [&](const std::string& line) { return line.find(words) != std::string::npos; });
  }
  TinyModel model{};
  TrainingLoop loop{*model, testing::tiny_options()};
  std::vector<std::string> said{};
  std::optional<RunSession> session{};
};

std::vector<std::int64_t> steps_in(const std::filesystem::path& file) {
  std::vector<std::int64_t> steps;
  for (const health::Record& record : health::read_records(file)) {
    steps.push_back(record.step);
  }
  return steps;
}

TEST(RunSession, GoesOnFromTheLastSoundCheckpointAndSaysWhatItRefused) {
  const testing::TemporaryFolder folder("session");
  const auto out = folder.path() / "run", unbroken = folder.path() / "unbroken";
  SessionRun whole({.out = unbroken});
  EXPECT_TRUE(whole.train());
  {
    SessionRun stopped({.out = out}, 12);
    EXPECT_FALSE(stopped.train());
    EXPECT_EQ(stopped.loop.step(), 12);
    EXPECT_THROW(SessionRun({.out = out, .resume = true}), std::runtime_error) << "the folder is locked";
  }
  EXPECT_TRUE(RunFolder::can_resume(out, "x = 1\n"));
  EXPECT_FALSE(RunFolder::can_resume(out, "x = 2\n"));
  EXPECT_THROW(SessionRun({.out = out}), std::invalid_argument) << "it holds a run";
  const auto last = RunFolder::open(out).checkpoints().last();
  std::filesystem::resize_file(last, std::filesystem::file_size(last) - 8);
  SessionRun resumed({.out = out, .resume = true});
  EXPECT_EQ(resumed.session->first_step(), 10);
  EXPECT_TRUE(resumed.has_said(last.string())) << "the damaged one is named";
  EXPECT_TRUE(resumed.has_said("at step 10"));
  ASSERT_FALSE(resumed.session->past().empty());
  EXPECT_EQ(resumed.session->past().back().step, 10);
  EXPECT_TRUE(resumed.train());
  EXPECT_EQ(steps_in(out / "metrics.jsonl"), steps_in(unbroken / "metrics.jsonl"));
  EXPECT_EQ(storage::read_file(last), storage::read_file(RunFolder::open(unbroken).checkpoints().last()));
}

TEST(RunSession, SaysWithWhichOtherThreadsItGoesOn) {
  const testing::TemporaryFolder folder("threads");
  const auto out = folder.path() / "run", file = out / "environment.json";
  {
    SessionRun stopped({.out = out}, 12);
    EXPECT_FALSE(stopped.train());
  }
  const auto environment = nlohmann::json::parse(storage::read_file(file));
  EXPECT_FALSE(SessionRun({.out = out, .resume = true}).has_said("began")) << "as it began";
  auto other = environment;
  other["threads"] = 77;
  storage::write_file(file, other.dump());
  EXPECT_TRUE(SessionRun({.out = out, .resume = true}).has_said("this run began with 77 threads"));
  for (const char* damaged : {"{", "[1]", R"({"threads": "many"})"}) {
    storage::write_file(file, damaged);
    EXPECT_TRUE(SessionRun({.out = out, .resume = true}).has_said("does not say with how many threads")) << damaged;
  }
}

TEST(RunSession, KeepsItsStartWhereAskedTo) {
  const testing::TemporaryFolder folder("start");
  {
    const SessionRun plain({.out = folder.path() / "plain"}),
        branch({.out = folder.path() / "branch", .keep_start = true});
  }
  EXPECT_FALSE(RunFolder::can_resume(folder.path() / "plain", "x = 1\n"));
  EXPECT_TRUE(RunFolder::can_resume(folder.path() / "branch", "x = 1\n"));
}

TEST(RunSession, TellsFindingsAndNeedsNoFolder) {
  SessionRun run(RunRequest{});
  EXPECT_FALSE(run.session->folder());
  EXPECT_TRUE(run.train(6));
  ASSERT_FALSE(run.session->findings().empty());
  EXPECT_NE(run.session->findings().front().find("square"), std::string::npos) << run.session->findings().front();
  EXPECT_TRUE(run.has_said(run.session->findings().front()));
}

}  // namespace
}  // namespace camber::train
