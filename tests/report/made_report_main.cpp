// made_report PATH OUT [REFRESH]: the page of a run or of a study, without the program and all that it links.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>

#include "camber/report/run_report.h"
#include "camber/report/study_report.h"
#include "camber/storage/atomic_file.h"

int main(int argument_count, char** arguments) {
  if (argument_count < 3) {
    std::fprintf(stderr, "usage: made_report PATH OUT [REFRESH]\n");
    return 2;
  }
  try {
    const double refresh = argument_count > 3 ? std::atof(arguments[3]) : 0;
    const bool study = std::filesystem::exists(std::filesystem::path(arguments[1]) / "records");
    camber::storage::write_file(arguments[2],
                                to_html(study ? camber::report::study_page(arguments[1])
                                              : camber::report::run_page(arguments[1], {.refresh_seconds = refresh})));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "made_report: %s\n", error.what());
    return 1;
  }
  return 0;
}
