#include "camber/storage/file.h"

#include <fstream>
#include <stdexcept>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "storage/scratch_folder.h"

namespace camber::storage {
namespace {

namespace fs = std::filesystem;

template <class Error, class Call>
std::string sentence_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class Files : public ScratchFolder {};

TEST_F(Files, AreReadWhole) {
  const std::string text(100'000, 'x');
  std::ofstream(folder_ / "a") << text;
  EXPECT_EQ(read_file(folder_ / "a"), text);
  std::ofstream(folder_ / "empty") << "";
  EXPECT_EQ(read_file(folder_ / "empty"), "");
}

TEST_F(Files, MustBeRegular) {
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  fs::create_directory(folder_ / "folder");
  for (const fs::path& path : {folder_ / "fifo", fs::path("/dev/zero"), folder_ / "folder"}) {
    const std::string said = sentence_of<std::runtime_error>([&] { read_file(path); });
    EXPECT_NE(said.find(path.string() + " must be a regular file to be read"), std::string::npos) << said;
    EXPECT_EQ(sentence_of<std::runtime_error>([&] { const MappedFile mapped(path); }), said);
  }
  EXPECT_NE(sentence_of<std::runtime_error>([&] { read_file(folder_ / "missing"); }).find("No such file"),
            std::string::npos);
}

TEST_F(Files, MustNotLeadOutOfTheirFolder) {
  fs::create_directories(folder_ / "data/samples");
  std::ofstream(folder_ / "outside") << "secret";
  std::ofstream(folder_ / "data/samples/own") << "own";
  fs::create_symlink(folder_ / "outside", folder_ / "data/samples/out");
  fs::create_symlink(folder_ / "data/samples/own", folder_ / "data/inside");
  fs::create_directory_symlink(folder_, folder_ / "data/up");
  EXPECT_NO_THROW(check_inside(folder_ / "data", folder_ / "data/samples/own"));
  EXPECT_NO_THROW(check_inside(folder_ / "data", folder_ / "data/inside"));
  EXPECT_NO_THROW(check_inside(folder_ / "data", folder_ / "data/samples/missing"));
  for (const char* file : {"data/samples/out", "data/up/outside", "data/../outside", "data/missing/../../outside"})
    EXPECT_NE(
        sentence_of<std::runtime_error>([&] { check_inside(folder_ / "data", folder_ / file); }).find("leads outside"),
        std::string::npos)
        << file;
  // A folder whose name only begins alike is another one.
  fs::create_directory(folder_ / "data2");
  EXPECT_THROW(check_inside(folder_ / "data", folder_ / "data2/x"), std::runtime_error);
}

TEST_F(Files, NewFoldersAreNewOrEmpty) {
  fs::create_directory(folder_ / "empty");
  EXPECT_NO_THROW(check_new_folder(folder_ / "new", "op", "out"));
  EXPECT_NO_THROW(check_new_folder(folder_ / "empty", "op", "out"));
  std::ofstream(folder_ / "empty/left") << "x";
  EXPECT_EQ(sentence_of<std::invalid_argument>([&] { check_new_folder(folder_ / "empty", "op", "out"); }),
            "[op] out must be a new or an empty folder, got " + (folder_ / "empty").string() + ", which holds files");
  EXPECT_THROW(check_new_folder(folder_ / "empty/left", "op", "out"), std::invalid_argument);
}

}  // namespace
}  // namespace camber::storage
