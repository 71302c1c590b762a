#pragma once
#include <string>
#include <vector>

#include "camber/study/results.h"

namespace camber::study {

/// A table as data: Markdown and the page are made from it.
struct StudyTable {
  std::string title{};
  std::string note{};  ///< how to read it
  std::vector<std::string> columns{};
  std::vector<std::vector<std::string>> rows{};
};

StudyTable gates_table(const StudyResults& results);
/// mAP of every arm under every condition: the mean over seeds, with the deviation for clean and outcome.
StudyTable arms_table(const StudyResults& results);
StudyTable resilience_table(const StudyResults& results);  ///< NDS
StudyTable primary_table(const StudyResults& results);
StudyTable secondary_table(const StudyResults& results);
StudyTable exploratory_table(const StudyResults& results);
StudyTable controls_table(const StudyResults& results);
StudyTable cues_table(const StudyResults& results);
StudyTable scales_table(const StudyResults& results);
/// What biases of several sizes move, from what the first step of the arm with one bias for all moved
/// (analysis/bound.h).
StudyTable reach_table(const StudyResults& results);
StudyTable time_table(const StudyResults& results);
/// All of them that have a row.
std::vector<StudyTable> all_tables(const StudyResults& results);

/// Columns and rows alone; `rule` is what stands below each column's name.
std::string rows_in_markdown(const StudyTable& table, const std::string& rule = " --- ");
std::string to_markdown(const StudyTable& table);
std::string to_markdown(const std::vector<StudyTable>& tables);

/// Puts the text between the line `begin` and `end`; std::invalid_argument when they are not there.
std::string with_text(const std::string& document, const std::string& begin, const std::string& end,
                      const std::string& text);
/// Between `<!-- tables -->` and `<!-- end of tables -->`.
std::string with_tables(const std::string& document, const std::string& tables);

}  // namespace camber::study
