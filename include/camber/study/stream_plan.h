#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "camber/config/field.h"

namespace camber::study {

/// A stream of frames in which faults come and go and cues err: the mixture that a detector meets in use. Each frame of
/// the test scenes is in one state, drawn from a named random stream, the same for all arms:
///
///   faulty with chance prevalence, one of the faults;  then with chance misses its cues are those of a clean frame,
///   with chance wrong_culprit those of another fault;   clean frames have the cues of a fault with chance
///   false_alarms.
///
/// With a burst of n frames faults and errors begin at random and last n frames of their scene, with the same shares.
struct StudyStream {
  std::string name{};
  double prevalence = 0.2;
  double false_alarms = 0.1;
  double misses = 0.1;
  double wrong_culprit = 0;
  std::int64_t burst = 1;
  std::vector<std::string> faults{"frozen:5", "stale:5"};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("name", name, "as tables and measures call it; no name of a fault");
    visitor("prevalence", prevalence, "share of frames under a fault", config::Range{0, 1});
    visitor("false_alarms", false_alarms, "share of clean frames with the cues of a fault", config::Range{0, 1});
    visitor("misses", misses, "share of faulty frames with the cues of a clean one", config::Range{0, 1});
    visitor("wrong_culprit", wrong_culprit, "share of faulty frames with the cues of another fault",
            config::Range{0, 1});
    visitor("burst", burst, "frames that a fault or an error lasts", config::Range{1, 1000});
    visitor("faults", faults, "what befalls the faulty ones, all equally often; of the plan's conditions");
  }
};

/// What a frame of a stream shows and what its cues tell: indices of StudyStream::faults, -1 for a clean frame.
struct StreamState {
  std::int64_t fault = -1, cues = -1;
  bool operator==(const StreamState&) const = default;
};

/// The state of one frame: a function of the stream's own options and name, the scene and the frame's place in it.
StreamState state_of(const StudyStream& stream, std::uint64_t scene, std::int64_t frame);

/// Where the threshold of agreement comes from, which verified policies need: found for every trained model on frames
/// that are no test frames.
struct StudyCalibration {
  bool enabled = false;
  std::string split = "val";
  std::int64_t frames = 0;
  std::vector<std::string> faults{"frozen:5", "stale:5"};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("enabled", enabled, "find every model's threshold of agreement");
    visitor("split", split, "of the world that it was trained on");
    visitor("frames", frames, "how many, spread evenly; 0: all", config::Range{.min = 0});
    visitor("faults", faults, "what the clean frames are told from");
  }
};

/// A comparison that was fixed beforehand beside the primary one. All of them share one Holm correction.
struct StudyComparison {
  std::string arm{}, against{};
  std::string measure = "outcome";
  double not_inferior_within = 0;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("arm", arm, "the arm that is asked about");
    visitor("against", against, "the arm that it is compared with");
    visitor("measure", measure, "outcome, a condition or a stream");
    visitor("not_inferior_within", not_inferior_within,
            "ask whether it is not worse by this much (0.01 is a point) instead of whether it differs; 0: differs",
            config::Range{0, 1});
  }
};

}  // namespace camber::study
