#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "camber/health/finding.h"
#include "camber/health/metric.h"

namespace camber::health {

struct SinkOptions {
  bool csv = true;
  bool tensorboard = true;
  /// Seconds since 1970; the system's clock when empty. Tests bring their own.
  std::function<double()> clock{};
  /// Continue what lies in the folder: every record after this step is cut, also one that a crash left unfinished.
  /// Without it the folder must hold no metrics yet (std::invalid_argument otherwise).
  std::optional<std::int64_t> resume_step{};
};

/// Writes the metrics of a run into its folder, in three forms at once:
///
///   metrics.jsonl         {"step":20,"time":1700000000.5,"loss/total":1.25}, one object a line; NaN, Infinity and
///                         -Infinity stand as strings
///   metrics.csv           step,time, then one column a name; empty where a step has no such metric. A name that comes
///                         new rewrites the file with a wider header, atomically
///   events.out.tfevents.* scalars for TensorBoard; findings as text. A resumed run cuts the old file and goes on in a
///                         new one that begins with the start of a session, so that a TensorBoard that is looking
///                         follows
///   health.jsonl          the findings: {"step":..,"time":..,"severity":..,"rule":..,"subject":..,"value":..,
///                         "sentence":..}
///
/// Every record goes to the operating system whole, in one call, at the end of its file, before write() returns: a
/// process killed at any moment loses nothing that was written, a reader sees whole records and at most one unfinished
/// last one, which every reader of this room passes over. flush() brings all of it to the disk.
///
///   MetricsSink sink("runs/a");
///   sink.write(20, {{"loss/total", 1.25}, {"scale/bias/value", 2.5}});
///   MetricsSink continued("runs/a", {.resume_step = 20});
class MetricsSink {
 public:
  explicit MetricsSink(const std::filesystem::path& folder, SinkOptions options = {});
  ~MetricsSink();
  MetricsSink(MetricsSink&&) noexcept;
  MetricsSink& operator=(MetricsSink&&) noexcept;

  /// One record. Steps never fall. Throws std::invalid_argument for a falling step, a name given twice or an empty one,
  /// std::runtime_error when a file cannot be written.
  void write(std::int64_t step, const Metrics& metrics);
  /// A finding, to health.jsonl and TensorBoard's text.
  void say(const Finding& finding);
  void flush();

 private:
  class Files;
  std::unique_ptr<Files> files_;
};

}  // namespace camber::health
