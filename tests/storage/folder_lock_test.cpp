#include "camber/storage/folder_lock.h"

#include <csignal>
#include <stdexcept>

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
};

TEST_F(FolderLockTest, IsHeldByOneAndNamesIt) {
  {
    const FolderLock held(folder_ / "run/lock");
    EXPECT_EQ(refusal(), "[storage] " + (folder_ / "run").string() + " must be free, but process " +
                             std::to_string(getpid()) + " works there");
  }
  EXPECT_EQ(refusal(), "free");
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
  EXPECT_NE(refusal().find("process " + std::to_string(child) + " works there"), std::string::npos) << refusal();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(refusal(), "free");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/lock")) << "the file stays, the lock does not";
}

}  // namespace
}  // namespace camber::storage
