#include "camber/storage/folder_lock.h"

#include <csignal>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "camber/storage/file.h"
#include "storage/scratch_folder.h"

namespace camber::storage {
namespace {

class FolderLockTest : public ScratchFolder {
 protected:
  std::string refusal() const {
    try {
      const FolderLock lock(folder_ / "run/lock");
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "free";
  }
  static std::string host() {
    char name[256] = {};
    gethostname(name, sizeof name - 1);
    return name;
  }
};

TEST_F(FolderLockTest, IsHeldByOneAndNamesIt) {
  {
    const FolderLock held(folder_ / "run/lock");
    EXPECT_EQ(refusal(), "[storage] " + (folder_ / "run").string() + " must be free, but process " +
                             std::to_string(getpid()) + " on " + host() + " works there");
  }
  EXPECT_EQ(refusal(), "free");
}

TEST_F(FolderLockTest, ReadsTheMarkOfAnEarlierVersion) {
  const FolderLock held(folder_ / "run/lock");
  std::ofstream(folder_ / "run/lock") << "4711\n";
  EXPECT_NE(refusal().find("but process 4711 works there"), std::string::npos) << refusal();
}

TEST_F(FolderLockTest, TellsWhetherSomeoneEndedBefore) {
  EXPECT_FALSE(FolderLock(folder_ / "run/lock").was_signed());
  EXPECT_TRUE(FolderLock(folder_ / "run/lock").was_signed());
}

TEST_F(FolderLockTest, IsNotHeldByTwoWhenTheFirstRemovesItsFile) {
  auto first = std::make_unique<FolderLock>(folder_ / "run/lock");
  std::thread second([&] {
    const FolderLock waited(folder_ / "run/lock", 20);
    EXPECT_TRUE(std::filesystem::exists(folder_ / "run/lock")) << "it must hold what others would open";
    EXPECT_NE(refusal(), "free");
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::filesystem::remove(folder_ / "run/lock");
  first.reset();
  second.join();
}

TEST_F(FolderLockTest, VanishesWithItsProcess) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const FolderLock held(folder_ / "run/lock");
    [[maybe_unused]] const auto told = write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  char letter = 0;
  ASSERT_EQ(read(ready[0], &letter, 1), 1);
  EXPECT_NE(refusal().find("process " + std::to_string(child) + " on " + host() + " works there"), std::string::npos)
      << refusal();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(refusal(), "free");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/lock")) << "the file stays, the lock does not";
}

}  // namespace
}  // namespace camber::storage
