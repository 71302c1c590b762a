#include "camber/storage/atomic_file.h"

#include <csignal>
#include <fstream>
#include <stdexcept>

#include <sys/wait.h>
#include <unistd.h>

#include "camber/storage/file.h"
#include "storage/scratch_folder.h"

namespace camber::storage {
namespace {

class AtomicFileTest : public ScratchFolder {
 protected:
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  static std::string failure(const std::filesystem::path& path) {
    try {
      write_file(path, "x");
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(AtomicFileTest, AppearsWholeOnCommitAndReplacesTheOldOne) {
  const auto path = folder_ / "a.txt";
  write_file(path, "old");
  {
    AtomicFile file(path);
    file.write("new ");
    EXPECT_EQ(read_file(path), "old");
    file.write("content");
    file.commit();
  }
  EXPECT_EQ(read_file(path), "new content");
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFileTest, LeavesNothingBehindWithoutCommit) {
  const auto path = folder_ / "a.txt";
  write_file(path, "old");
  {
    AtomicFile file(path);
    file.write(std::string(1 << 20, 'x'));
    EXPECT_EQ(files(), 2U);
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFileTest, TwoWritersOfOneNameDoNotMix) {
  const auto path = folder_ / "a.txt";
  AtomicFile first(path), second(path);
  first.write("first");
  second.write("second");
  first.commit();
  second.commit();
  EXPECT_EQ(read_file(path), "second");
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFileTest, WhatAKilledProcessLeftIsRemovedAndNothingElse) {
  const auto path = folder_ / "a.txt";
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile file(path);
    file.write("half");
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  ASSERT_EQ(files(), 1U);
  write_file(folder_ / ".a.txt.notes.temporary", "someone's own");
  const AtomicFile living(path);
  ASSERT_EQ(files(), 3U);
  remove_leftovers(folder_, "other.txt");
  EXPECT_EQ(files(), 3U);
  check_writable(path);
  EXPECT_EQ(files(), 2U) << "the file that is being written and the one that is none of ours stay";
}

TEST_F(AtomicFileTest, HasThePermissionsOfAnOrdinaryFile) {
  write_file(folder_ / "a.txt", "x");
  std::ofstream(folder_ / "b.txt") << "x";
  EXPECT_EQ(std::filesystem::status(folder_ / "a.txt").permissions(),
            std::filesystem::status(folder_ / "b.txt").permissions());
}

TEST_F(AtomicFileTest, FailuresNameThePath) {
  EXPECT_EQ(failure(folder_ / "none" / "a.txt"),
            "[storage] " + (folder_ / "none" / "a.txt").string() + " cannot be written: No such file or directory");
  EXPECT_EQ(failure(folder_), "[storage] " + folder_.string() + " must be the name of a regular file to be written");
  EXPECT_EQ(failure("/dev/null"), "[storage] /dev/null must be the name of a regular file to be written");
  EXPECT_EQ(failure(""), "[storage]  must be the name of a regular file to be written");
}

TEST_F(AtomicFileTest, ReadFileReturnsEveryByteOrNamesThePath) {
  std::string bytes;
  for (int i = 0; i < 100000; ++i) bytes += static_cast<char>(i * 7);
  write_file(folder_ / "a", bytes);
  EXPECT_EQ(read_file(folder_ / "a"), bytes);
  write_file(folder_ / "empty", "");
  EXPECT_EQ(read_file(folder_ / "empty"), "");
  EXPECT_TRUE(MappedFile(folder_ / "empty").bytes().empty());
  EXPECT_THROW(read_file(folder_ / "none"), std::runtime_error);
  EXPECT_THROW(read_file(folder_), std::runtime_error);
  EXPECT_THROW(MappedFile file(folder_), std::runtime_error);
}

}  // namespace
}  // namespace camber::storage
