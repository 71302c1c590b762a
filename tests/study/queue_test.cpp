#include "camber/study/queue.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "camber/storage/folder_lock.h"
#include "storage/scratch_folder.h"

namespace camber::study {
namespace {

class QueueTest : public storage::ScratchFolder {
 protected:
  QueueTask task(const std::string& key, const std::string& script, std::vector<std::string> needs = {}) const {
    return {
        .key = key, .needs = std::move(needs), .command = {"/bin/sh", "-c", script}, .log = folder_ / (key + ".log")};
  }
  std::int64_t run(const std::vector<QueueTask>& tasks, std::int64_t processes = 2) {
    return run_queue(tasks, processes,
                     {.begins = [this](const QueueTask& one) { began_.push_back(one.key); },
                      .says = [this](const QueueTask& one, const std::string& line) { said_[one.key] += line + ";"; },
                      .ends = [this](const QueueTask& one, const std::string& failure) { ended_[one.key] = failure; }});
  }
  std::vector<std::string> began_;
  std::map<std::string, std::string> said_, ended_;
};

TEST_F(QueueTest, RunsInOrderAndPassesOnEveryLine) {
  EXPECT_EQ(run({task("a", "echo one; echo two"), task("b", "exit 0"), task("c", "printf three", {"a", "b"})}, 1), 0);
  EXPECT_EQ(began_, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(said_["a"], "one;two;");
  EXPECT_EQ(ended_, (std::map<std::string, std::string>{{"a", ""}, {"b", ""}, {"c", ""}}));
}

TEST_F(QueueTest, OneThatFailsTakesAlongOnlyThoseThatNeedIt) {
  EXPECT_EQ(run({task("base", "echo 'camber: no such file' >&2; exit 1"), task("arm", "exit 0", {"other", "base"}),
                 task("other", "exit 0"), task("elsewhere", "exit 0", {"not_a_task"})}),
            2);
  EXPECT_EQ(ended_["base"], "camber: no such file");
  EXPECT_EQ(ended_["arm"], "base, which it needs, failed");
  EXPECT_EQ(ended_["other"], "");
  EXPECT_EQ(ended_["elsewhere"], "");
}

TEST_F(QueueTest, SaysWhatEndedAProcess) {
  EXPECT_EQ(run({task("killed", "kill -9 $$"), task("mute", "exit 3")}), 2);
  EXPECT_EQ(ended_["killed"], "it was ended by signal 9");
  EXPECT_EQ(ended_["mute"], "it ended with code 3");
}

TEST_F(QueueTest, WorksOnSeveralAtATime) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(run({task("a", "sleep 0.5"), task("b", "sleep 0.5")}), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(950));
}

TEST_F(QueueTest, RefusesACircle) {
  EXPECT_THROW(run({task("a", "exit 0", {"b"}), task("b", "exit 0", {"a"})}), std::invalid_argument);
  EXPECT_THROW(run({}, 0), std::invalid_argument);
}

bool is_alive(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/stat");
  std::string number, name, state;
  return (status >> number >> name >> state) && state != "Z" && state != "X";
}

TEST_F(QueueTest, ChildrenDieWithAKilledParentAndTheLockIsFreeAgain) {
  const std::filesystem::path lock = folder_ / "lock", child = folder_ / "child";
  const pid_t parent = fork();
  if (parent == 0) {
    const storage::FolderLock held(lock);
    run_queue({task("long", "echo $$ >" + child.string() + "; exec sleep 60")}, 1);
    _exit(0);
  }
  pid_t process = 0;
  for (int i = 0; i < 500 && process == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::ifstream(child) >> process;
  }
  ASSERT_GT(process, 0);
  EXPECT_THROW(storage::FolderLock(lock, 0.1), std::runtime_error);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  const storage::FolderLock again(lock, 5);
  EXPECT_FALSE(is_alive(process));
}

}  // namespace
}  // namespace camber::study
