#include "apps/console/progress.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace camber::console {
namespace {

constexpr const char* kErase = "\r\x1b[K";

// A terminal that remembers what was written, and a clock that stands still unless it is moved.
struct Terminal {
  std::string written{};
  double now = 100;

  ProgressSurface surface(bool terminal = true, int columns = 120) {
    return {.write = [this](std::string_view text) { written += text; },
            .seconds = [this] { return now; },
            .terminal = terminal,
            .columns = columns};
  }
  std::string last_line() const {
    const std::size_t begin = written.rfind('\r') + 1;
    return written.substr(begin, written.find('\x1b', begin) - begin);
  }
};

TEST(Progress, ShowsCountRateAndRemainingTime) {
  Terminal terminal;
  Progress progress({.task = "simulate", .unit = "frames", .total = 400}, terminal.surface());
  EXPECT_EQ(terminal.written, "");
  terminal.now += 4;
  progress.note("scene-0012");
  progress.advance(100);
  EXPECT_EQ(terminal.last_line(), "simulate [#####...............] 25% 100/400 frames, 25/s, 12 s left, scene-0012");
  terminal.now += 4;
  progress.advance(300);
  EXPECT_EQ(terminal.last_line(), "simulate [####################] 100% 400/400 frames, 50/s, scene-0012");
  progress.finish();
  EXPECT_TRUE(terminal.written.ends_with(kErase));
}

TEST(Progress, RateFollowsTheLastSeconds) {
  Terminal terminal;
  Progress progress({.task = "train", .unit = "steps", .total = 100000}, terminal.surface());
  for (int second = 0; second < 60; ++second) {
    terminal.now += 1;
    progress.advance(second < 30 ? 10 : 100);
  }
  EXPECT_NE(terminal.last_line().find(", 100/s,"), std::string::npos) << terminal.last_line();
}

TEST(Progress, SlowJobsShowTheTimeOfEachAndResumedOnesCountOnlyTheirOwnWork) {
  Terminal terminal;
  Progress progress({.task = "study", .unit = "runs", .total = 12, .start = 10}, terminal.surface());
  terminal.now += 200;
  progress.advance();
  EXPECT_EQ(terminal.last_line(), "study [##################..] 91% 11/12 runs, 3 min 20 s each, 3 min 20 s left");
}

TEST(Progress, WithoutATotalThereIsNoRemainingTime) {
  Terminal terminal;
  Progress progress({.task = "read", .unit = "rows"}, terminal.surface());
  terminal.now += 2;
  progress.advance(5000);
  EXPECT_EQ(terminal.last_line(), "read 5000 rows, 2.5e+03/s");
}

TEST(Progress, DrawsAtMostOnceAnInterval) {
  Terminal terminal;
  Progress progress({.task = "x", .total = 1000, .interval_seconds = 1}, terminal.surface());
  for (int i = 0; i < 100; ++i) {
    terminal.now += 0.05;
    progress.advance();
  }
  EXPECT_LE(std::count(terminal.written.begin(), terminal.written.end(), '\r'), 5);
  EXPECT_GE(std::count(terminal.written.begin(), terminal.written.end(), '\r'), 4);
}

TEST(Progress, IsSilentWhenQuiet) {
  for (const bool is_terminal : {true, false}) {
    Terminal terminal;
    {
      Progress progress({.task = "x", .total = 10, .quiet = true}, terminal.surface(is_terminal));
      terminal.now += 500;
      progress.advance(5);
      progress.log("a note");
    }
    EXPECT_EQ(terminal.written, "a note\n");
  }
}

TEST(Progress, WithoutATerminalALineIsWrittenEveryHalfMinute) {
  Terminal terminal;
  {
    Progress progress({.task = "train", .unit = "steps", .total = 1000}, terminal.surface(false));
    progress.note("loss 3.2");
    for (int second = 0; second < 70; ++second) {
      terminal.now += 1;
      progress.advance(2);
    }
    progress.log("a note");
  }
  EXPECT_EQ(terminal.written,
            "train 6% 60/1000 steps, 2/s, 7 min 50 s left, loss 3.2\n"
            "train 12% 120/1000 steps, 2/s, 7 min 20 s left, loss 3.2\na note\n");
}

TEST(Progress, ANarrowTerminalKeepsTheNote) {
  const auto line_at = [](int columns) {
    Terminal terminal;
    Progress progress({.task = "train", .unit = "steps", .total = 1400}, terminal.surface(true, columns));
    progress.note("loss 12.345, scale 3.210");
    terminal.now += 10;
    progress.advance(120);
    return terminal.last_line();
  };
  EXPECT_EQ(line_at(120),
            "train [#...................] 8% 120/1400 steps, 12/s, 1 min 47 s left, loss 12.345, scale 3.210");
  EXPECT_EQ(line_at(80), "train 8% 120/1400 steps, 12/s, 1 min 47 s left, loss 12.345, scale 3.210");
  EXPECT_EQ(line_at(70), "train 8% 120/1400 steps, 1 min 47 s left, loss 12.345, scale 3.210");
  EXPECT_EQ(line_at(60), "train 8%, 1 min 47 s left, loss 12.345, scale 3.210");
  EXPECT_EQ(line_at(40), "train 8%, loss 12.345, scale 3.210");
  EXPECT_EQ(line_at(20), "train 8%, loss 12.3");
}

TEST(Progress, LogStandsAboveTheLine) {
  Terminal terminal;
  Progress progress({.task = "x", .total = 10}, terminal.surface());
  terminal.now += 1;
  progress.advance(5);
  terminal.written.clear();
  progress.log("scale above its warning threshold");
  EXPECT_TRUE(terminal.written.starts_with(std::string(kErase) + "scale above its warning threshold\n\rx ["))
      << terminal.written;
}

TEST(Progress, NeverWrapsTheLine) {
  Terminal terminal;
  Progress progress({.task = "a task with a long name", .total = 1000}, terminal.surface(true, 20));
  terminal.now += 1;
  progress.advance(5);
  EXPECT_EQ(terminal.last_line(), "a task with a long ");
}

TEST(Progress, CountsFromManyThreads) {
  Terminal terminal;
  Progress progress({.task = "x", .total = 4000, .interval_seconds = 0}, terminal.surface());
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 1000; ++k) progress.advance();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(terminal.last_line().find("4000/4000"), std::string::npos) << terminal.last_line();
}

TEST(Duration, ReadsLikeAPersonSaysIt) {
  EXPECT_EQ(readable_duration(0.04), "0.0 s");
  EXPECT_EQ(readable_duration(7.25), "7.2 s");
  EXPECT_EQ(readable_duration(42.4), "42 s");
  EXPECT_EQ(readable_duration(59.6), "1 min 0 s");
  EXPECT_EQ(readable_duration(200), "3 min 20 s");
  EXPECT_EQ(readable_duration(3600 * 5 + 12 * 60 + 5), "5 h 12 min");
}

}  // namespace
}  // namespace camber::console
