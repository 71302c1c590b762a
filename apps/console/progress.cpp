#include "apps/console/progress.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace camber::console {
namespace {

constexpr double kHistorySeconds = 15;
constexpr int kBarWidth = 20;

}  // namespace

ProgressSurface ProgressSurface::standard_error() {
  ProgressSurface surface;
  surface.seconds = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  surface.write = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  };
  surface.terminal = isatty(STDERR_FILENO) == 1;
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) surface.columns = size.ws_col;
  return surface;
}

Progress::Progress(ProgressOptions options, ProgressSurface surface)
    : options_(std::move(options)), surface_(std::move(surface)), done_(options_.start) {
  shown_ = surface_.terminal && !options_.quiet;
  const double now = surface_.seconds();
  history_.emplace_back(now, done_);
  last_drawn_ = now;
}

void Progress::advance(std::int64_t count) {
  const std::scoped_lock lock(mutex_);
  done_ += count;
  if (!shown_) return;
  const double now = surface_.seconds();
  if (now - last_drawn_ >= options_.interval_seconds) draw(now);
}

void Progress::note(std::string words) {
  const std::scoped_lock lock(mutex_);
  note_ = std::move(words);
}

void Progress::log(std::string_view line) {
  const std::scoped_lock lock(mutex_);
  const bool redraw = visible_;
  erase();
  surface_.write(std::string(line) + "\n");
  if (redraw) draw(surface_.seconds());
}

void Progress::finish() {
  const std::scoped_lock lock(mutex_);
  erase();
  shown_ = false;
}

void Progress::draw(double now) {
  history_.emplace_back(now, done_);
  while (history_.size() > 2 && now - history_[1].first > kHistorySeconds) history_.pop_front();
  surface_.write("\r" + line(now) + "\x1b[K");
  last_drawn_ = now;
  visible_ = true;
}

void Progress::erase() {
  if (visible_) surface_.write("\r\x1b[K");
  visible_ = false;
}

double Progress::rate(double now) const {
  const double seconds = now - history_.front().first;
  return seconds > 0 ? static_cast<double>(done_ - history_.front().second) / seconds : 0;
}

std::string Progress::line(double now) const {
  const double speed = rate(now);
  std::string text = options_.task;
  if (options_.total > 0) {
    const double share = std::clamp(static_cast<double>(done_) / static_cast<double>(options_.total), 0.0, 1.0);
    const int filled = static_cast<int>(share * kBarWidth);
    text += fmt::format(" [{}{}] {:.0f}% {}/{} {}", std::string(filled, '#'), std::string(kBarWidth - filled, '.'),
                        std::floor(share * 100), done_, options_.total, options_.unit);
  } else {
    text += fmt::format(" {} {}", done_, options_.unit);
  }
  if (speed > 0) {
    text += speed >= 1 ? fmt::format(", {:.3g}/s", speed) : fmt::format(", {} each", readable_duration(1 / speed));
    if (options_.total > done_)
      text += fmt::format(", {} left", readable_duration(static_cast<double>(options_.total - done_) / speed));
  }
  if (!note_.empty()) text += ", " + note_;
  // A line that wraps cannot be erased.
  if (static_cast<int>(text.size()) >= surface_.columns) text.resize(std::max(surface_.columns - 1, 0));
  return text;
}

std::string readable_duration(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace camber::console
