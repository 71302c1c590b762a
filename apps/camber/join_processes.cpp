#include "apps/camber/join_processes.h"

#include <cstdio>
#include <exception>

#include "camber/distributed/process_group.h"

int camber_join_processes(const char* sums, const char* values) {
  try {
    camber::distributed::set_world(camber::distributed::c10d_group(sums, values));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "camber: %s\n", error.what());
    return 1;
  }
}
