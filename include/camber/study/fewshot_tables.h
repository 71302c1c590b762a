#pragma once
#include <string>

#include "camber/study/results.h"
#include "camber/study/tables.h"

namespace camber::study {

/// One part's table: for every arm the mean accuracy over seeds with its 95 % interval (Student's t), the gain over the
/// reference paired by seed, and the part's own columns. Arms without a record are left out. Throws std::runtime_error
/// for a record that lacks a value of its table.
StudyTable fewshot_table(const FewshotResults& results, const FewshotPart& part);

/// The table of every part that has a record, each between `<!-- table: NAME -->` and `<!-- end: NAME -->`.
///
///   std::cout << fewshot_tables(read_fewshot_study("study/fewshot"));
std::string fewshot_tables(const FewshotResults& results);

/// The document with every part's table between its two markers; std::invalid_argument where they are missing.
std::string with_fewshot_tables(std::string document, const FewshotResults& results);

}  // namespace camber::study
