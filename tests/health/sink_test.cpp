#include "camber/health/sink.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "camber/health/records.h"
#include "camber/storage/file.h"
#include "health/event_file.h"
#include "storage/scratch_folder.h"

namespace camber::health {
namespace {

using nlohmann::json;

std::string bytes(std::string_view hexadecimal) {
  std::string result;
  for (std::size_t position = 0; position + 1 < hexadecimal.size(); position += 3)
    result += static_cast<char>(std::stoi(std::string(hexadecimal.substr(position, 2)), nullptr, 16));
  return result;
}

TEST(EventFile, HasTheGoldenBytes) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(
      event_record(version_event(1700000000.0)),
      bytes("18 00 00 00 00 00 00 00 a3 7f 4b 22 09 00 00 00 40 fc 54 d9 41 1a 0d 62 72 61 69 6e 2e 45 76 65 6e 74 "
            "3a 32 ec ed 8f 9d "));
  EXPECT_EQ(
      event_record(scalar_event(1700000000.5, 3, {{"sap/logit_scale", 25}})),
      bytes("25 00 00 00 00 00 00 00 ea bc 36 f3 09 00 00 20 40 fc 54 d9 41 10 03 2a 18 0a 16 0a 0f 73 61 70 2f 6c "
            "6f 67 69 74 5f 73 63 61 6c 65 15 00 00 c8 41 5d 6b f4 a2 "));
}

TEST(EventFile, IsCutAfterAStepOrWhereItIsDamaged) {
  const std::string first = event_record(version_event(1)) + event_record(scalar_event(2, 300, {{"a", 1}}));
  const std::string whole = first + event_record(scalar_event(3, 301, {{"a", 2}}));
  EXPECT_EQ(event_bytes_until(whole, 301), static_cast<std::int64_t>(whole.size()));
  EXPECT_EQ(event_bytes_until(whole, 300), static_cast<std::int64_t>(first.size()));
  for (std::size_t size = first.size(); size < whole.size(); ++size)
    EXPECT_EQ(event_bytes_until(whole.substr(0, size), 301), static_cast<std::int64_t>(first.size()));
  std::string damaged = whole;
  damaged[first.size() + 20] ^= 1;
  EXPECT_EQ(event_bytes_until(damaged, 301), static_cast<std::int64_t>(first.size()));
}

class Sink : public storage::ScratchFolder {
 protected:
  SinkOptions options(std::optional<std::int64_t> resume = {}) {
    return {.clock = [this] { return time_ += 0.25; }, .resume_step = resume};
  }
  std::string text(const std::string& name) const { return storage::read_file(folder_ / name); }
  std::vector<std::filesystem::path> event_files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      if (entry.path().filename().string().starts_with("events.out.tfevents.")) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
  }
  void cut(const std::string& name, std::size_t size) { std::filesystem::resize_file(folder_ / name, size); }

  double time_ = 1.7e9;
};

TEST_F(Sink, WritesJsonLinesAndATable) {
  MetricsSink sink(folder_, options());
  sink.write(1, {{"loss/total", 0.1}, {"scale/bias/value", 2.5}});
  sink.write(2, {{"loss/total", std::nan("")}, {"x,\"y\"", -1e-300}});
  const auto records = read_records(folder_ / "metrics.jsonl");
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].metrics, (Metrics{{"loss/total", 0.1}, {"scale/bias/value", 2.5}}));
  EXPECT_TRUE(std::isnan(records[1].metrics[0].value));
  EXPECT_EQ(records[1].metrics[1].value, -1e-300);
  EXPECT_EQ(json::parse(text("metrics.jsonl").substr(0, text("metrics.jsonl").find('\n')))["step"], 1);
  EXPECT_EQ(text("metrics.csv"),
            "step,time,loss/total,scale/bias/"
            "value,\"x,\"\"y\"\"\"\n1,1700000000.500,0.1,2.5,\n2,1700000000.750,nan,,-1e-300\n");
}

TEST_F(Sink, WritesFindings) {
  const Finding finding{.step = 7,
                        .severity = Severity::kAlarm,
                        .rule = "near_cap",
                        .subject = "bias",
                        .value = 4.5,
                        .sentence = "Scale \"bias\"\nis near."};
  MetricsSink sink(folder_, options());
  sink.say(finding);
  EXPECT_EQ(read_findings(folder_ / "health.jsonl"), Findings{finding});
}

TEST_F(Sink, RefusesWhatMakesNoSense) {
  MetricsSink sink(folder_, options());
  sink.write(5, {{"a", 1}});
  EXPECT_THROW(sink.write(4, {{"a", 1}}), std::invalid_argument);
  EXPECT_THROW(sink.write(5, {{"a", 1}, {"a", 2}}), std::invalid_argument);
  EXPECT_THROW(sink.write(5, {{"", 1}}), std::invalid_argument);
  EXPECT_THROW(MetricsSink(folder_, options()), std::invalid_argument);
  EXPECT_EQ(read_records(folder_ / "metrics.jsonl").size(), 1U);
}

TEST_F(Sink, ContinuesAfterTheResumedStep) {
  {
    MetricsSink sink(folder_, options());
    for (int step = 1; step <= 30; ++step) sink.write(step, {{"a", 1. * step}});
    sink.say({.step = 10, .rule = "kept"});
    sink.say({.step = 25, .rule = "cut"});
  }
  {
    MetricsSink sink(folder_, options(20));
    EXPECT_THROW(sink.write(19, {{"a", 0}}), std::invalid_argument);
    for (int step = 21; step <= 40; ++step) sink.write(step, {{"a", 100. + step}});
  }
  const auto records = read_records(folder_ / "metrics.jsonl");
  ASSERT_EQ(records.size(), 40U);
  EXPECT_EQ(records[19].metrics[0].value, 20);
  EXPECT_EQ(records[20].metrics[0].value, 121);
  ASSERT_EQ(read_findings(folder_ / "health.jsonl").size(), 1U);
  const std::string table = text("metrics.csv");
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 41);
  EXPECT_EQ(table.find(",21\n"), std::string::npos);
  // The old events end at step 20, the new ones begin a session at 21.
  const auto files = event_files();
  ASSERT_EQ(files.size(), 2U);
  const std::string old = storage::read_file(files[0]), fresh = storage::read_file(files[1]);
  EXPECT_EQ(event_bytes_until(old, 20), static_cast<std::int64_t>(old.size()));
  EXPECT_LT(event_bytes_until(old, 19), static_cast<std::int64_t>(old.size()));
  EXPECT_NE(fresh.find(session_start_event(0, 21).substr(9)), std::string::npos);
}

TEST_F(Sink, IsReadableAndCanBeContinuedAfterACutAtAnyByte) {
  {
    MetricsSink sink(folder_, options());
    for (int step = 1; step <= 3; ++step) sink.write(step, {{"a", 1. * step}, {"b", 0.5}});
  }
  const std::string lines = text("metrics.jsonl"), table = text("metrics.csv");
  for (std::size_t size = 0; size <= lines.size(); ++size) {
    cut("metrics.jsonl", size);
    cut("metrics.csv", std::min(size, table.size()));
    const auto whole = std::count(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(size), '\n');
    EXPECT_EQ(read_records(folder_ / "metrics.jsonl").size(), static_cast<std::size_t>(whole));
    {
      MetricsSink sink(folder_, {.tensorboard = false, .clock = [] { return 1.7e9; }, .resume_step = 9});
      sink.write(9, {{"a", 9}, {"b", 9}});
    }
    EXPECT_EQ(read_records(folder_ / "metrics.jsonl").size(), static_cast<std::size_t>(whole) + 1);
    EXPECT_TRUE(text("metrics.csv").ends_with("9,1700000000.000,9,9\n"));
    std::ofstream(folder_ / "metrics.jsonl", std::ios::binary) << lines;
    std::ofstream(folder_ / "metrics.csv", std::ios::binary) << table;
  }
}

TEST_F(Sink, NamesALineThatIsNoRecord) {
  std::ofstream(folder_ / "metrics.jsonl") << "{\"step\":1,\"time\":1}\nnonsense\n{\"step\":2,\"time\":1}\n";
  try {
    read_records(folder_ / "metrics.jsonl");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(read_records(folder_ / "absent.jsonl").empty());
}

TEST_F(Sink, StepsBeyondWhatARunCanHaveAreRefused) {
  std::filesystem::create_directories(folder_);
  for (const char* step : {"-1", "-9223372036854775808", "9007199254740993"}) {
    std::ofstream(folder_ / "metrics.jsonl") << "{\"step\":" << step << ",\"time\":1}\n";
    try {
      read_records(folder_ / "metrics.jsonl");
      ADD_FAILURE() << step;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find("step must be between 0 and 9007199254740992, got"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace camber::health
