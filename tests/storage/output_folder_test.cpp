#include "camber/storage/output_folder.h"

#include <csignal>
#include <stdexcept>

#include <sys/wait.h>
#include <unistd.h>

#include "camber/storage/atomic_file.h"
#include "storage/scratch_folder.h"

namespace camber::storage {
namespace {

class OutputFolderTest : public ScratchFolder {
 protected:
  std::filesystem::path out() const { return folder_ / "world"; }
  std::string refusal() const {
    try {
      const OutputFolder output(out(), "simulate", "--out");
    } catch (const std::exception& error) {
      return error.what();
    }
    return "free";
  }
  // A process that has written half and is killed.
  void leave_unfinished() const {
    const pid_t child = fork();
    if (child == 0) {
      const OutputFolder output(out(), "simulate", "--out");
      std::filesystem::create_directories(out() / "samples");
      write_file(out() / "samples/half", "x");
      kill(getpid(), SIGKILL);
    }
    waitpid(child, nullptr, 0);
  }
};

TEST_F(OutputFolderTest, IsWholeOrNotThere) {
  {
    const OutputFolder output(out(), "simulate", "--out");
    write_file(out() / "file", "x");
  }
  EXPECT_FALSE(std::filesystem::exists(out())) << "it was not there before";
  {
    OutputFolder output(out(), "simulate", "--out");
    write_file(out() / "file", "x");
    output.finish();
  }
  EXPECT_TRUE(std::filesystem::exists(out() / "file"));
  EXPECT_FALSE(std::filesystem::exists(out() / ".unfinished"));
  EXPECT_EQ(refusal(),
            "[simulate] --out must be a new or an empty folder, got " + out().string() + ", which holds files");
}

TEST_F(OutputFolderTest, LeavesAnEmptyFolderThatWasThere) {
  std::filesystem::create_directories(out());
  { const OutputFolder output(out(), "simulate", "--out"); }
  EXPECT_TRUE(std::filesystem::is_empty(out()));
}

TEST_F(OutputFolderTest, TellsASecondWriterOfTheFirst) {
  OutputFolder output(out(), "simulate", "--out");
  write_file(out() / "file", "x");
  EXPECT_NE(refusal().find("must be free, but process " + std::to_string(getpid())), std::string::npos) << refusal();
  EXPECT_TRUE(std::filesystem::exists(out() / "file")) << "the second must not touch it";
}

TEST_F(OutputFolderTest, BeginsAnewWhereAKilledProcessLeftOff) {
  leave_unfinished();
  ASSERT_TRUE(std::filesystem::exists(out() / "samples/half"));
  EXPECT_TRUE(can_be_output(out()));
  OutputFolder output(out(), "simulate", "--out");
  EXPECT_FALSE(std::filesystem::exists(out() / "samples"));
  output.finish();
  EXPECT_TRUE(std::filesystem::is_empty(out()));
}

TEST_F(OutputFolderTest, TakesNoOnesFilesForItsOwn) {
  std::filesystem::create_directories(out());
  write_file(out() / "letter", "dear");
  write_file(out() / ".unfinished", "");  // of no writer: they sign it before they write
  EXPECT_NE(refusal().find("which holds files"), std::string::npos) << refusal();
  EXPECT_TRUE(std::filesystem::exists(out() / "letter"));
}

}  // namespace
}  // namespace camber::storage
