#pragma once
#include <string>
#include <vector>

#include "camber/study/results.h"

namespace camber::study {

/// What the records say, in sentences with their values: the comparison that was fixed beforehand, the verdicts on all
/// main arms, the share of the oracle's gain, what carries the gain (controls), what a wrong cue costs and how many
/// false alarms a true one pays for, what a rule on the same cues does instead, the rows without a verdict. A sentence
/// whose runs are missing is left out.
///
///   for (const std::string& sentence : findings(read_study("study/records"))) ...
std::vector<std::string> findings(const StudyResults& results);

/// As a Markdown section with an empty line behind it; empty without a sentence.
std::string findings_in_markdown(const StudyResults& results);

}  // namespace camber::study
