#pragma once
#include "apps/camber/command.h"

/// One function a sub-command, each in the file of its name.
namespace camber::app {

void register_analyze(Command& program);
void register_bench(Command& program);
void register_faults(Command& program);
void register_inspect(Command& program);
void register_simulate(Command& program);
void register_verify(Command& program);
void register_metrics(Command& program);

}  // namespace camber::app
