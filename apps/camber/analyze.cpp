#include <memory>

#include "apps/camber/commands.h"
#include "camber/analysis/bound.h"
#include "camber/analysis/softmax.h"
#include "camber/health/run_diagnosis.h"
#include "camber/storage/atomic_file.h"

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

void register_softmax(Command& analyze) {
  struct Arguments {
    analysis::SoftmaxOptions options{};
    std::string image{};
  };
  auto arguments = std::make_shared<Arguments>();
  analysis::SoftmaxOptions& options = arguments->options;
  Command& command =
      analyze.add({.name = "softmax",
                   .summary = "what a bias does to a softmax: response, gradient, attention, verdict",
                   .example = "camber analyze softmax --scores 2,2.5 --weights .8,0 --scales 0,2,5 --clip 10"});
  command.option("--scores", options.scores, "scores of the keys before the bias; zeros by default");
  command.option("--weights", options.weights, "trust in each key; its bias is weight * scale");
  command.option("--scales", options.scales, "scales of the bias to show");
  command.option("--differences", options.differences, "differences of two scores to show");
  command.option("--clip", options.clip, "hold the biases inside +-X");
  command.option("--image", arguments->image, "SVG file to draw both parts into");
  command.run(
      [arguments](const CommonOptions& common) {
        if (!arguments->image.empty()) {
          check_ending("analyze softmax", "--image", arguments->image, {".svg"});
          storage::check_writable(arguments->image);
        }
        const analysis::SoftmaxAnalysis analysis = analysis::analyze_softmax(arguments->options);
        if (!arguments->image.empty()) storage::write_file(arguments->image, to_svg(analysis));
        print_answer(written(analysis, common.format));
        return kSuccess;
      },
      {Format::kText, Format::kJson, Format::kCsv});
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

void register_run(Command& analyze) {
  auto run = std::make_shared<std::string>();
  Command& command = analyze.add({.name = "run",
                                  .summary = "the health rules over a finished or running run: sentences, worst first",
                                  .example = "camber analyze run runs/demo"});
  command.option("RUN", *run, "folder of the run", Presence::kRequired);
  command.run(
      [run](const CommonOptions& common) {
        print_answer(written(health::diagnose_run(*run), common.format));
        return kSuccess;
      },
      {Format::kText, Format::kJson, Format::kCsv});
}

}  // namespace

void register_analyze(Command& program) {
  Command& analyze =
      program.add({.name = "analyze",
                   .summary = "what a bias does to a softmax, how large it must become, how healthy a run is",
                   .example = "camber analyze softmax --image softmax.svg"});
  register_softmax(analyze);
  register_bound(analyze);
  register_run(analyze);
}

}  // namespace camber::app
