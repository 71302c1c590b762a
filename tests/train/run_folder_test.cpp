// The folder of a run.
#include <stdexcept>

#include <camber/storage/atomic_file.h>
#include <camber/storage/file.h>
#include <camber/train/run_folder.h>
#include <gtest/gtest.h>

#include "train/tiny_model.h"

namespace camber::train {
namespace {

TEST(RunFolder, HoldsConfigurationAndEnvironmentAndIsNotOverwritten) {
  const testing::TemporaryFolder folder("run");
  Environment environment = Environment::of_this_program();
  environment.seed = 11;
  const auto path = folder.path() / "a";
  EXPECT_THROW(RunFolder::open(path), std::invalid_argument);
  const RunFolder run = RunFolder::create(path, "x = 1\n", environment);
  EXPECT_EQ(storage::read_file(run.config()), "x = 1\n");
  const std::string text = storage::read_file(run.environment());
  EXPECT_NE(text.find("\"seed\": 11"), std::string::npos) << text;
  for (const std::string& value : {environment.torch_version, environment.processor, environment.instruction_set}) {
    EXPECT_FALSE(value.empty());
    EXPECT_NE(text.find(value), std::string::npos) << value;
  }
  EXPECT_THROW(RunFolder::create(path, "x = 2\n", environment), std::invalid_argument);
  EXPECT_EQ(storage::read_file(RunFolder::open(path).config()), "x = 1\n");
}

TEST(RunFolder, FingerprintsFollowTheTables) {
  const testing::TemporaryFolder folder("tables");
  storage::write_file(folder.path() / "sample.json", "[]");
  const std::string before = fingerprint_of_tables(folder.path());
  storage::write_file(folder.path() / "image.jpg", "other files do not count");
  EXPECT_EQ(fingerprint_of_tables(folder.path()), before);
  storage::write_file(folder.path() / "sample.json", "[1]");
  EXPECT_NE(fingerprint_of_tables(folder.path()), before);
}

}  // namespace
}  // namespace camber::train
