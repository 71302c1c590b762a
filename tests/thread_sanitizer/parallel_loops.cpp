// Two threads in parallel loops. "ordered": each writes its own numbers, which are read and written anew after the
// loop. "racing": both count in one variable.
#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr int kRounds = 100;

long ordered() {
  std::vector<int> numbers(1000);
  long sum = 0;
  for (int round = 0; round < kRounds; ++round) {
#pragma omp parallel for num_threads(2)
    for (int i = 0; i < 1000; ++i) numbers[static_cast<std::size_t>(i)] += i;
    for (int& number : numbers) sum += number--;
  }
  return sum;
}

// The pauses let the threads take turns, on a machine with one core too.
long racing() {
  long count = 0;
#pragma omp parallel num_threads(2)
  for (int round = 0; round < kRounds; ++round) {
    ++count;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return count;
}

}  // namespace

int main(int count, char** arguments) {
  const bool race = count > 1 && std::string_view(arguments[1]) == "racing";
  std::printf("%ld\n", race ? racing() : ordered());
}
