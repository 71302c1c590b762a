#include <cstdio>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "apps/camber/commands.h"
#include "apps/console/progress.h"
#include "camber/benchmarks/attention.h"
#include "camber/benchmarks/grid.h"
#include "camber/benchmarks/head.h"
#include "camber/config/numbers.h"
#include "camber/study/queue.h"

namespace camber::app {
namespace {

using benchmarks::AttentionBench;
using benchmarks::AttentionBenchOptions;

struct Arguments {
  AttentionBenchOptions options{};
  bool no_memory = false;
  std::string memory_of{};
};

template <class Bench>
std::string written_bench(const Bench& bench, Format format) {
  switch (format) {
    case Format::kJson:
      return to_json(bench);
    case Format::kCsv:
      return to_csv(bench);
    case Format::kText:
      break;
  }
  return to_text(bench);
}

// Runs this very program anew for one row and reads the megabytes that it prints.
double memory_in_fresh_process(const AttentionBenchOptions& o, const std::string& name, const std::string& pass) {
  std::string program;
  for (const std::string& word : study::own_program()) program += "'" + word + "' ";
  const std::string command = fmt::format(
      "{}bench attention --memory-of {}:{} --batch {} --heads {} --width {} --queries {} --keys {} --threads {} "
      "--seed {}",
      program, name, pass, o.batch, o.heads, o.width, o.queries, o.keys, o.threads, o.seed);
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("[bench attention] a fresh process cannot be started");
  std::string answer;
  for (int letter = std::fgetc(pipe); letter != EOF && letter != '\n'; letter = std::fgetc(pipe))
    answer += static_cast<char>(letter);
  const int status = pclose(pipe);
  const auto megabytes = config::read_number(answer);
  if (status != 0 || !megabytes)
    throw std::runtime_error(fmt::format("[bench attention] the fresh process for {} {} failed", name, pass));
  return *megabytes;
}

int print_memory(const Arguments& arguments) {
  const std::string& row = arguments.memory_of;
  const std::size_t colon = row.find(':');
  if (colon == std::string::npos)
    throw std::invalid_argument("[bench attention] --memory-of must be NAME:PASS, got '" + row + "'");
  const double megabytes = benchmarks::measure_memory(arguments.options, row.substr(0, colon), row.substr(colon + 1));
  print_answer(fmt::format("{:.3f}\n", megabytes));
  return kSuccess;
}

// A progress line that a bench is told to move.
benchmarks::BenchProgress progress_line(std::unique_ptr<console::Progress>& line, bool quiet) {
  return
      [&line, quiet, seen = std::int64_t{0}](std::int64_t done, std::int64_t total, const std::string& what) mutable {
        if (!line)
          line = std::make_unique<console::Progress>(
              console::ProgressOptions{.task = "bench", .unit = "runs", .total = total, .quiet = quiet});
        line->note(what);
        line->advance(done - seen);
        seen = done;
      };
}

int run_attention(const Arguments& arguments, const CommonOptions& common) {
  std::unique_ptr<console::Progress> line;
  const auto bench =
      benchmarks::bench_attention(arguments.options, memory_in_fresh_process, progress_line(line, common.quiet));
  line.reset();
  print_answer(written_bench(bench, common.format));
  return kSuccess;
}

// One sentence that says where it comes from.
template <class Action>
int with_title(const char* title, const Action& action) {
  try {
    return action();
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    throw std::invalid_argument(text.starts_with('[') ? text : title + text);
  }
}

void register_attention(Command& bench) {
  auto arguments = std::make_shared<Arguments>();
  AttentionBenchOptions& options = arguments->options;
  Command& command =
      bench.add({.name = "attention",
                 .summary = "our attention and what one would otherwise call, in one run",
                 .example = "camber bench attention --queries 50 --keys 5000 --repeats 1 --only windows,dense"});
  command.option("--batch", options.batch, "batch size");
  command.option("--heads", options.heads, "attention heads");
  command.option("--width", options.width, "width of a head");
  command.option("--queries", options.queries, "queries");
  command.option("--keys", options.keys, "keys: 5000, 22384 or 56400");
  command.option("--device", options.device, "where everything is timed: cpu, cuda or cuda:N");
  command.option("--repeats", options.repeats, "runs of each row, in turns; the best counts");
  command.option("--only", options.only, "only rows whose name contains one of these words");
  command.option("--scaling", options.scaling, "also tables over keys, queries, batch and threads");
  command.option("--no-memory", arguments->no_memory, "leave out the memory, which takes a process a row");
  command.option("--memory-of", arguments->memory_of, "print the extra megabytes of one row, NAME:PASS, alone");
  command.run(
      [arguments](const CommonOptions& common) {
        arguments->options.memory = !arguments->no_memory;
        arguments->options.threads = common.threads;
        arguments->options.seed = common.seed;
        return with_title("[bench attention] ", [&] {
          return arguments->memory_of.empty() ? run_attention(*arguments, common) : print_memory(*arguments);
        });
      },
      {Format::kText, Format::kJson, Format::kCsv});
}

int run_grid(benchmarks::GridBenchOptions options, const CommonOptions& common) {
  options.threads = common.threads;
  options.seed = common.seed;
  std::unique_ptr<console::Progress> line;
  const auto bench = benchmarks::bench_grid(options, progress_line(line, common.quiet));
  line.reset();
  print_answer(written_bench(bench, common.format));
  return kSuccess;
}

void register_grid(Command& bench) {
  auto options = std::make_shared<benchmarks::GridBenchOptions>();
  auto clock = std::make_shared<std::string>("wall");
  Command& command = bench.add(
      {.name = "grid",
       .summary = "our attention against scaled_dot_product_attention over sizes, types and masks",
       .example = "camber bench grid --batches 1 --queries 1,64 --keys 128,512 --types float32 --seconds 0.02"});
  command.option("--batches", options->batches, "batch sizes");
  command.option("--queries", options->queries, "numbers of queries");
  command.option("--keys", options->keys, "numbers of keys");
  command.option("--heads", options->heads, "attention heads");
  command.option("--width", options->width, "width of a head");
  command.option("--types", options->types, "of float32, bfloat16 and half");
  command.option("--seconds", options->seconds, "for each cell, both sides in turns; the best run counts");
  command.option("--repeats", options->repeats, "runs of a cell at least");
  command.option("--problems", options->problems, "also causal, window (Swin), T5 and pair-bias attention");
  command.option("--rows", options->rows_file, "a file that keeps every row, so that a stopped run goes on");
  command.option("--clock", *clock, "wall, or processor: its time divided by the threads");
  command.option("--only", options->only, "only cells whose name contains one of these words");
  command.run(
      [options, clock](const CommonOptions& common) {
        if (*clock != "wall" && *clock != "processor")
          throw std::invalid_argument("[bench grid] --clock must be wall or processor, got '" + *clock + "'");
        options->processor_time = *clock == "processor";
        return with_title("[bench grid] ", [&] { return run_grid(*options, common); });
      },
      {Format::kText, Format::kJson, Format::kCsv});
}

int run_head(benchmarks::HeadBenchOptions options, const CommonOptions& common) {
  options.threads = common.threads;
  options.seed = common.seed;
  std::unique_ptr<console::Progress> line;
  const auto bench = benchmarks::bench_head(options, progress_line(line, common.quiet));
  line.reset();
  print_answer(common.format == Format::kJson ? to_json(bench) : to_text(bench));
  return kSuccess;
}

void register_head(Command& bench) {
  struct HeadArguments {
    benchmarks::HeadBenchOptions options{};
    bool no_training = false;
  };
  auto arguments = std::make_shared<HeadArguments>();
  auto& options = arguments->options;
  Command& command =
      bench.add({.name = "head",
                 .summary = "the head at reference size beside torch.nn.MultiheadAttention's, and its memory",
                 .example = "camber bench head --queries 40 --layers 1 --repeats 1 --no-training"});
  command.option("--batch", options.batch, "frames");
  command.option("--queries", options.queries, "object queries");
  command.option("--layers", options.layers, "decoder layers");
  command.option("--objects", options.objects, "true objects a frame in the training step");
  command.option("--repeats", options.repeats, "rounds, in turns; the best run counts");
  command.option("--precision", options.precision, "of the products of both heads: float32, or bfloat16 by autocast");
  command.option("--no-training", arguments->no_training, "leave out the training step");
  command.run([arguments](const CommonOptions& common) {
    arguments->options.training = !arguments->no_training;
    return with_title("[bench head] ", [&] { return run_head(arguments->options, common); });
  });
}

}  // namespace

void register_bench(Command& program) {
  Command& bench =
      program.add({.name = "bench",
                   .summary = "speed and memory against what one would otherwise call",
                   .example = "camber bench attention --queries 50 --keys 5000 --repeats 1 --only windows"});
  register_attention(bench);
  register_grid(bench);
  register_head(bench);
  register_bench_detector(bench);
}

}  // namespace camber::app
