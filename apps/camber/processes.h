#pragma once
#include <memory>
#include <string>

namespace camber::distributed {
class ProcessGroup;
}

namespace camber::app {

// The processes that this one was started among. A launcher that announces others which this process has not met is
// refused: each of them would train the whole run.
std::shared_ptr<distributed::ProcessGroup> processes(const std::string& command);

// Whether torchrun has started this process again after one of them had died.
bool is_restarted();

}  // namespace camber::app
