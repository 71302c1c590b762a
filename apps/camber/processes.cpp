#include "apps/camber/processes.h"

#include <cstdlib>
#include <stdexcept>

#include "camber/distributed/process_group.h"

namespace camber::app {

std::shared_ptr<distributed::ProcessGroup> processes(const std::string& command) {
  const char* announced = std::getenv("WORLD_SIZE");
  auto group = distributed::world();
  if (announced != nullptr && std::string(announced) != std::to_string(group->size()))
    throw std::invalid_argument("[" + command + "] WORLD_SIZE must be " + std::to_string(group->size()) +
                                " here, got " + announced +
                                ": several processes are started with torchrun ... -m camber " + command);
  return group;
}

bool is_restarted() {
  const char* count = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return count != nullptr && std::string(count) != "0";
}

}  // namespace camber::app
