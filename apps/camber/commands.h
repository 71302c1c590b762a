#pragma once
#include "apps/camber/command.h"

/// One function a sub-command, each in the file of its name.
namespace camber::app {

void register_advise(Command& program);
void register_analyze(Command& program);
void register_bench(Command& program);
/// Below `bench`.
void register_bench_detector(Command& bench);
void register_calibrate_agreement(Command& program);
void register_eval(Command& program);
void register_export(Command& program);
void register_faults(Command& program);
void register_fewshot(Command& program);
void register_import(Command& program);
void register_inspect(Command& program);
void register_predict(Command& program);
void register_report(Command& program);
void register_simulate(Command& program);
void register_study(Command& program);
void register_study_fewshot(Command& study);
void register_train(Command& program);
void register_verify(Command& program);
void register_view(Command& program);
void register_metrics(Command& program);

}  // namespace camber::app
