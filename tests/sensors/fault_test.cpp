#include "camber/sensors/fault.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "camber/config/options.h"
#include "nuscenes/small_world.h"

namespace camber::sensors {
namespace {

using tests::message_of;

TEST(FaultTable, HasEveryKindOnceInItsOrder) {
  const auto table = fault_table();
  ASSERT_EQ(table.size(), static_cast<std::size_t>(FaultKind::kCalibration) + 1);
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(table[i].kind), i);
    EXPECT_TRUE(names.insert(table[i].name).second);
    EXPECT_TRUE(table[i].sensor == "LiDAR" || table[i].sensor == "cameras");
    EXPECT_EQ(&fault_row(table[i].kind), &table[i]);
  }
}

TEST(FaultTable, StatesTheQualityThatTheLabelsUse) {
  for (const FaultRow& row : fault_table()) {
    for (std::size_t i = 0; i < row.quality.size(); ++i) {
      const double severity = static_cast<double>(i) + 1;
      const bool nothing_left =
          row.known || row.kind == FaultKind::kBlack || row.kind == FaultKind::kEmpty || row.kind == FaultKind::kFrozen;
      const bool displaced = row.kind == FaultKind::kShift || row.kind == FaultKind::kCalibration;
      if (displaced)
        EXPECT_GE(row.quality[i], 0.5) << row.name;
      else
        EXPECT_NEAR(row.quality[i], nothing_left ? 0 : 1 - severity / 5, 1e-12) << row.name;
    }
  }
}

TEST(Fault, TextComesBack) {
  for (const FaultRow& row : fault_table())
    for (int severity = 1; severity <= kSeverities; ++severity)
      EXPECT_EQ(parse_fault(Fault{.kind = row.kind, .severity = severity}.text()),
                (Fault{.kind = row.kind, .severity = severity}));
  const Fault frozen{FaultKind::kFrozen, 4, FaultSource::kOtherScene, true};
  EXPECT_EQ(frozen.text(), "frozen:4:other_scene:false_timestamps");
  EXPECT_EQ(parse_fault("frozen:4:mixed:true_timestamps").text(), "frozen:4");
  EXPECT_EQ(parse_fault("stale:false_timestamps").text(), "stale:3:false_timestamps");
  EXPECT_EQ(parse_fault("frozen:false_timestamps:other_scene:4"), frozen);
  const Fault two{.kind = FaultKind::kFrozen, .severity = 5, .cameras = 2};
  EXPECT_EQ(two.text(), "frozen:5:cameras=2");
  EXPECT_EQ(parse_fault("frozen:cameras=2:5"), two);
  EXPECT_EQ(parse_fault("dark").severity, 3);
  EXPECT_TRUE(parse_faults("none").empty());
  EXPECT_EQ(parse_faults("all", 5).size(), fault_table().size());
  EXPECT_EQ(parse_faults("all", 5)[3].severity, 5);
  EXPECT_EQ(parse_faults("dark,frozen:2", 4)[0].severity, 4);
  EXPECT_EQ(parse_faults("dark,frozen:2", 4)[1].severity, 2);
}

TEST(Fault, RefusesWhatItDoesNotKnow) {
  EXPECT_NE(message_of([] { parse_fault("frozn"); }).find("got 'frozn' (did you mean 'frozen'?)"), std::string::npos);
  EXPECT_EQ(message_of([] { parse_fault("dark:6"); }), "[fault] severity must be 1 to 5, got 6");
  EXPECT_EQ(message_of([] { parse_fault("dark:false_timestamps"); }),
            "[fault] 'dark:false_timestamps' must be "
            "kind[:severity][:earlier|other_scene|mixed][:true_timestamps|false_timestamps][:cameras=N], got "
            "'false_timestamps'");
  EXPECT_EQ(message_of([] { parse_fault("dark:"); }),
            "[fault] 'dark:' must be "
            "kind[:severity][:earlier|other_scene|mixed][:true_timestamps|false_timestamps][:cameras=N], got ''");
  EXPECT_EQ(message_of([] { parse_fault("dark:cameras=0"); }),
            "[fault] 'dark:cameras=0': cameras must be at least 1, got 0");
  EXPECT_NE(message_of([] { parse_fault("dark:cameras=two"); }).find("got 'cameras=two'"), std::string::npos);
  EXPECT_EQ(message_of([] { parse_fault("stale:3:cameras=1"); }),
            "[fault] 'stale:3:cameras=1': cameras must not be given for stale, a fault of the LiDAR");
  EXPECT_EQ(message_of([] { parse_fault("black:3:cameras=1"); }),
            "[fault] 'black:3:cameras=1': cameras must not be given for black, whose severity says how many");
}

TEST(Fault, RefusesWhatCannotHappenTogether) {
  const auto said = [](const char* list) { return tests::message_of([list] { check_together(parse_faults(list)); }); };
  EXPECT_EQ(said("frozen:4,stale:2,dark"), "(no error)");
  EXPECT_EQ(said("black:3,beams:2"), "(no error)");
  EXPECT_NE(said("dark:2,dark:3").find("a fault once, got dark:2 and dark:3"), std::string::npos);
  for (const char* list : {"lidar_off,stale:3", "beams:2,empty", "cameras_off,dark", "frozen:4,black", "all"})
    EXPECT_NE(said(list).find("must not contradict each other"), std::string::npos) << list;
  FaultOptions options;
  options.kinds = {"dark", "rain", "dark"};
  EXPECT_THROW(options.validate(), std::invalid_argument);
}

TEST(FaultOptions, DrawsKindsAndSeveritiesAsWeighted) {
  FaultOptions options{.share = 0.6, .kinds = {"dark", "stale"}, .weights = {1, 3}, .false_timestamp_share = 0.5};
  options.validate();
  std::map<std::string, int> count;
  int none = 0, false_stamps = 0;
  constexpr int kDraws = 8000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const auto faults = draw_faults(options, random::Stream(1, "draw").at(i));
    if (faults.empty()) {
      ++none;
      continue;
    }
    ++count[std::string(fault_row(faults[0].kind).name)];
    false_stamps += faults[0].false_timestamps ? 1 : 0;
    EXPECT_GE(faults[0].severity, 1);
    EXPECT_LE(faults[0].severity, 3);
    EXPECT_EQ(faults[0], draw_faults(options, random::Stream(1, "draw").at(i))[0]);
  }
  EXPECT_NEAR(none / double{kDraws}, 0.4, 0.02);
  EXPECT_NEAR(count["dark"] / double{kDraws}, 0.15, 0.02);
  EXPECT_NEAR(count["stale"] / double{kDraws}, 0.45, 0.02);
  EXPECT_NEAR(false_stamps / double{kDraws}, 0.225, 0.02);
}

TEST(FaultOptions, RefusesListsThatDoNotFit) {
  EXPECT_NE(message_of([] { FaultOptions{.kinds = {"drak"}}.validate(); }).find("did you mean 'dark'"),
            std::string::npos);
  EXPECT_EQ(message_of([] {
              FaultOptions{.kinds = {"dark", "blur"}, .weights = {1}}.validate();
            }),
            "[faults] weights must have one number for each of the 2 kinds, got 1");
  EXPECT_EQ(message_of([] { FaultOptions{.min_severity = 4}.validate(); }),
            "[faults] min_severity must be at most max_severity (3), got 4");
  EXPECT_EQ(message_of([] { FaultOptions{.kinds = {}}.validate(); }),
            "[faults] kinds must not be empty when share is above 0");
  const auto read = config::parse<FaultOptions>("share = 0.25\nkinds = [\"rain\"]\n", "x");
  EXPECT_EQ(read.share, 0.25);
  EXPECT_EQ(read.kinds, std::vector<std::string>{"rain"});
}

}  // namespace
}  // namespace camber::sensors
