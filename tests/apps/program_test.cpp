#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/called_program.h"

// The built program, called as a person calls it.
namespace camber::app {
namespace {

constexpr double kLastDigit = 0.5e-6;

class ProgramTest : public CalledProgram {
 protected:
  nlohmann::json json(const std::string& arguments) const {
    const Answer answer = call(arguments + " --format json");
    EXPECT_EQ(answer.code, 0);
    EXPECT_EQ(answer.errors, "");
    return nlohmann::json::parse(answer.output);
  }
};

TEST_F(ProgramTest, AnalyzeSoftmaxGivesTheGoldenNumbers) {
  const auto answer = json("analyze softmax");
  const double curve[][3] = {{0, .500000, .250000}, {1, .731059, .196612}, {2, .880797, .104994},
                             {3, .952574, .045177}, {5, .993307, .006648}, {10, .999955, .000045}};
  const char* zones[] = {"sensitive", "sensitive", "sensitive", "safe", "edge", "saturated"};
  ASSERT_EQ(answer.at("curve").size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    const auto& point = answer.at("curve").at(i);
    EXPECT_EQ(point.at("difference").get<double>(), curve[i][0]);
    EXPECT_NEAR(point.at("weight").get<double>(), curve[i][1], kLastDigit);
    EXPECT_NEAR(point.at("gradient").get<double>(), curve[i][2], kLastDigit);
    EXPECT_EQ(point.at("zone"), zones[i]);
  }
  const double scales[][6] = {{1, .195152, .434319, .107102, .263428, 1.271754},
                              {2.5, .093204, .688687, .020797, .197312, 0.878803},
                              {5, .016631, .908007, .000828, .074534, 0.355156},
                              {10, .000333, .992975, .000001, .006691, 0.043179},
                              {20, .000000, .999954, .000000, .000045, 0.000501}};
  const char* verdicts[] = {"normal", "normal", "saturated", "saturated", "saturated"};
  ASSERT_EQ(answer.at("scales").size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    const auto& row = answer.at("scales").at(i);
    EXPECT_EQ(row.at("scale").get<double>(), scales[i][0]);
    for (std::size_t key = 0; key < 4; ++key)
      EXPECT_NEAR(row.at("attention").at(key).get<double>(), scales[i][key + 1], kLastDigit);
    EXPECT_NEAR(row.at("entropy").get<double>(), scales[i][5], kLastDigit);
    EXPECT_NEAR(row.at("max_attention").get<double>(), scales[i][2], kLastDigit);
    EXPECT_EQ(row.at("verdict"), verdicts[i]);
  }
}

TEST_F(ProgramTest, AnalyzeSoftmaxGivesTheClippedShares) {
  const auto answer = json("analyze softmax --scores 2.0,2.5 --weights .8,0 --scales 0,1,2,5,10,20 --clip 10");
  const double shares[] = {.377541, .574443, .750260, .970688, .999447, .999925};
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_NEAR(answer.at("scales").at(i).at("attention").at(0).get<double>(), shares[i], kLastDigit);
  EXPECT_EQ(answer.at("scales").at(2).at("verdict"), "nearly");
}

TEST_F(ProgramTest, AnalyzeBoundGivesTheGoldenNumbers) {
  const auto half = json("analyze bound --keys 22384 --window 64 --mass .5");
  EXPECT_NEAR(half.at("bias").get<double>(), 5.854355, kLastDigit);
  EXPECT_EQ(half.at("scale_max"), half.at("bias"));
  const double masses[][2] = {{0, .002859}, {2.5, .033753}, {5, .298520}, {8, .895261}};
  ASSERT_EQ(half.at("mass_at").size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(half.at("mass_at").at(i).at("bias").get<double>(), masses[i][0]);
    EXPECT_NEAR(half.at("mass_at").at(i).at("mass").get<double>(), masses[i][1], kLastDigit);
  }
  EXPECT_NEAR(json("analyze bound --keys 22384 --window 64 --mass 0.9").at("bias").get<double>(), 8.051580, kLastDigit);
  EXPECT_NEAR(json("analyze bound --keys 22384 --window 225 --mass 0.5").at("bias").get<double>(), 4.589899,
              kLastDigit);
}

TEST_F(ProgramTest, TextShowsTheNumbersInEightyColumns) {
  const std::pair<const char*, const char*> cases[] = {{"analyze softmax", "0.731059  0.196612"},
                                                       {"analyze bound --mass 0.9", "8.051580"}};
  for (const auto& [arguments, numbers] : cases) {
    const Answer answer = call(arguments);
    EXPECT_EQ(answer.code, 0);
    EXPECT_NE(answer.output.find(numbers), std::string::npos) << answer.output;
    for (std::size_t begin = 0; begin < answer.output.size();) {
      const std::size_t end = answer.output.find('\n', begin);
      EXPECT_LE(end - begin, 80U) << answer.output.substr(begin, end - begin);
      begin = end + 1;
    }
  }
}

TEST_F(ProgramTest, CsvHasAHeaderAndARowForEveryAnswer) {
  const Answer softmax = call("analyze softmax --format csv");
  EXPECT_EQ(softmax.code, 0);
  EXPECT_EQ(softmax.output.find("table,difference,weight,gradient,zone,scale,bias_1,"), 0U);
  EXPECT_EQ(std::count(softmax.output.begin(), softmax.output.end(), '\n'), 1 + 6 + 5);
  EXPECT_EQ(call("analyze bound --format csv").output.find("bias,mass\n0,0.00285918"), 0U);
}

TEST_F(ProgramTest, ImageIsWrittenBesideTheAnswer) {
  const auto path = folder_ / "softmax.svg";
  const Answer answer = call("analyze softmax --format json --image '" + path.string() + "'");
  EXPECT_EQ(answer.code, 0);
  EXPECT_FALSE(nlohmann::json::parse(answer.output).empty());
  const std::string svg = storage::read_file(path);
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find(">saturated<"), std::string::npos);
}

TEST_F(ProgramTest, HelpHasAnExampleThatRuns) {
  for (const std::string command : {"", "analyze ", "analyze softmax ", "analyze bound "}) {
    const Answer help = call(command + "--help");
    EXPECT_EQ(help.code, 0);
    EXPECT_EQ(help.errors, "");
    const std::size_t example = help.output.find("example:\n  camber ");
    ASSERT_NE(example, std::string::npos) << command;
    const std::size_t begin = example + std::string("example:\n  camber ").size();
    const std::string line = help.output.substr(begin, help.output.find('\n', begin) - begin);
    EXPECT_EQ(call(line).code, 0) << line;
  }
}

TEST_F(ProgramTest, BadInputIsAnsweredWithOneSentenceAndExitTwo) {
  const std::pair<const char*, const char*> cases[] = {
      {"analyse", "camber: unknown sub-command 'analyse'; the nearest is analyze"},
      {"analyze sofmax", "camber: [analyze] unknown sub-command 'sofmax'; the nearest is softmax"},
      {"analyze softmax --weigths 1", "camber: [analyze softmax] unknown option '--weigths'; the nearest is --weights"},
      {"analyze softmax --weights 1,x",
       "camber: [analyze softmax] --weights must be a comma-separated list of numbers, got '1,x'"},
      {"analyze softmax --scores 1,2", "camber: [analyze softmax] scores must be as many as the weights, 4, got 2"},
      {"analyze bound --mass 1.5", "camber: [analyze bound] mass must lie between 0 and 1, both excluded, got 1.5"},
      {"analyze bound --format yaml", "camber: [analyze bound] --format must be text, json or csv, got 'yaml'"},
  };
  for (const auto& [arguments, sentence] : cases) {
    const Answer answer = call(arguments);
    EXPECT_EQ(answer.code, 2) << arguments;
    EXPECT_EQ(answer.output, "") << arguments;
    EXPECT_TRUE(answer.errors.starts_with(sentence)) << answer.errors;
    EXPECT_EQ(std::count(answer.errors.begin(), answer.errors.end(), '\n'), 1) << answer.errors;
  }
}

TEST_F(ProgramTest, HelpOfWhatDoesNotExistIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"analyse --help", "camber: unknown sub-command 'analyse'; the nearest is analyze"},
      {"analyse --version", "camber: unknown sub-command 'analyse'; the nearest is analyze"},
      {"--help analyse", "camber: unknown sub-command 'analyse'; the nearest is analyze"},
      {"analyze sofmax --help", "camber: [analyze] unknown sub-command 'sofmax'; the nearest is softmax"},
      {"analyze softmax --weigths 1 --help", "camber: [analyze softmax] unknown option '--weigths'"}};
  for (const auto& [arguments, sentence] : cases) {
    const Answer answer = call(arguments);
    EXPECT_EQ(answer.code, 2) << arguments;
    EXPECT_EQ(answer.output, "") << arguments;
    EXPECT_TRUE(answer.errors.starts_with(sentence)) << answer.errors;
  }
}

TEST_F(ProgramTest, VerifyChecksEveryPromiseAndCountsThem) {
  const Answer text = call("verify");
  EXPECT_EQ(text.code, 0) << text.output;
  EXPECT_TRUE(text.output.ends_with(" passed, 0 failed\n"));
  const auto answer = json("verify --threads 1");
  EXPECT_EQ(answer.at("failed"), 0);
  EXPECT_GE(answer.at("passed").get<int>(), 46);
  EXPECT_EQ(answer.at("checks").size(), answer.at("passed").get<std::size_t>());
  EXPECT_NE(text.output.find("ok    detector: a camera that delivered nothing is off"), std::string::npos);
}

TEST_F(ProgramTest, AFailureOfTheWorldIsExitOne) {
  const Answer image = call("analyze softmax --image '" + (folder_ / "missing" / "x.svg").string() + "'");
  EXPECT_EQ(image.code, 1);
  EXPECT_NE(image.errors.find("x.svg cannot be written: No such file or directory\n"), std::string::npos);
  EXPECT_EQ(image.output, "");
  if (std::filesystem::exists("/dev/full")) {
    const int status = std::system("\"$CAMBER_PROGRAM\" analyze softmax >/dev/full 2>/dev/null");
    EXPECT_EQ(WEXITSTATUS(status), 1);
  }
}

}  // namespace
}  // namespace camber::app
