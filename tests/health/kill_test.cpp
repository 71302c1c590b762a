// A writer killed without warning: whatever it said it had written is there, in every file, and the run goes on.
#include <csignal>
#include <cstdlib>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "camber/health/records.h"
#include "camber/health/sink.h"
#include "camber/storage/file.h"
#include "health/event_file.h"
#include "storage/scratch_folder.h"

namespace camber::health {
namespace {

class KilledWriter : public storage::ScratchFolder {};

[[noreturn]] void write_forever(const std::filesystem::path& folder, int report) {
  MetricsSink sink(folder);
  for (std::int64_t step = 1;; ++step) {
    Metrics metrics{{"loss", 1. / static_cast<double>(step)}};
    for (int column = 0; column < step % 40; ++column)
      metrics.push_back({"metric/" + std::to_string(column), 0.123456789});
    sink.write(step, metrics);
    if (::write(report, &step, sizeof step) != sizeof step) _exit(1);
  }
}

// The last step that the writer reported before the signal hit it.
std::int64_t run_and_kill(const std::filesystem::path& folder, unsigned microseconds) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    write_forever(folder, ends[1]);
  }
  close(ends[1]);
  std::int64_t step = 0, last = 0;
  if (read(ends[0], &step, sizeof step) == sizeof step) last = step;  // it is under way
  usleep(microseconds);
  kill(child, SIGKILL);
  while (read(ends[0], &step, sizeof step) == sizeof step) last = step;
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return last;
}

TEST_F(KilledWriter, LosesNothingItHadWritten) {
  for (unsigned round = 0; round < 6; ++round) {
    const std::filesystem::path folder = folder_ / std::to_string(round);
    const std::int64_t last = run_and_kill(folder, 300 + 2311 * round);
    ASSERT_GT(last, 0);
    const auto records = read_records(folder / "metrics.jsonl");
    ASSERT_GE(static_cast<std::int64_t>(records.size()), last);
    for (std::size_t index = 0; index < records.size(); ++index)
      ASSERT_EQ(records[index].step, static_cast<std::int64_t>(index) + 1);
    const std::string table = storage::read_file(folder / "metrics.csv");
    ASSERT_GE(std::count(table.begin(), table.end(), '\n'), last + 1);
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (!entry.path().filename().string().starts_with("events")) continue;
      const std::string events = storage::read_file(entry.path());
      ASSERT_LT(event_bytes_until(events, last - 1), event_bytes_until(events, last));
    }
    MetricsSink sink(folder, {.resume_step = last});
    sink.write(last + 1, {{"loss", 0}});
    ASSERT_EQ(static_cast<std::int64_t>(read_records(folder / "metrics.jsonl").size()), last + 1);
  }
}

}  // namespace
}  // namespace camber::health
