// Solves the assignment problems of a file and prints one line for each: the cost of its finite entries, how many
// entries were chosen, how many of them are not finite, and the milliseconds of the best of `repeats` runs.
// scripts/prove detector holds them beside scipy's.
//   assignment_costs FILE [repeats]
// FILE: for each matrix rows and columns as int64, then rows * columns float64, row by row.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <vector>

#include "camber/detection/matching.h"

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: assignment_costs FILE [repeats]\n"), 2;
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 1;
  std::ifstream file(argv[1], std::ios::binary);
  std::int64_t size[2];
  while (file.read(reinterpret_cast<char*>(size), sizeof size)) {
    std::vector<double> cost(static_cast<std::size_t>(size[0] * size[1]));
    if (!file.read(reinterpret_cast<char*>(cost.data()), static_cast<std::streamsize>(cost.size() * sizeof(double))))
      return std::fprintf(stderr, "%s ends within a matrix\n", argv[1]), 1;
    double best = std::numeric_limits<double>::infinity();
    std::vector<std::int64_t> column_of;
    for (int run = 0; run < repeats; ++run) {
      const auto begin = std::chrono::steady_clock::now();
      column_of = camber::detection::least_cost_assignment(cost, size[0], size[1]);
      best =
          std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    double sum = 0;
    std::int64_t broken = 0, taken = 0;
    for (std::int64_t row = 0; row < size[0]; ++row) {
      const std::int64_t column = column_of[static_cast<std::size_t>(row)];
      if (column < 0) continue;
      const double value = cost[static_cast<std::size_t>(row * size[1] + column)];
      ++taken;
      if (std::isfinite(value))
        sum += value;
      else
        ++broken;
    }
    std::printf("%.17g %lld %lld %.4f\n", sum, static_cast<long long>(taken), static_cast<long long>(broken), best);
  }
}
