#pragma once
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "apps/called_program.h"

namespace camber::app {

namespace fs = std::filesystem;

// Tests that share what calls of the program made once for their suite, in a folder of the suite's own. Suites of one
// process run one after the other.
//
//   static void SetUpTestSuite() {
//     if (!begin("train_program")) return;
//     ASSERT_EQ(call("simulate --out world").code, 0);
//   }
class CalledSuite : public testing::Test {
 protected:
  /// False where there is no program to call: then every test is skipped.
  static bool begin(const std::string& name) {
    const char* program = std::getenv("CAMBER_PROGRAM");
    const char* source = std::getenv("CAMBER_SOURCE");
    if (program == nullptr || source == nullptr) return false;
    program_ = program;
    source_ = source;
    folder_ = fs::temp_directory_path() / ("camber_" + name + "_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    return true;
  }
  static void TearDownTestSuite() {
    if (!folder_.empty()) fs::remove_all(folder_);
  }
  void SetUp() override {
    if (program_.empty()) GTEST_SKIP() << "CAMBER_PROGRAM names no program to test";
  }

  static Answer call(const std::string& arguments) { return call_program(arguments, folder_, folder_); }
  /// Calls the program and kills it once the file exists, or after 100 seconds.
  static void call_until(const std::string& file, const std::string& arguments) {
    const Process process(arguments, folder_, folder_, "killed");
    for (int i = 0; i < 20000 && !fs::exists(folder_ / file); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  static inline std::string program_, source_;
  static inline fs::path folder_;
};

// Studies in a folder that has the project's configurations.
class CalledStudies : public CalledSuite {
 protected:
  using Record = nlohmann::ordered_json;

  static bool begin(const std::string& name) {
    if (!CalledSuite::begin(name)) return false;
    fs::create_directory_symlink(fs::path(source_) / "configs", folder_ / "configs");
    return true;
  }
  /// Every record of a study without its times.
  static std::map<std::string, Record> records(const std::string& study) {
    std::map<std::string, Record> all;
    for (const auto& entry : fs::directory_iterator(folder_ / study / "records")) {
      if (entry.path().extension() != ".json") continue;
      Record record = Record::parse(storage::read_file(entry.path()));
      for (const char* time : {"milliseconds_a_step", "training_seconds", "evaluation_seconds"}) record.erase(time);
      all[entry.path().stem()] = record;
    }
    return all;
  }
};

}  // namespace camber::app
