#include "apps/camber/run_program.h"

int main(int argument_count, char** arguments) {
  return camber::app::run_program(argument_count, arguments);
}
