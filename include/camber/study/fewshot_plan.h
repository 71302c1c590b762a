#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "camber/config/field.h"

namespace camber::study {

/// What the table of a part shows beside accuracy: where the scale went, or what a domain feature still tells.
enum class FewshotTable { kScales, kLeaks };

}  // namespace camber::study

template <>
inline constexpr auto camber::config::enum_names<camber::study::FewshotTable> =
    std::array{std::pair{camber::study::FewshotTable::kScales, std::string_view("scales")},
               std::pair{camber::study::FewshotTable::kLeaks, std::string_view("leaks")}};

namespace camber::study {

/// One variant of a few-shot run.
struct FewshotArm {
  std::string name{};
  std::string title{};
  std::vector<std::string> options{};

  const std::string& shown() const { return title.empty() ? name : title; }  ///< as tables call it

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("name", name, "short name: letters, digits and _");
    visitor("title", title, "as tables call it");
    visitor("options", options, "changes of the part's configuration, such as model.purifier=none");
  }
};

/// Arms that share data, division and test episodes, and a table.
struct FewshotPart {
  std::string name{};
  std::filesystem::path config{};
  std::vector<std::string> options{};
  FewshotTable table = FewshotTable::kScales;
  std::string reference{};
  std::string gain_over{};
  std::vector<FewshotArm> arms{};

  std::string arm_name(const FewshotArm& arm) const { return name + "_" + arm.name; }  ///< in keys and records

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("name", name, "short name: letters, digits and _; its table stands behind <!-- table: NAME -->");
    visitor("config", config, "configuration of `camber fewshot` that all its runs have in common");
    visitor("options", options, "changes of it that all its arms share");
    visitor("table", table, "what stands beside accuracy: where the scale went, or what the domain feature tells");
    visitor("reference", reference, "arm that every other one is compared with");
    visitor("gain_over", gain_over, "the reference as the column of gains calls it; empty: by its title");
    visitor("arms", arms, "the variants");
  }
};

/// A few-shot study: every arm of every part with every seed. A seed changes first values, training episodes and
/// dropout.
struct FewshotPlan {
  std::string title = "few-shot study";
  std::vector<std::int64_t> seeds{1, 2, 3, 4, 5};
  std::int64_t processes = 2;
  std::vector<std::string> tests{"5-way 1-shot", "5-way 5-shot"};
  std::vector<FewshotPart> parts{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("title", title, "name of the study");
    visitor("seeds", seeds, "seeds of every arm", config::Range{.min = 0, .max = 999999999});
    visitor("processes", processes, "runs at a time, one thread each", config::Range{.min = 1, .max = 256});
    visitor("tests", tests, "tests whose accuracy the tables show; gains are those of the last");
    visitor("parts", parts, "arms with data and a table of their own");
  }
  /// Refuses names twice, a reference that is no arm, a study without tests. Without parts it is no plan yet.
  void validate() const;
};

}  // namespace camber::study
