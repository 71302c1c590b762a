#include "camber/study/stream_plan.h"

#include <algorithm>
#include <cmath>

#include "camber/random/stream.h"

namespace camber::study {
namespace {

// Whether something of this share holds at a frame. What begins at any of the last n frames is still there: begun with
// chance p a frame, it holds with chance 1 - (1 - p)^n, which is the share. The first frames of a scene look back
// beyond its beginning, so that their share is the same.
struct Spell {
  bool holds = false;
  std::int64_t begun = 0;  // the latest beginning
};

Spell spell_at(const random::Stream& scene, const char* name, double share, std::int64_t length, std::int64_t frame) {
  const double begins = share >= 1 ? 1 : 1 - std::pow(1 - share, 1 / static_cast<double>(length));
  for (std::int64_t at = frame; at > frame - length; --at)
    if (scene.at(name).at(static_cast<std::uint64_t>(at + length)).uniform() < begins) return {true, at};
  return {};
}

}  // namespace

StreamState state_of(const StudyStream& stream, std::uint64_t scene, std::int64_t frame) {
  const random::Stream own = random::Stream(0, "stream." + stream.name).at(scene);
  const auto count = static_cast<std::uint64_t>(stream.faults.size());
  const auto drawn = [&](const char* name, std::int64_t begun, std::uint64_t among) {
    random::Stream choice = own.at(name).at(static_cast<std::uint64_t>(begun + stream.burst));
    return static_cast<std::int64_t>(choice.integer(among));
  };
  const auto spell = [&](const char* name, double share) { return spell_at(own, name, share, stream.burst, frame); };
  const Spell faulty = spell("fault", stream.prevalence);
  if (!faulty.holds) {
    const Spell alarm = spell("false_alarm", stream.false_alarms);
    return {.fault = -1, .cues = alarm.holds ? drawn("accused", alarm.begun, count) : -1};
  }
  const std::int64_t fault = drawn("kind", faulty.begun, count);
  if (spell("miss", stream.misses).holds) return {.fault = fault, .cues = -1};
  const Spell wrong = spell("wrong_culprit", stream.wrong_culprit);
  if (!wrong.holds || count < 2) return {.fault = fault, .cues = fault};
  const std::int64_t other = drawn("culprit", wrong.begun, count - 1);
  return {.fault = fault, .cues = other < fault ? other : other + 1};
}

}  // namespace camber::study
