#include "camber/health/sink.h"

#include <chrono>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "camber/storage/file.h"
#include "health/csv_log.h"
#include "health/event_file.h"
#include "health/json_line.h"

namespace camber::health {
namespace {

double system_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Whole lines up to the last step: every line of both files begins {"step":N, so that no JSON has to be read.
std::int64_t line_bytes_until(const std::filesystem::path& file, std::int64_t last_step) {
  constexpr std::string_view kStart = "{\"step\":";
  if (!std::filesystem::exists(file)) return 0;
  const std::string text = storage::read_file(file);
  std::size_t position = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', position)) {
    if (text.compare(position, kStart.size(), kStart) != 0)
      throw std::runtime_error(fmt::format("[sink] {} must hold one object a line that begins with its step, got '{}'",
                                           file.string(),
                                           text.substr(position, std::min<std::size_t>(end - position, 60))));
    if (std::atoll(text.c_str() + position + kStart.size()) > last_step) break;
    position = end + 1;
  }
  return static_cast<std::int64_t>(position);
}

void check_names(const Metrics& metrics) {
  std::unordered_set<std::string_view> seen;
  for (const Metric& metric : metrics) {
    if (metric.name.empty() || metric.name == "step" || metric.name == "time")
      throw std::invalid_argument(
          fmt::format("[sink] a metric's name must not be empty, step or time, got '{}'", metric.name));
    if (!seen.insert(metric.name).second)
      throw std::invalid_argument(fmt::format("[sink] a record must hold a name once, got {} twice", metric.name));
  }
}

}  // namespace

class MetricsSink::Files {
 public:
  Files(const std::filesystem::path& folder, SinkOptions options) : options_(std::move(options)) {
    if (!options_.clock) options_.clock = system_seconds;
    std::filesystem::create_directories(folder);
    const std::filesystem::path metrics = folder / "metrics.jsonl", health = folder / "health.jsonl";
    const std::optional<std::int64_t> resume = options_.resume_step;
    if (!resume && std::filesystem::exists(metrics) && std::filesystem::file_size(metrics) > 0)
      throw std::invalid_argument(fmt::format(
          "[sink] folder must hold no metrics yet, got {}; resume the run or choose another folder", metrics.string()));
    metrics_ = AppendFile(metrics, resume ? line_bytes_until(metrics, *resume) : 0);
    health_ = AppendFile(health, resume ? line_bytes_until(health, *resume) : 0);
    if (options_.csv) csv_.emplace(folder / "metrics.csv", resume);
    if (options_.tensorboard) events_ = start_event_file(folder, options_.clock(), resume);
    if (resume) last_step_ = *resume;
  }

  void write(std::int64_t step, const Metrics& metrics) {
    if (step < last_step_)
      throw std::invalid_argument(fmt::format("[sink] step must not fall: got {} after {}", step, last_step_));
    check_names(metrics);
    last_step_ = step;
    const double time = options_.clock();
    metrics_.append(json_line(step, time, metrics));
    if (csv_) csv_->write(step, time, metrics);
    if (events_) events_->append(event_record(scalar_event(time, step, metrics)));
  }

  void say(const Finding& finding) {
    const double time = options_.clock();
    health_.append(json_line(time, finding));
    if (events_)
      events_->append(event_record(text_event(time, finding.step, "health/" + finding.rule, finding.sentence)));
  }

  void flush() {
    metrics_.flush();
    health_.flush();
    if (csv_) csv_->flush();
    if (events_) events_->flush();
  }

 private:
  SinkOptions options_;
  AppendFile metrics_, health_;
  std::optional<CsvLog> csv_;
  std::optional<AppendFile> events_;
  std::int64_t last_step_ = std::numeric_limits<std::int64_t>::min();
};

MetricsSink::MetricsSink(const std::filesystem::path& folder, SinkOptions options)
    : files_(std::make_unique<Files>(folder, std::move(options))) {}
MetricsSink::~MetricsSink() = default;
MetricsSink::MetricsSink(MetricsSink&&) noexcept = default;
MetricsSink& MetricsSink::operator=(MetricsSink&&) noexcept = default;

void MetricsSink::write(std::int64_t step, const Metrics& metrics) {
  files_->write(step, metrics);
}
void MetricsSink::say(const Finding& finding) {
  files_->say(finding);
}
void MetricsSink::flush() {
  files_->flush();
}

}  // namespace camber::health
