#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "camber/nuscenes/splits.h"

/// The scene numbers of nuScenes' official splits, as ranges from..to.
namespace camber::nuscenes {
namespace {

struct SceneRange {
  int first, last;
};

constexpr SceneRange kTrainDetect[] = {
    {1, 2},     {41, 76},     {161, 168},   {170, 176},  {190, 196}, {199, 200}, {202, 204}, {206, 214}, {254, 264},
    {283, 306}, {315, 318},   {321, 321},   {323, 324},  {347, 375}, {382, 382}, {420, 439}, {457, 459}, {461, 465},
    {467, 469}, {471, 472},   {474, 480},   {566, 566},  {568, 568}, {570, 578}, {580, 580}, {582, 583}, {665, 679},
    {681, 681}, {683, 689},   {739, 741},   {744, 744},  {746, 747}, {749, 752}, {757, 765}, {767, 769}, {868, 873},
    {875, 878}, {880, 880},   {882, 903},   {945, 945},  {947, 947}, {949, 949}, {952, 953}, {955, 961}, {975, 984},
    {988, 991}, {1011, 1025}, {1074, 1102}, {1104, 1105}};
constexpr SceneRange kTrainTrack[] = {
    {4, 11},    {19, 34},   {120, 135}, {138, 139}, {149, 152}, {154, 155}, {157, 160},  {177, 185},   {187, 188},
    {218, 220}, {222, 222}, {224, 253}, {328, 328}, {376, 381}, {383, 386}, {388, 403},  {405, 408},   {410, 419},
    {440, 456}, {499, 502}, {504, 515}, {517, 518}, {525, 539}, {541, 546}, {584, 600},  {639, 664},   {695, 698},
    {700, 701}, {703, 719}, {726, 728}, {730, 731}, {733, 738}, {786, 787}, {789, 792},  {803, 806},   {808, 813},
    {815, 817}, {819, 822}, {847, 856}, {858, 858}, {860, 866}, {992, 992}, {994, 1010}, {1044, 1058}, {1106, 1110}};
constexpr SceneRange kVal[] = {{3, 3},     {12, 18},   {35, 36},   {38, 39},   {92, 110},   {221, 221}, {268, 278},
                               {329, 332}, {344, 346}, {519, 524}, {552, 565}, {625, 627},  {629, 630}, {632, 638},
                               {770, 771}, {775, 775}, {777, 778}, {780, 784}, {794, 800},  {802, 802}, {904, 917},
                               {919, 931}, {962, 963}, {966, 969}, {971, 972}, {1059, 1073}};
constexpr SceneRange kTest[] = {{77, 91},   {111, 119}, {140, 140}, {142, 148}, {265, 266}, {279, 282},
                                {307, 314}, {333, 343}, {481, 498}, {547, 551}, {601, 604}, {606, 624},
                                {827, 831}, {833, 842}, {844, 846}, {932, 933}, {935, 943}, {1026, 1043}};
constexpr SceneRange kMiniTrain[] = {{61, 61},   {553, 553},   {655, 655},   {757, 757},
                                     {796, 796}, {1077, 1077}, {1094, 1094}, {1100, 1100}};
constexpr SceneRange kMiniVal[] = {{103, 103}, {916, 916}};

struct OfficialSplit {
  std::string_view name, version_ending;
  std::array<std::span<const SceneRange>, 2> ranges;
};

constexpr OfficialSplit kOfficialSplits[] = {
    {"train", "trainval", {kTrainDetect, kTrainTrack}},
    {"val", "trainval", {kVal}},
    {"test", "test", {kTest}},
    {"mini_train", "mini", {kMiniTrain}},
    {"mini_val", "mini", {kMiniVal}},
    {"train_detect", "trainval", {kTrainDetect}},
    {"train_track", "trainval", {kTrainTrack}},
};

}  // namespace

std::vector<std::string> official_split_names() {
  std::vector<std::string> names;
  for (const OfficialSplit& split : kOfficialSplits) names.emplace_back(split.name);
  return names;
}

std::vector<std::string> official_split(std::string_view name) {
  std::vector<std::string> scenes;
  for (const OfficialSplit& split : kOfficialSplits) {
    if (split.name != name) continue;
    for (const auto& ranges : split.ranges)
      for (const SceneRange& range : ranges)
        for (int number = range.first; number <= range.last; ++number) {
          const std::string digits = std::to_string(number);
          scenes.push_back("scene-" + std::string(4 - digits.size(), '0') + digits);
        }
  }
  std::sort(scenes.begin(), scenes.end());
  return scenes;
}

std::string_view official_version_ending(std::string_view name) {
  for (const OfficialSplit& split : kOfficialSplits)
    if (split.name == name) return split.version_ending;
  return {};
}

}  // namespace camber::nuscenes
