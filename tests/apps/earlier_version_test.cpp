#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/called_program.h"
#include "apps/train_program.h"
#include "camber/ops/numerics.h"
#include "camber/storage/safetensors.h"

// Files that version 0.1.0 wrote, with the options' names of that time: a run that was stopped at step 2 of 4, and what
// the same run was at its end (tests/earlier_version).
namespace camber::app {
namespace {

class EarlierVersion : public CalledProgram {
 protected:
  void SetUp() override {
    CalledProgram::SetUp();
    if (IsSkipped()) return;
    files_ = fs::path(std::getenv("CAMBER_SOURCE")) / "tests/earlier_version";
    fs::copy(files_ / "run", folder_ / "run", fs::copy_options::recursive);
    ASSERT_EQ(call("simulate --out world --scenes 5 --world.frames=3 --seed 7").code, 0);
  }

  fs::path files_{};
};

std::map<std::string, std::vector<float>> floats_of(const fs::path& file) {
  const storage::SafetensorsFile opened(file);
  std::map<std::string, std::vector<float>> values;
  for (const auto& tensor : opened.tensors()) {
    if (tensor.type != storage::DataType::kF32) continue;
    auto& numbers = values[tensor.name];
    numbers.resize(tensor.bytes.size() / sizeof(float));
    std::memcpy(numbers.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  return values;
}

// To the bit where the machine has the instructions of the one that wrote the files and the attention its arithmetic
// (ops::kNumerics); elsewhere within their rounding.
TEST_F(EarlierVersion, ARunGoesOnToWhatItWouldHaveBeen) {
  const Answer resumed = call("train --resume run --threads 1");
  ASSERT_EQ(resumed.code, 0) << resumed.errors;
  const auto found = floats_of(folder_ / "run/model.safetensors");
  const auto expected = floats_of(files_ / "trained_to_the_end.safetensors");
  ASSERT_FALSE(expected.empty());
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0;
  for (const auto& [name, values] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    ASSERT_EQ(found.at(name).size(), values.size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i)
      largest = std::max(largest, std::abs(static_cast<double>(values[i]) - found.at(name)[i]));
  }
  const Json environment = json_of(storage::read_file(files_ / "run/environment.json"));
  const Json own = json_of(storage::read_file(folder_ / "run/environment.json"));
  const bool same =
      own["instruction_set"] == environment["instruction_set"] && environment["numerics"] == ops::kNumerics;
  EXPECT_LE(largest, same ? 0 : 1e-3);
}

TEST_F(EarlierVersion, ARunIsEvaluatedPredictedWithAndReported) {
  fs::copy(files_ / "trained_to_the_end.safetensors", folder_ / "run/model.safetensors");
  EXPECT_EQ(
      call("eval --run run --split train --limit 2 --faults frozen:1:other_scene:false_timestamps --format json").code,
      0);
  EXPECT_EQ(call("predict --run run --split val --out results.json --image found.png").code, 0);
  EXPECT_EQ(call("analyze run run --format json").code, 0);
  ASSERT_EQ(call("report run --out report.html").code, 0);
  EXPECT_NE(storage::read_file(folder_ / "report.html").find("Effective bias, lidar"), std::string::npos);
}

TEST_F(EarlierVersion, OldNamesInACommandAreAnsweredWithTheNew) {
  const auto errors = [this](const std::string& arguments) { return call(arguments).errors; };
  EXPECT_NE(errors("train --out new --data.root=world --detector.encoder.picture_width=120").find("image_width now"),
            std::string::npos);
  EXPECT_NE(errors("eval --run run --faults frozen:5:lying").find("false_timestamps"), std::string::npos);
  EXPECT_NE(errors("predict --run run --picture found.png").find("--image"), std::string::npos);
}

}  // namespace
}  // namespace camber::app
