#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

#include "apps/camber/run_program.h"

namespace {

// OpenMP's threads wait for each other at the end of every parallel loop, and by default they spin for milliseconds.
// Beside other programs that burns the very time the slower thread needs: a training step then takes several times as
// long as with one thread. After a short wait they had better sleep. The library reads the variable once, while it is
// loaded; whoever has said how to wait is obeyed.
void wait_without_spinning() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "2000", 0);  // some ten microseconds
}

}  // namespace

// The program is loaded, not linked: what stands in the environment by now, its libraries see.
int main(int argument_count, char** arguments) {
  wait_without_spinning();
  void* program = dlopen("libcamber_program.so", RTLD_NOW | RTLD_GLOBAL);
  void* entry = program == nullptr ? nullptr : dlsym(program, "camber_run_program");
  if (entry == nullptr) {
    std::fprintf(stderr, "camber: [camber] libcamber_program.so must be beside the program: %s\n", dlerror());
    return EXIT_FAILURE;
  }
  return reinterpret_cast<decltype(&camber_run_program)>(entry)(argument_count, arguments, 0, nullptr);
}
