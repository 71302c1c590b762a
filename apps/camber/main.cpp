#include <cstdio>
#include <exception>
#include <stdexcept>

#include "apps/camber/commands.h"

int main(int argument_count, char** arguments) {
  using namespace camber::app;
  try {
    Program program("A bounded, learnable lean for the queries of a transformer.", CAMBER_VERSION);
    register_analyze(program.root());
    register_faults(program.root());
    register_inspect(program.root());
    register_simulate(program.root());
    register_verify(program.root());
    register_metrics(program.root());
    return program.run(argument_count, arguments);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "camber: %s\n", error.what());
    return kUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "camber: %s\n", error.what());
    return kFailure;
  }
}
