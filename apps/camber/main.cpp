#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string_view>

#include <malloc.h>

#include "apps/camber/commands.h"

namespace {

// A training frees and takes the same megabytes at every step. By default glibc hands them back to the system each time
// and gets them again page by page; kept, a step has a third of the page faults and the peak is the same.
void keep_freed_memory() {
  constexpr int kMegabyte = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 32 * kMegabyte);  // the most that glibc takes
  mallopt(M_TRIM_THRESHOLD, 1024 * kMegabyte);
  mallopt(M_TOP_PAD, 64 * kMegabyte);
}

// LibTorch appends to its sentences where they were raised.
void say(const std::exception& error) {
  const std::string_view text = error.what();
  const std::string_view sentence = text.substr(0, text.find("\nException raised from"));
  std::fprintf(stderr, "camber: %.*s\n", static_cast<int>(sentence.size()), sentence.data());
}

}  // namespace

int main(int argument_count, char** arguments) {
  using namespace camber::app;
  keep_freed_memory();
  try {
    Program program("A bounded, learnable bias for the queries of a transformer.", CAMBER_VERSION);
    register_analyze(program.root());
    register_bench(program.root());
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
    register_metrics(program.root());
    return program.run(argument_count, arguments);
  } catch (const std::invalid_argument& error) {
    say(error);
    return kUsage;
  } catch (const std::exception& error) {
    say(error);
    return kFailure;
  }
}
