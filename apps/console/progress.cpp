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
// How much a line says.
constexpr int kNoteAlone = 0, kWithoutCount = 1, kWithoutRate = 2, kWithoutBar = 3, kEverything = 4;

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
  shown_ = !options_.quiet;
  const double now = surface_.seconds();
  history_.emplace_back(now, done_);
  last_drawn_ = now;
}

void Progress::advance(std::int64_t count) {
  const std::scoped_lock lock(mutex_);
  done_ += count;
  if (!shown_) return;
  const double now = surface_.seconds();
  if (now - last_drawn_ >= (surface_.terminal ? options_.interval_seconds : options_.log_seconds)) draw(now);
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
  last_drawn_ = now;
  if (!surface_.terminal) return surface_.write(line_with(now, kWithoutBar) + "\n");
  surface_.write("\r" + line(now) + "\x1b[K");
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

// The most that fits: what matters less is left out first, the words of note() last.
std::string Progress::line(double now) const {
  std::string text;
  for (int parts = kEverything; parts >= kNoteAlone; --parts) {
    text = line_with(now, parts);
    if (static_cast<int>(text.size()) < surface_.columns) return text;
  }
  // A line that wraps cannot be erased.
  text.resize(std::max(surface_.columns - 1, 0));
  return text;
}

std::string Progress::line_with(double now, int parts) const {
  const double speed = rate(now);
  std::string text = options_.task;
  if (options_.total > 0) {
    const double share = std::clamp(static_cast<double>(done_) / static_cast<double>(options_.total), 0.0, 1.0);
    const int filled = static_cast<int>(share * kBarWidth);
    if (parts >= kEverything)
      text += fmt::format(" [{}{}]", std::string(filled, '#'), std::string(kBarWidth - filled, '.'));
    text += fmt::format(" {:.0f}%", std::floor(share * 100));
    if (parts >= kWithoutRate) text += fmt::format(" {}/{} {}", done_, options_.total, options_.unit);
  } else {
    text += fmt::format(" {} {}", done_, options_.unit);
  }
  if (speed > 0 && parts >= kWithoutBar)
    text += speed >= 1 ? fmt::format(", {:.3g}/s", speed) : fmt::format(", {} each", readable_duration(1 / speed));
  if (speed > 0 && parts >= kWithoutCount && options_.total > done_)
    text += fmt::format(", {} left", readable_duration(static_cast<double>(options_.total - done_) / speed));
  if (!note_.empty()) text += ", " + note_;
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
