#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace camber::console {

struct ProgressOptions {
  std::string task{};            ///< what is being done: "simulate"
  std::string unit = "items";    ///< what is counted: "frames"
  std::int64_t total = 0;        ///< how many there will be; 0: not known, then no remaining time is shown
  std::int64_t start = 0;        ///< how many were done before, by the run that is continued
  bool quiet = false;            ///< show nothing (`--quiet`)
  double interval_seconds = .1;  ///< the line is drawn at most this often
  double log_seconds = 30;       ///< without a terminal a line is written this often
};

/// Where a progress line is drawn and whose time it goes by. The default is standard error and the steady clock; tests
/// bring their own.
struct ProgressSurface {
  std::function<void(std::string_view)> write{};
  std::function<double()> seconds{};
  bool terminal = false;  ///< whether a line can be drawn and erased there
  int columns = 80;

  static ProgressSurface standard_error();
};

/// One line on standard error that says how far a long job is, how fast it goes and how long it will take:
///
///   simulate [#########...........] 46% 184/400 frames, 41.2/s, 6 s left, scene-0012
///
/// On a terminal it is drawn over itself and gone after finish(); where it is too narrow, the bar goes first, then the
/// rate, the count and the remaining time: the words of note() stay. Without a terminal, in a log, it becomes a line of
/// its own every 30 seconds. A quiet job shows nothing. Every member may be called from any thread.
///
///   Progress progress({.task = "simulate", .unit = "frames", .total = 400, .quiet = common.quiet});
///   for (...) { ...; progress.advance(); }
///   progress.finish();
class Progress {
 public:
  explicit Progress(ProgressOptions options, ProgressSurface surface = ProgressSurface::standard_error());
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Counts finished items and redraws the line when it is due.
  void advance(std::int64_t count = 1);
  /// A few words at the end of the line, such as the loss; shown from the next drawing on.
  void note(std::string words);
  /// Writes a whole line to standard error above the progress line, whether or not one is shown.
  void log(std::string_view line);
  /// Removes the line. The destructor does it too.
  void finish();

 private:
  void draw(double now);
  void erase();
  std::string line(double now) const;
  std::string line_with(double now, int parts) const;
  double rate(double now) const;

  ProgressOptions options_;
  ProgressSurface surface_;
  mutable std::mutex mutex_;
  std::string note_;
  std::int64_t done_;
  double last_drawn_;
  bool shown_;  // whether the line is drawn at all
  bool visible_ = false;
  // (time, items done) over the last seconds: the rate follows what the job does now.
  std::deque<std::pair<double, std::int64_t>> history_;
};

/// "7 s", "3 min 20 s", "5 h 12 min": for people, to two places.
std::string readable_duration(double seconds);

}  // namespace camber::console
