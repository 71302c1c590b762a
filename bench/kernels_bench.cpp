// Speed and memory of the attention kernels at the reference size, as shares of the machine's measured peak.
//
//   kernels_bench [--threads N] [--rounds N] [--isa NAME] [--only TEXT] [--clock wall|processor]
//                 [--format text|json]
//
// Every round runs every case once and measures the peak in between; the best of all rounds counts, so that other
// programs on the machine disturb as little as possible. On a busy machine --clock processor counts the processor's
// time, divided by the threads, which leaves out the turns of other programs.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "camber/benchmarks/peak.h"
#include "camber/kernels/attention.h"
#include "reference_problem.h"

namespace camber::bench {
namespace {

using kernels::AttentionProblem;

struct Settings {
  int threads = 2, rounds = 7;
  kernels::Isa isa = kernels::chosen_isa();
  std::string only;
  bool json = false, processor_time = false;

  double seconds() const {
    timespec now{};
    clock_gettime(processor_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    const double all = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
    return processor_time ? all / threads : all;
  }
};

struct BenchCase {
  std::string name;
  double gigaflops;
  bool bfloat16;
  std::function<void()> run;
  double best_seconds = 1e30;
};

kernels::ParallelFor threads(int count) {
  kernels::ParallelFor parallel;
  parallel.slots = count;
  parallel.run = [](void*, std::int64_t slots, kernels::ParallelFor::Body body, void* context) {
    std::vector<std::thread> running;
    for (std::int64_t slot = 1; slot < slots; ++slot) running.emplace_back(body, context, slot);
    body(context, 0);
    for (std::thread& thread : running) thread.join();
  };
  return parallel;
}

// The problem's arrays, the results' arrays, and the calls that are measured.
class Workbench {
 public:
  explicit Workbench(Settings settings)
      : settings_(std::move(settings)),
        data_(ReferenceSizes{}),
        rows_(data_.sizes.batches * data_.sizes.heads * data_.sizes.queries),
        output_(size(rows_ * data_.sizes.width)),
        output16_(output_.size()),
        logsumexp_(size(rows_)),
        statistics_(size(rows_ * (5 + data_.sizes.cameras + 1))),
        keys_left_(size(rows_)),
        grad_q_(data_.q.size()),
        grad_k_(data_.k.size()),
        grad_v_(data_.v.size()),
        grad_window_(data_.window_value.size()),
        grad_segment_(data_.segment_value.size()) {}

  std::vector<BenchCase> cases() {
    const ReferenceSizes& s = data_.sizes;
    const double product = static_cast<double>(s.batches * s.heads * s.queries * s.keys() * s.width) * 1e-9;
    const double forward = 4 * product, backward = 10 * product;
    const double present = static_cast<double>(s.grid * s.grid) / static_cast<double>(s.keys());
    return {
        {"forward, no bias", forward, false, [this] { run_forward(data_.plain()); }},
        {"forward, windows", forward, false, [this] { run_forward(data_.with_windows()); }},
        {"forward, windows and segments", forward, false, [this] { run_forward(with_segments()); }},
        {"forward, windows, statistics", forward, false, [this] { run_forward(with_offsets(), true); }},
        {"forward, windows, cameras absent", forward * present, false, [this] { run_forward(without_cameras()); }},
        {"forward, windows, bfloat16", forward, true, [this] { run_forward(in_bfloat16()); }},
        {"forward, float mask", forward, false, [this] { run_forward(with_mask()); }},
        {"backward, no bias", backward, false, [this] { run_backward(data_.plain()); }},
        {"backward, windows", backward, false, [this] { run_backward(data_.with_windows()); }},
        {"backward, windows and segments", backward, false, [this] { run_backward(with_segments()); }},
        {"backward, float mask", backward, false, [this] { run_backward(with_mask()); }},
    };
  }

 private:
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

  AttentionProblem with_offsets() const {
    AttentionProblem p = data_.with_windows();
    p.segments.offsets = data_.segment_offsets.data();
    p.segments.count = data_.sizes.cameras + 1;
    return p;
  }
  AttentionProblem with_segments() const {
    AttentionProblem p = with_offsets();
    p.segments.value = data_.segment_value.data();
    return p;
  }
  AttentionProblem without_cameras() {
    AttentionProblem p = with_offsets();
    std::fill(available_ + 1, available_ + p.segments.count, false);
    available_[0] = true;
    p.segments.available = available_;
    return p;
  }
  AttentionProblem in_bfloat16() const {
    AttentionProblem p = data_.with_windows();
    p.type = kernels::ElementType::bfloat16;
    p.q.data = data_.q16.data();
    p.k.data = data_.k16.data();
    p.v.data = data_.v16.data();
    return p;
  }
  AttentionProblem with_mask() {
    AttentionProblem p = data_.plain();
    if (mask_.empty()) {
      mask_.assign(size(p.queries * p.keys), 0.25f);
      grad_mask_.assign(mask_.size(), 0.0f);
    }
    p.mask = {mask_.data(), {0, 0, p.keys}};
    return p;
  }

  kernels::Strides strides() const {
    const std::int64_t row = data_.sizes.heads * data_.sizes.width;
    return {data_.sizes.queries * row, data_.sizes.width, row};
  }

  void run_forward(AttentionProblem p, bool statistics = false) {
    p.parallel = threads(settings_.threads);
    const bool full = p.type == kernels::ElementType::float32;
    kernels::ForwardResult result{
        full ? static_cast<void*>(output_.data()) : output16_.data(), strides(), logsumexp_.data(), {}};
    if (statistics) {
      float* at = statistics_.data();
      result.statistics = {
          at, at + rows_, at + 2 * rows_, at + 5 * rows_, at + 3 * rows_, at + 4 * rows_, keys_left_.data()};
    }
    kernels::forward(p, result, settings_.isa);
  }

  void run_backward(AttentionProblem p) {
    p.parallel = threads(settings_.threads);
    const kernels::BackwardInput input{
        {output_.data(), strides()}, logsumexp_.data(), {data_.grad_output.data(), strides()}, nullptr};
    kernels::Gradients gradients;
    gradients.q = {grad_q_.data(), p.q.strides};
    gradients.k = {grad_k_.data(), p.k.strides};
    gradients.v = {grad_v_.data(), p.v.strides};
    if (p.windows.row_offsets != nullptr) gradients.window_value = grad_window_.data();
    if (p.segments.value != nullptr) gradients.segment_value = grad_segment_.data();
    if (p.mask.data != nullptr) gradients.mask = {grad_mask_.data(), p.mask.strides};
    kernels::backward(p, input, gradients, settings_.isa);
  }

  Settings settings_;
  ReferenceProblem data_;
  std::int64_t rows_;
  std::vector<float> output_;
  std::vector<std::uint16_t> output16_;
  std::vector<float> logsumexp_, statistics_;
  std::vector<std::int64_t> keys_left_;
  std::vector<float> grad_q_, grad_k_, grad_v_, grad_window_, grad_segment_, mask_, grad_mask_;
  bool available_[8] = {true, true, true, true, true, true, true, true};
};

double status_megabytes(const char* field) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line))
    if (line.rfind(field, 0) == 0) return std::strtod(line.c_str() + std::strlen(field) + 1, nullptr) / 1024;
  return 0;
}

// Memory that a call needs beyond its inputs and outputs: growth of the peak in a process of its own.
double extra_megabytes(const std::function<void()>& call) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("[kernels_bench] pipe failed");
  const pid_t child = fork();
  if (child == 0) {
    std::ofstream("/proc/self/clear_refs") << 5;  // the peak starts anew
    const double before = status_megabytes("VmHWM:");
    call();
    const double grown = status_megabytes("VmHWM:") - before;
    const bool written = write(ends[1], &grown, sizeof grown) == sizeof grown;
    _exit(written ? 0 : 1);
  }
  double grown = 0;
  const bool known = read(ends[0], &grown, sizeof grown) == sizeof grown;
  close(ends[0]);
  close(ends[1]);
  waitpid(child, nullptr, 0);
  return known ? grown : -1;
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (i + 1 == argc) throw std::invalid_argument("[kernels_bench] " + option + " needs a value");
    const std::string value = argv[++i];
    if (option == "--threads") {
      settings.threads = std::max(1, std::atoi(value.c_str()));
    } else if (option == "--rounds") {
      settings.rounds = std::max(1, std::atoi(value.c_str()));
    } else if (option == "--isa") {
      setenv("CAMBER_ISA", value.c_str(), 1);
      settings.isa = kernels::chosen_isa();
    } else if (option == "--only") {
      settings.only = value;
    } else if (option == "--clock") {
      settings.processor_time = value == "processor";
    } else if (option == "--format") {
      settings.json = value == "json";
    } else {
      throw std::invalid_argument(
          "[kernels_bench] options are --threads, --rounds, --isa, --only, --clock and --format, got " + option);
    }
  }
  return settings;
}

void run(const Settings& settings) {
  Workbench workbench(settings);
  std::vector<BenchCase> cases = workbench.cases();
  std::erase_if(cases, [&](const BenchCase& c) { return c.name.find(settings.only) == std::string::npos; });
  benchmarks::ProcessorPeaks peaks;
  for (BenchCase& c : cases) c.run();  // warm-up: pages are touched, masks are made
  for (int round = 0; round < settings.rounds; ++round)
    for (BenchCase& c : cases) {
      peaks.raise_to(benchmarks::measure_peaks(settings.threads));
      const double start = settings.seconds();
      c.run();
      c.best_seconds = std::min(c.best_seconds, settings.seconds() - start);
    }
  if (!settings.json)
    std::printf(
        "%s, %d threads, best of %d rounds; peak %.1f GFLOP/s, bfloat16 %.1f GFLOP/s\n%-36s %10s %10s %8s %9s\n",
        isa_name(settings.isa), settings.threads, settings.rounds, peaks.fma, peaks.bf16, "case", "ms", "GFLOP/s",
        "of peak", "extra MB");
  for (const BenchCase& c : cases) {
    const double rate = c.gigaflops / c.best_seconds, share = rate / (c.bfloat16 ? peaks.bf16 : peaks.fma);
    const double extra = extra_megabytes(c.run);
    if (settings.json)
      std::printf(
          "{\"name\":\"%s\",\"isa\":\"%s\",\"threads\":%d,\"milliseconds\":%.3f,\"gflops\":%.2f,"
          "\"share_of_peak\":%.4f,\"extra_megabytes\":%.2f}\n",
          c.name.c_str(), isa_name(settings.isa), settings.threads, c.best_seconds * 1e3, rate, share, extra);
    else
      std::printf("%-36s %10.2f %10.1f %7.1f%% %9.2f\n", c.name.c_str(), c.best_seconds * 1e3, rate, share * 100,
                  extra);
  }
}

}  // namespace
}  // namespace camber::bench

int main(int argc, char** argv) {
  try {
    camber::bench::run(camber::bench::parse(argc, argv));
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "[kernels_bench] %s\n", error.what());
    return 1;
  }
  return 0;
}
