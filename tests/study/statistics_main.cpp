// study_statistics: lines "n a... b... margin" in, lines of "mean deviation t p low high equivalence power detectable
// needed" out; "holm n p..." gives the corrected p.
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "camber/study/statistics.h"

namespace {

using namespace camber::study;

std::vector<double> take(std::istream& words, std::size_t count) {
  std::vector<double> values(count);
  for (double& value : values) words >> value;
  return values;
}

void print(const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) std::printf("%s%.17g", i > 0 ? " " : "", values[i]);
  std::printf("\n");
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "holm") {
      std::size_t count = 0;
      words >> count;
      print(holm(take(words, count)));
      continue;
    }
    const std::size_t count = std::stoul(first);
    const std::vector<double> a = take(words, count), b = take(words, count);
    double margin = 0;
    words >> margin;
    const PairedDifference d = paired_difference(a, b);
    print({d.mean, d.deviation, d.t, d.p, d.low, d.high, equivalence_p(d, margin), power(margin, d.deviation, d.pairs),
           detectable_effect(d.deviation, d.pairs), static_cast<double>(pairs_needed(margin, d.deviation))});
  }
  return 0;
}
