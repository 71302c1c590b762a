#include <memory>

#include "apps/camber/commands.h"
#include "camber/study/policies.h"

namespace camber::app {
namespace {

struct AdviseArguments {
  std::string from = "study/alarms";
  study::CueRates rates{};
};

int run_advise(const AdviseArguments& arguments, const CommonOptions& common) {
  arguments.rates.validate();
  const study::StudyResults results = study::read_study(arguments.from);
  print_answer(common.format == Format::kJson ? study::advice_in_json(results, arguments.rates)
                                              : study::advice(results, arguments.rates));
  return kSuccess;
}

}  // namespace

void register_advise(Command& program) {
  auto arguments = std::make_shared<AdviseArguments>();
  Command& command = program.add({.name = "advise",
                                  .summary = "say which policy suits cues that err so often, from a study's records",
                                  .example = "camber advise --false-alarms 0.1 --misses 0.1 --prevalence 0.2"});
  command.option("--from", arguments->from, "a study of alarms: its folder, or its records");
  command.option("--prevalence", arguments->rates.prevalence, "share of frames under a fault");
  command.option("--false-alarms", arguments->rates.false_alarms, "share of clean frames with an alarm");
  command.option("--misses", arguments->rates.misses, "share of faulty frames without one");
  command.run([arguments](const CommonOptions& common) { return run_advise(*arguments, common); },
              {Format::kText, Format::kJson});
}

}  // namespace camber::app
