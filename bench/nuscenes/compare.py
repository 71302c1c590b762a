"""Speed and memory beside nuscenes-devkit, both in one run on data of the official sizes.

$(scripts/devkit_venv) bench/nuscenes/compare.py --program build/camber              all comparisons
$(scripts/devkit_venv) bench/nuscenes/compare.py --program build/camber --only metrics
$(scripts/devkit_venv) bench/nuscenes/compare.py --only python --python .venv/bin/python    camber.nuscenes.evaluate
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIXED = ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES")  # what scripts/devkit_venv sets: the arithmetic of numpy
FEWER_SAMPLES = 600


class Run:
    """A finished process: seconds on the clock, seconds of CPU, peak memory in MB."""

    def __init__(self, command, output=None, environment=None):
        start = time.monotonic()
        with open(output or os.devnull, "wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL, env=environment)
            _, status, usage = os.wait4(process.pid, 0)
        self.seconds = time.monotonic() - start
        self.cpu = usage.ru_utime + usage.ru_stime
        self.megabytes = usage.ru_maxrss / 1024
        if status != 0:
            raise SystemExit("failed: " + " ".join(map(str, command)))

    def row(self, name):
        return "%-22s %9.2f s %9.2f s CPU %9.0f MB" % (name, self.seconds, self.cpu, self.megabytes)


def best_of(count, command, output=None):
    return min((Run(command, output) for _ in range(count)), key=lambda run: run.seconds)


def numbers(tree, position=""):
    """Every number of the metrics, by its path."""
    if isinstance(tree, dict):
        return {k: v for key in tree for k, v in numbers(tree[key], "%s/%s" % (position, key)).items()}
    return {position: tree}


class Agreement:
    """The values of two metrics_summary.json, number by number."""

    def __init__(self, ours, theirs):
        keys = ("label_aps", "mean_dist_aps", "mean_ap", "label_tp_errors", "tp_errors", "tp_scores", "nd_score")
        a, b = (numbers({key: json.loads(file.read_text())[key] for key in keys}) for file in (ours, theirs))
        if a.keys() != b.keys():
            raise SystemExit("other values than the devkit: %s" % sorted(a.keys() ^ b.keys()))
        other = {k: abs(a[k] - b[k]) for k in b if json.dumps(a[k]) != json.dumps(b[k])}
        self.values, self.equal = len(b), len(b) - len(other)
        self.worst = max(other, key=lambda k: math.inf if math.isnan(other[k]) else other[k], default=None)
        self.text = "%d of %d values equal to the last bit" % (self.equal, self.values)
        if self.worst:
            self.text += ", largest difference %.1e (%s)" % (other[self.worst], self.worst)


def metrics_command(program, folder):
    return [
        program,
        "metrics",
        "--results",
        folder / "results.json",
        "--data",
        folder,
        "--split",
        "val",
        "--format",
        "json",
    ]


def arithmetic(environment=None):
    return subprocess.run(
        [sys.executable, HERE / "devkit_run.py", "arithmetic"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def say_own_arithmetic(program, folder):
    """What the devkit gives with the arithmetic that this processor suggests to numpy; no target, the devkit's matter."""
    own = {name: value for name, value in os.environ.items() if name not in FIXED}
    subprocess.run(
        [sys.executable, HERE / "generate.py", "validation", folder, "--samples", str(FEWER_SAMPLES)], check=True
    )
    Run(metrics_command(program, folder), folder / "ours.json")
    Run([sys.executable, HERE / "devkit_run.py", "metrics", folder, folder / "out"], environment=own)
    agreement = Agreement(folder / "ours.json", folder / "out/metrics_summary.json")
    print(
        "the devkit with this processor's own arithmetic (%s), %d samples: %s"
        % (arithmetic(own), FEWER_SAMPLES, agreement.text)
    )


def beside(ours, theirs):
    """Seconds, processor seconds and memory of both, as the record keeps them."""
    return {
        f"{name}_{what}": value
        for name, run in (("camber", ours), ("devkit", theirs))
        for what, value in (("seconds", run.seconds), ("cpu", run.cpu), ("megabytes", run.megabytes))
    }


def compare_metrics(program, folder, repeats):
    subprocess.run([sys.executable, HERE / "generate.py", "validation", folder], check=True)
    ours = best_of(repeats, metrics_command(program, folder), folder / "ours.json")
    theirs = Run([sys.executable, HERE / "devkit_run.py", "metrics", folder, folder / "out"])
    agreement = Agreement(folder / "ours.json", folder / "out/metrics_summary.json")
    same = agreement.equal == agreement.values
    print(ours.row("camber metrics"))
    print(theirs.row("nuscenes-devkit"))
    ratio = theirs.seconds / ours.seconds
    print("metrics speed: %.0f times faster than nuscenes-devkit, load to summary (target: 50)" % ratio)
    print("metrics speed in CPU seconds: %.0f times less" % (theirs.cpu / ours.cpu))
    print("metrics memory: %.0f MB (target: below 2000), nuscenes-devkit %.0f MB" % (ours.megabytes, theirs.megabytes))
    print(
        "metrics values at this size, the devkit with %s: %s (target: all), NDS %r"
        % (arithmetic(), agreement.text, json.loads((folder / "ours.json").read_text())["nd_score"])
    )
    with tempfile.TemporaryDirectory() as fewer:
        say_own_arithmetic(program, Path(fewer))
    return {
        **beside(ours, theirs),
        "speedup": ratio,
        "good": ratio >= 50 and ours.megabytes < 2000 and same,
    }


def compare_python(python, folder, repeats):
    """Call against call, both inside a running Python: tables and results from the disk, to the summary."""
    if not (folder / "results.json").exists():
        subprocess.run([sys.executable, HERE / "generate.py", "validation", folder], check=True)
    environment = {name: value for name, value in os.environ.items() if name not in FIXED}
    environment["PYTHONPATH"] = str(HERE.parents[1] / "python")
    command = [python, HERE / "python_run.py", folder, folder / "ours.json", str(repeats)]
    answer = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    ours = json.loads(answer.stdout)
    process = Run([sys.executable, HERE / "devkit_run.py", "metrics", folder, folder / "out"], folder / "devkit.txt")
    theirs = json.loads((folder / "devkit.txt").read_text().splitlines()[-1])
    agreement = Agreement(folder / "ours.json", folder / "out/metrics_summary.json")
    ratio = theirs["seconds"] / ours["seconds"]
    print("camber.nuscenes.evaluate %8.2f s %8.2f s CPU %8.0f MB" % (ours["seconds"], ours["cpu"], ours["megabytes"]))
    print("nuscenes-devkit          %8.2f s %8.2f s CPU %8.0f MB" % (theirs["seconds"], process.cpu, process.megabytes))
    print("metrics from Python: %.0f times faster than nuscenes-devkit, tables to summary (target: 60)" % ratio)
    print("metrics from Python in CPU seconds: %.0f times less" % (process.cpu / ours["cpu"]))
    print("metrics from Python, values: %s (target: all)" % agreement.text)
    return {**ours, "speedup": ratio, "good": ratio >= 60 and agreement.equal == agreement.values}


def compare_tables(program, folder, repeats):
    subprocess.run([sys.executable, HERE / "generate.py", "trainval", folder], check=True)
    size = sum(file.stat().st_size for file in (folder / "v1.0-trainval").iterdir()) / 1e9
    command = [
        program,
        "inspect",
        "--data",
        folder,
        "--version",
        "v1.0-trainval",
        "--tables-only",
        "--format",
        "json",
        "--threads",
        "2",
    ]
    ours = best_of(repeats, command, folder / "ours.json")
    counts = json.loads((folder / "ours.json").read_text())["tables"]
    print(ours.row("camber inspect"), "(%.1f GB of tables)" % size)
    theirs = Run([sys.executable, HERE / "devkit_run.py", "tables", folder])
    print(theirs.row("nuscenes-devkit"))
    print(
        "tables: %d samples, %d sample_data rows, %d annotations in %.1f s (target: at most 20) and %.0f MB "
        "(target: at most 3000); nuscenes-devkit %.1f s and %.0f MB"
        % (
            counts["sample"],
            counts["sample_data"],
            counts["sample_annotation"],
            ours.seconds,
            ours.megabytes,
            theirs.seconds,
            theirs.megabytes,
        )
    )
    return {
        **beside(ours, theirs),
        "good": ours.seconds <= 20 and ours.megabytes <= 3000,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="build/camber")
    parser.add_argument("--python", type=Path, default=HERE.parents[1] / ".venv/bin/python", help="a Python with torch")
    parser.add_argument("--folder", type=Path, help="keep the generated data there, or use what an earlier run left")
    parser.add_argument("--only", choices=["metrics", "python", "tables"])
    parser.add_argument("--repeats", type=int, default=3, help="runs of camber; the fastest counts")
    parser.add_argument("--json", type=Path, help="write the values there")
    arguments = parser.parse_args()
    values = {}
    program = Path(arguments.program).resolve()
    jobs = {
        "metrics": (compare_metrics, program),
        "python": (compare_python, arguments.python.absolute()),
        "tables": (compare_tables, program),
    }
    for job in (arguments.only,) if arguments.only else jobs:
        compare, subject = jobs[job]
        with tempfile.TemporaryDirectory() as folder:
            values[job] = compare(subject, arguments.folder or Path(folder), arguments.repeats)
    if arguments.json:
        arguments.json.write_text(json.dumps(values, indent=2) + "\n")
    sys.exit(0 if all(entry["good"] for entry in values.values()) else 1)


if __name__ == "__main__":
    main()
