#include "apps/camber/run_program.h"

#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include <malloc.h>

#include <c10/util/Exception.h>

#include "apps/camber/commands.h"
#include "apps/camber/interruption.h"
#include "camber/distributed/process_group.h"
#include "camber/study/queue.h"

namespace {

// A training frees and takes the same megabytes at every step. By default glibc hands them back to the system each time
// and gets them again page by page; kept, a step has a third of the page faults and the peak is the same.
void keep_freed_memory() {
  constexpr int kMegabyte = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 32 * kMegabyte);  // the most that glibc takes
  mallopt(M_TRIM_THRESHOLD, 1024 * kMegabyte);
  mallopt(M_TOP_PAD, 64 * kMegabyte);
}

// LibTorch appends to its sentences where they were raised; the standard library's begin without brackets.
void say(const std::exception& error) {
  constexpr std::string_view kOfLibrary = "filesystem error: ";
  const auto* raised = dynamic_cast<const c10::Error*>(&error);
  const std::string_view text = raised != nullptr ? raised->what_without_backtrace() : error.what();
  std::string_view sentence = text.substr(0, text.find("\nException raised from"));
  const bool of_library = sentence.starts_with(kOfLibrary);
  if (of_library) sentence.remove_prefix(kOfLibrary.size());
  std::fprintf(stderr, "camber: %s%.*s\n", of_library ? "[storage] " : "", static_cast<int>(sentence.size()),
               sentence.data());
}

// Of several processes each would do the whole work of a sub-command that does not share it.
void check_shared(int argument_count, const char* const* arguments) {
  const std::string_view command = argument_count > 1 ? arguments[1] : "";
  if (camber::distributed::world()->is_alone() || command == "train" || command == "eval") return;
  throw std::invalid_argument("[camber] of several processes only train and eval share their work, got " +
                              std::string(command) + " on " + std::to_string(camber::distributed::world()->size()));
}

// The command line of one call, parsed and run.
int run_words(int argument_count, const char* const* arguments) {
  using namespace camber::app;
  check_shared(argument_count, arguments);
  Program program("A bounded, learnable bias for the queries of a transformer.", CAMBER_VERSION);
  register_advise(program.root());
  register_analyze(program.root());
  register_bench(program.root());
  register_calibrate_agreement(program.root());
  register_eval(program.root());
  register_export(program.root());
  register_faults(program.root());
  register_fewshot(program.root());
  register_import(program.root());
  register_inspect(program.root());
  register_predict(program.root());
  register_report(program.root());
  register_simulate(program.root());
  register_study(program.root());
  register_train(program.root());
  register_verify(program.root());
  register_view(program.root());
  register_metrics(program.root());
  return program.run(argument_count, arguments);
}

}  // namespace

int camber_run_program(int argument_count, const char* const* arguments, int launcher_count,
                       const char* const* launcher) {
  using namespace camber::app;
  keep_freed_memory();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error with a sentence, not the end
  camber::study::set_own_program({launcher, launcher + launcher_count});
  interrupted = 0;
  try {
    return run_words(argument_count, arguments);
  } catch (const std::invalid_argument& error) {
    say(error);
    return kUsage;
  } catch (const std::exception& error) {
    say(error);
    return kFailure;
  }
}

namespace camber::app {

std::string answer_of(const std::vector<std::string>& words) {
  std::vector<const char*> arguments{"camber"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  const AnswerCapture capture;
  const int code = run_words(static_cast<int>(arguments.size()), arguments.data());
  if (code != kSuccess) throw std::runtime_error("[camber] " + words.front() + " ended with " + std::to_string(code));
  return capture.text();
}

}  // namespace camber::app
