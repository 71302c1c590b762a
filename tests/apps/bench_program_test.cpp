#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/called_program.h"

// `camber bench attention`, `bench grid` and `bench head`, called as a person calls it.
namespace camber::app {
namespace {

class BenchProgram : public CalledProgram {};

TEST_F(BenchProgram, MeasuresTimeMemoryAndSpeedup) {
  const Answer answer =
      call("bench attention --queries 30 --keys 5000 --repeats 1 --only camber/windows,dense_bias_with --format json");
  ASSERT_EQ(answer.code, 0) << answer.errors;
  const auto bench = nlohmann::json::parse(answer.output);
  EXPECT_GT(bench.at("peak").at("fma_gflops").get<double>(), 0);
  EXPECT_GE(bench.at("peak").at("bf16_gflops").get<double>(), bench.at("peak").at("fma_gflops").get<double>());
  std::map<std::string, nlohmann::json> rows;
  for (const auto& row : bench.at("rows"))
    rows[row.at("name").get<std::string>() + " " + row.at("pass").get<std::string>()] = row;
  ASSERT_EQ(rows.size(), 6U);
  const std::map<std::string, double> counted = {{"forward", 4}, {"backward", 10}, {"forward+backward", 14}};
  for (const auto& [name, row] : rows) {
    const std::string pass = row.at("pass");
    const double milliseconds = row.at("milliseconds").get<double>(), gflops = row.at("gflops").get<double>();
    EXPECT_GT(milliseconds, 0) << name;
    const double work = counted.at(pass) * 8 * 30 * 5000 * 32 * 1e-9;
    EXPECT_NEAR(gflops * milliseconds / 1e3, work, 1e-6 * work) << name;
    EXPECT_GT(row.at("share_of_peak").get<double>(), 0) << name;
    EXPECT_EQ(row.at("extra_megabytes").is_null(), pass == "backward") << name;
    const double ours = rows.at("camber/windows " + pass).at("milliseconds").get<double>();
    EXPECT_DOUBLE_EQ(row.at("speedup").get<double>(), milliseconds / ours) << name;
  }
  // A dense bias with gradients takes several tensors [8, 30, 5000] of floats.
  const double dense = rows.at("sdpa/dense_bias_with_gradient forward+backward").at("extra_megabytes").get<double>();
  EXPECT_GT(dense, 2 * 8 * 30 * 5000 * 4 / 1048576.0);
}

TEST_F(BenchProgram, TextFitsEightyColumnsAndEveryExampleRuns) {
  for (const std::string command : {"bench ", "bench attention ", "bench grid ", "bench head "}) {
    const Answer help = call(command + "--help");
    const std::size_t example = help.output.find("example:\n  camber ");
    ASSERT_NE(example, std::string::npos) << command;
    const std::size_t begin = example + std::string("example:\n  camber ").size();
    const Answer answer = call(help.output.substr(begin, help.output.find('\n', begin) - begin));
    EXPECT_EQ(answer.code, 0) << answer.errors;
    for (std::size_t at = 0; at < answer.output.size();) {
      const std::size_t end = answer.output.find('\n', at);
      EXPECT_LE(end - at, 80U) << answer.output.substr(at, end - at);
      at = end + 1;
    }
  }
  const Answer csv = call("bench attention --queries 5 --keys 5000 --repeats 1 --no-memory --only local --format csv");
  EXPECT_EQ(std::count(csv.output.begin(), csv.output.end(), '\n'), 1 + 4) << csv.output;
}

TEST_F(BenchProgram, ComparesTheHeadWithItselfOnTorchsAttention) {
  const Answer answer = call("bench head --queries 30 --layers 1 --objects 3 --repeats 1 --format json --quiet");
  ASSERT_EQ(answer.code, 0) << answer.errors;
  const auto bench = nlohmann::json::parse(answer.output);
  EXPECT_EQ(bench.at("problem").at("keys"), 22384);
  std::map<std::string, double> best;
  for (const auto& row : bench.at("rows")) best[row.at("name")] = row.at("best_milliseconds");
  ASSERT_EQ(best.size(), 3U);
  EXPECT_NEAR(bench.at("speedup").get<double>(), best.at("torch/head") / best.at("camber/head"), 1e-9);
  EXPECT_NEAR(bench.at("router_and_bias").get<double>(),
              best.at("camber/head") / best.at("camber/head_without_bias") - 1, 1e-9);
  EXPECT_GT(bench.at("difference").get<double>(), 0);  // another order of sums: the same bits would be the same code
  EXPECT_LE(bench.at("difference").get<double>(), bench.at("tolerance").get<double>());
  EXPECT_EQ(bench.at("training").at("denoising_queries"), 30);
  EXPECT_GT(bench.at("training").at("megabytes_above_weights").get<double>(), 20);
}

TEST_F(BenchProgram, ComparesTheHeadsInBfloat16) {
  const Answer answer =
      call("bench head --queries 30 --layers 1 --repeats 1 --no-training --precision bfloat16 --format json --quiet");
  ASSERT_EQ(answer.code, 0) << answer.errors;
  const auto bench = nlohmann::json::parse(answer.output);
  // Rounded to 8 bits: neither the float32 head nor far from it.
  EXPECT_GT(bench.at("difference_from_float32").get<double>(), 1e-5);
  EXPECT_LT(bench.at("difference_from_float32").get<double>(), 5e-2);
  EXPECT_GT(bench.at("torch_difference_from_float32").get<double>(), 1e-5);
  const Answer refused = call("bench head --precision half");
  EXPECT_NE(refused.errors.find("precision must be float32 or bfloat16, got 'half'"), std::string::npos)
      << refused.errors;
}

TEST_F(BenchProgram, ComparesAGridOfSizesWithTorch) {
  const Answer answer = call(
      "bench grid --batches 1,8 --queries 1,8 --keys 128 --types float32,half --seconds 0 --repeats 2 --only training "
      "--format json --quiet");
  ASSERT_EQ(answer.code, 0) << answer.errors;
  const auto bench = nlohmann::json::parse(answer.output);
  ASSERT_EQ(bench.at("rows").size(), 3U * 2 * 2 * 2);  // biases, types, batches, queries
  double logarithms = 0;
  for (const auto& row : bench.at("rows")) {
    EXPECT_EQ(row.at("pass"), "training");
    const double ours = row.at("milliseconds").get<double>(), theirs = row.at("torch_milliseconds").get<double>();
    EXPECT_GT(ours, 0);
    EXPECT_DOUBLE_EQ(row.at("speedup").get<double>(), theirs / ours);
    logarithms += std::log(theirs / ours) / static_cast<double>(bench.at("rows").size());
  }
  EXPECT_NEAR(std::log(bench.at("geometric_mean").get<double>()), logarithms, 1e-9);
  const Answer csv = call("bench grid --batches 1 --queries 1 --keys 16 --seconds 0 --only inference --format csv");
  EXPECT_EQ(std::count(csv.output.begin(), csv.output.end(), '\n'), 1 + 2 * 3) << csv.output;
  // Cells beyond the reference size are left out.
  const Answer large = call("bench grid --batches 64 --queries 900 --keys 22384");
  EXPECT_EQ(large.code, 2) << large.output;
}

TEST_F(BenchProgram, AStoppedGridGoesOn) {
  const std::string rows = (folder_ / "rows.csv").string();
  const auto grid = [&](const std::string& more) {
    return call("bench grid --batches 1 --keys 16 --types float32 --seconds 0 --only inference --format json --rows " +
                rows + " " + more);
  };
  const Answer first = grid("--queries 1");
  ASSERT_EQ(first.code, 0) << first.errors;
  const Answer whole = grid("--queries 1,8");
  ASSERT_EQ(whole.code, 0) << whole.errors;
  const auto part = nlohmann::json::parse(first.output).at("rows"),
             all = nlohmann::json::parse(whole.output).at("rows");
  ASSERT_EQ(part.size(), 2U);
  ASSERT_EQ(all.size(), 4U);
  for (std::size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], all[2 * i]);  // as it was, to the bit
  const Answer otherwise = grid("--queries 1 --repeats 7");
  EXPECT_EQ(otherwise.code, 2);
  EXPECT_TRUE(otherwise.errors.starts_with("camber: [bench grid] --rows must be a new file or rows measured as now"))
      << otherwise.errors;
  std::ofstream(rows, std::ios::app) << "nonsense\n";
  const Answer damaged = grid("--queries 1");
  EXPECT_EQ(damaged.code, 2);
  EXPECT_NE(damaged.errors.find("got 'nonsense'"), std::string::npos) << damaged.errors;
}

TEST_F(BenchProgram, BadInputIsAnsweredWithASentence) {
  const std::pair<const char*, const char*> cases[] = {
      {"--keys 7", "camber: [bench attention] keys must be one of 22384, 56400, 5000, whose maps are known, got 7\n"},
      {"--only fast", "camber: [bench attention] only must be part of a row's name (camber/windows, camber/no_bias, "},
      {"--memory-of camber", "camber: [bench attention] --memory-of must be NAME:PASS, got 'camber'\n"},
      {"--memory-of a:forward",
       "camber: [bench attention] --memory-of must be a known row, NAME:PASS, got 'a:forward'\n"},
      {"--repeats 0", "camber: [bench attention] repeats must be at least 1, got 0\n"},
  };
  for (const auto& [arguments, sentence] : cases) {
    const Answer answer = call(std::string("bench attention ") + arguments);
    EXPECT_EQ(answer.code, 2) << arguments;
    EXPECT_TRUE(answer.errors.starts_with(sentence)) << answer.errors;
  }
  const std::pair<const char*, const char*> grid_cases[] = {
      {"--queries 0", "camber: [bench grid] queries must hold whole numbers from 1 on, got 0.000000\n"},
      {"--types int8", "camber: [bench grid] types must be of float32, bfloat16 and half, got 'int8'\n"},
      {"--seconds -1", "camber: [bench grid] seconds must lie in 0 .. 3600, got -1.000000\n"},
      {"--only sparse", "camber: [bench grid] only must be part of a cell's name (none/inference/float32/B1/"},
  };
  for (const auto& [arguments, sentence] : grid_cases) {
    const Answer answer = call(std::string("bench grid ") + arguments);
    EXPECT_EQ(answer.code, 2) << arguments;
    EXPECT_TRUE(answer.errors.starts_with(sentence)) << answer.errors;
  }
}

}  // namespace
}  // namespace camber::app
