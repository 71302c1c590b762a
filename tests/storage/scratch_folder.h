#pragma once
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace camber::storage {

// A folder of the test's own that is gone after it.
class ScratchFolder : public testing::Test {
 protected:
  ScratchFolder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        std::filesystem::temp_directory_path() / ("camber_storage_" + std::to_string(getpid()) + "_" + test->name());
    std::filesystem::create_directories(folder_);
  }
  ~ScratchFolder() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

}  // namespace camber::storage
