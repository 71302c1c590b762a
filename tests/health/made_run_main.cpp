// made_run FOLDER SITUATION [STEPS [INTERVAL [running|resumed]]]: writes the folder of a made-up run.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "health/made_run_folder.h"

int main(int argument_count, char** arguments) {
  using namespace camber::health;
  if (argument_count < 3) {
    std::fprintf(stderr, "usage: made_run FOLDER SITUATION [STEPS [INTERVAL [running|resumed]]]\n");
    return 2;
  }
  MadeFolderOptions options;
  bool known = false;
  for (const auto& [situation, name] : kSituations)
    if (name == arguments[2]) options.run.situation = situation, known = true;
  if (!known) {
    std::fprintf(stderr, "made_run: unknown situation %s\n", arguments[2]);
    return 2;
  }
  if (argument_count > 3) options.steps = std::atoll(arguments[3]);
  if (argument_count > 4) options.interval = std::atoll(arguments[4]);
  if (argument_count > 5) options.finished = std::string_view(arguments[5]) != "running";
  if (argument_count > 5) options.resumed = std::string_view(arguments[5]) == "resumed";
  try {
    write_made_run(arguments[1], options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "made_run: %s\n", error.what());
    return 1;
  }
  return 0;
}
