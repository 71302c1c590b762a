// Compares two arms (Student's t is Boost's) and writes the verdict as a page.
#include <iostream>
#include <vector>

#include <camber/report/page.h>
#include <camber/study/statistics.h>

int main() {
  const std::vector<double> arm = {0.52, 0.54, 0.53, 0.55}, reference = {0.50, 0.51, 0.51, 0.52};
  const auto difference = camber::study::paired_difference(arm, reference);
  const auto judgement = camber::study::judge(difference, difference.p, 0.01);
  const camber::report::Page page{.title = "two arms", .tiles = {{"Verdict", judgement.words, ""}}};
  if (judgement.words != "better" || camber::report::to_html(page).find("two arms") == std::string::npos) {
    std::cerr << "the arm must be better, got " << judgement.words << "\n";
    return 1;
  }
  return 0;
}
