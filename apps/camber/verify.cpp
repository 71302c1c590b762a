#include <cstdio>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "apps/camber/commands.h"
#include "camber/verification/verification.h"

namespace camber::app {
namespace {

using verification::Check;

std::string line(const Check& check) {
  return std::string(check.passed ? "ok    " : "FAIL  ") + check.section + ": " + check.promise + "\n        " +
         check.measured + "\n";
}

std::string to_json(const std::vector<Check>& checks) {
  nlohmann::ordered_json answer;
  answer["checks"] = nlohmann::json::array();
  std::size_t failed = 0;
  for (const Check& check : checks) {
    failed += !check.passed;
    answer["checks"].push_back({{"section", check.section},
                                {"promise", check.promise},
                                {"measured", check.measured},
                                {"passed", check.passed}});
  }
  answer["passed"] = checks.size() - failed;
  answer["failed"] = failed;
  return answer.dump(2) + "\n";
}

}  // namespace

void register_verify(Command& program) {
  Command& command = program.add(
      {.name = "verify", .summary = "check the library's promises on this very build", .example = "camber verify"});
  auto device = std::make_shared<std::string>("cpu");
  command.option("--device", *device, "check what the library promises on cuda or cuda:N instead");
  command.run([device](const CommonOptions& common) {
    const bool text = common.format == Format::kText;
    const auto checks = verification::verify(
        [&](const Check& check) {
          if (text) print_answer(line(check));
        },
        static_cast<int>(common.threads), *device);
    std::size_t failed = 0;
    for (const Check& check : checks) failed += !check.passed;
    if (text)
      print_answer(std::to_string(checks.size() - failed) + " passed, " + std::to_string(failed) + " failed\n");
    else
      print_answer(to_json(checks));
    return failed == 0 ? kSuccess : kFailure;
  });
}

}  // namespace camber::app
