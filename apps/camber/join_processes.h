#pragma once

/// Makes the ranks of two groups of torch.distributed, over the same processes, the world of every sub-command that is
/// run in this process from now on: by their names, `torch.distributed.group.WORLD.group_name`. 0, or 1 with a sentence
/// on standard error.
extern "C" __attribute__((visibility("default"))) int camber_join_processes(const char* sums, const char* values);
