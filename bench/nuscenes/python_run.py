"""camber.nuscenes.evaluate for the same job, from Python: seconds of the fastest of several calls, and what it returned.

python python_run.py FOLDER OUT.json REPEATS      by the Python that has torch and the package
"""

import json
import resource
import sys
import time

from camber import nuscenes


def main():
    folder, out, repeats = sys.argv[1], sys.argv[2], int(sys.argv[3])
    seconds, cpu = [], []
    for _ in range(repeats):
        start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        summary = nuscenes.evaluate(folder + "/results.json", folder, "v1.0-trainval", "val")
        now = resource.getrusage(resource.RUSAGE_SELF)
        seconds.append(time.perf_counter() - start)
        cpu.append(now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime)
    with open(out, "w") as file:
        json.dump(summary, file)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": min(seconds), "cpu": min(cpu), "megabytes": peak, "calls": seconds}))


if __name__ == "__main__":
    main()
