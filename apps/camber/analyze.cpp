#include <memory>

#include "apps/camber/commands.h"
#include "camber/analysis/bound.h"

namespace camber::app {
namespace {

template <class Analysis>
std::string written(const Analysis& analysis, Format format) {
  switch (format) {
    case Format::kJson:
      return to_json(analysis);
    case Format::kCsv:
      return to_csv(analysis);
    case Format::kText:
      break;
  }
  return to_text(analysis);
}

void register_bound(Command& analyze) {
  auto options = std::make_shared<analysis::BoundOptions>();
  Command& command =
      analyze.add({.name = "bound",
                   .summary = "how large a bias must become for a window to hold a share of the attention",
                   .example = "camber analyze bound --keys 22384 --window 64 --mass 0.9"});
  command.option("--keys", options->keys, "number of keys, equally scored without the bias");
  command.option("--window", options->window, "how many of them get the bias");
  command.option("--mass", options->mass, "share of the attention that the window is to hold");
  command.run(
      [options](const CommonOptions& common) {
        print_answer(written(analysis::analyze_bound(*options), common.format));
        return kSuccess;
      },
      {Format::kText, Format::kJson, Format::kCsv});
}

}  // namespace

void register_analyze(Command& program) {
  Command& analyze = program.add({.name = "analyze",
                                  .summary = "what a bias does to a softmax, and how large it must become",
                                  .example = "camber analyze bound --keys 22384 --window 64 --mass 0.9"});
  register_bound(analyze);
}

}  // namespace camber::app
