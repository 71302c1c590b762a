"""Compares `camber metrics`, or camber.nuscenes in Python, with the running nuscenes-devkit on random result sets, and on what the devkit refuses.

    $(scripts/devkit_venv) tests/eval/devkit/agreement.py --program build/camber --sets 50
    .venv-devkit/bin/python tests/eval/devkit/agreement.py --own-arithmetic --sets 10
    $(scripts/devkit_venv) tests/eval/devkit/agreement.py --python .venv/bin/python --sets 50    camber.nuscenes.evaluate

scripts/devkit_venv fixes the arithmetic of numpy, and with it every value is the same to the last bit. With what the
processor suggests to numpy, the devkit's own values move in their last bits from machine to machine.
"""

import argparse
import contextlib
import copy
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path

from nuscenes.eval.common.config import config_factory
from nuscenes.eval.detection.data_classes import DetectionConfig
from nuscenes.eval.detection.evaluate import DetectionEval

import random_world
from nuscenes import NuScenes
from random_world import World, random_results

TOLERANCE = 1e-12
META = {"use_camera": True, "use_lidar": True, "use_radar": False, "use_map": False, "use_external": False}
EDGES = [
    "plain",
    "tied scores",
    "equal scores",
    "integer scores",
    "zero scores",
    "large scores",
    "exact distances",
    "odd velocities",
    "odd fields",
    "whole numbers",
    "foreign samples",
    "missing classes",
    "flat boxes",
    "empty samples",
    "custom split",
    "many boxes",
    "repeated samples",
    "other configuration",
    "far away",
    "escaped text",
    "infinite scores",
    "negative scores",
]


class Case:
    """One data set with results: files on disk and how to evaluate them."""

    def __init__(self, seed, edge):
        self.edge = edge
        self.world = World(seed, objects=60 if edge == "many boxes" else 14)
        self.split = "mini_val"
        self.config = None
        wanted = random_world.SCENES[1:3]
        if edge == "custom split":
            wanted = self.world.random.sample(random_world.SCENES, 2)
            self.world.splits = {"mine": wanted, "other": []}
            self.split = "mine"
        self.samples = self.world.samples_of(wanted)
        order = list(self.samples) if edge == "plain" else self.world.random.sample(self.samples, len(self.samples))
        self.results = random_results(self.world, order, edge)
        self.text = None
        self.special()

    def special(self):
        r, edge = self.world.random, self.edge
        tokens = list(self.results)
        boxes = [box for list_ in self.results.values() for box in list_]
        if edge == "foreign samples":
            for box in r.sample(boxes, len(boxes) // 4):
                box["sample_token"] = r.choice(tokens + ["nowhere", ""])
        elif edge == "missing classes":
            for token in tokens:
                self.results[token] = [b for b in self.results[token] if b["detection_name"] not in ("car", "barrier")]
            racks = {
                i["token"]
                for i in self.world.tables["instance"]
                if next(c["name"] for c in self.world.tables["category"] if c["token"] == i["category_token"])
                in ("vehicle.truck", "human.pedestrian.adult")
            }
            for row in self.world.tables["sample_annotation"]:
                if row["instance_token"] in racks:
                    row["num_lidar_pts"] = row["num_radar_pts"] = 0
        elif edge == "flat boxes":
            for box in boxes:
                if r.random() < 0.2:  # never matched: far from everything, yet in range of nothing
                    box["translation"][2] = 0.0
                    box["translation"][0] += 1e4
                    box["size"] = [0.0, -1.0, 1.0]
        elif edge == "empty samples":
            for token in r.sample(tokens, len(tokens) // 2):
                self.results[token] = []
        elif edge == "custom split":
            for sample in self.world.tables["sample"]:
                if r.random() < 0.5:  # further samples, with boxes that nobody reads
                    self.results.setdefault(sample["token"], [{"nonsense": 1}])
            self.results["nowhere"] = [{}]
        elif edge == "many boxes":
            token = tokens[0]
            while len(self.results[token]) < 500:
                self.results[token].append(copy.deepcopy(r.choice(boxes)) | {"sample_token": token})
            self.results[token] = self.results[token][:500]
        elif edge == "repeated samples":
            parts = ["%s: %s" % (json.dumps(t), json.dumps(b)) for t, b in self.results.items()]
            again = ["%s: %s" % (json.dumps(t), json.dumps(self.results[t][::-1])) for t in r.sample(tokens, 2)]
            self.text = '{"results": {%s}, "meta": %s}' % (", ".join(parts + again), json.dumps(META))
        elif edge == "other configuration":
            ranges = {c: r.choice([20, 30.5, 45, 60]) for c in r.sample(random_world.CLASSES, 10)}
            distances = r.sample([0.25, 0.5, 1, 1.5, 2.0, 3, 4.0, 8], 3)
            self.config = {
                "class_range": ranges,
                "dist_fcn": "center_distance",
                "dist_ths": distances,
                "dist_th_tp": r.choice(distances),
                "min_recall": r.choice([0, 0.05, 0.125, 0.5, 1]),
                "min_precision": r.choice([0, 0.1, 0.5, 0.99]),
                "max_boxes_per_sample": 400,
                "mean_ap_weight": r.choice([1, 3, 5, 0.5]),
            }
        elif edge == "far away":
            for box in boxes:
                if r.random() < 0.1:
                    box["translation"][r.randint(0, 2)] = r.choice([math.inf, -math.inf, 1e300, -1e200])
                    box["size"] = r.choice([box["size"], [math.inf, 1.0, 1.0]])
        elif edge == "escaped text":
            text = json.dumps({"meta": META, "results": self.results}, indent=3)
            self.text = text.replace('"translation"', '"tr\\u0061nslation"').replace('"car"', '"c\\u0061r"')

    def write(self, root):
        self.world.write(root)
        text = self.text or json.dumps(
            {"meta": META, "results": self.results}
            if self.world.random.random() < 0.5
            else {"results": self.results, "unknown": [1, {"a": None}], "meta": META}
        )
        (root / "results.json").write_bytes(text.encode("utf-8", "surrogateescape"))
        if self.config is not None:
            (root / "config.json").write_text(json.dumps(self.config))


def run_devkit(root, case):
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        nusc = NuScenes(version=case.world.version, dataroot=str(root), verbose=False)
        config = config_factory("detection_cvpr_2019")
        if case.config is not None:
            config = DetectionConfig.deserialize(json.loads((root / "config.json").read_text()))
        evaluation = DetectionEval(
            nusc,
            config=config,
            result_path=str(root / "results.json"),
            eval_set=case.split,
            output_dir=str(root / "out"),
            verbose=False,
        )
        evaluation.main(render_curves=False)
    return [json.loads((root / "out" / name).read_text()) for name in ("metrics_summary.json", "metrics_details.json")]


def run_camber(program, root, case, extra=()):
    command = [
        program,
        "metrics",
        "--results",
        str(root / "results.json"),
        "--data",
        str(root),
        "--version",
        case.world.version,
        "--split",
        case.split,
        "--format",
        "json",
        "--details",
        str(root / "details.json"),
    ]
    if case.config is not None:
        command += ["--config", str(root / "config.json")]
    return subprocess.run(command + list(extra), capture_output=True, text=True, check=False)


class PythonEvaluations:
    """camber.nuscenes in a process of the Python that has torch, in the form in which the program answers."""

    def __init__(self, python):
        here = Path(__file__).resolve().parent
        environment = {**os.environ, "PYTHONPATH": str(here.parents[2] / "python")}
        for name in ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES"):  # those of the devkit's numpy
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [python, here / "python_evaluations.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __call__(self, root, case, extra=()):
        request = {
            "root": str(root),
            "version": case.world.version,
            "split": case.split,
            "config": case.config is not None,
            "threads": int(extra[1]) if extra else 0,
        }
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        error = answer.get("error", "")
        return subprocess.CompletedProcess([], 1 if error else 0, json.dumps(answer.get("summary")), error)


class Difference:
    """The largest difference between two trees of numbers, and how many are equal to the last bit."""

    def __init__(self):
        self.worst, self.position, self.values, self.same, self.summary = 0.0, "", 0, 0, ""

    def compare(self, ours, theirs, position):
        if isinstance(theirs, dict):
            assert list(ours) == list(theirs), (position, list(ours), list(theirs))
            for key in theirs:
                self.compare(ours[key], theirs[key], position + "/" + key)
        elif isinstance(theirs, list):
            assert len(ours) == len(theirs), position
            for i, (a, b) in enumerate(zip(ours, theirs)):
                self.compare(a, b, "%s[%d]" % (position, i))
        elif isinstance(theirs, (int, float)) and not isinstance(theirs, bool):
            self.values += 1
            equal = ours == theirs or (math.isnan(ours) and math.isnan(theirs))
            self.same += equal
            difference = 0.0 if equal else abs(ours - theirs)
            if not difference <= self.worst:
                self.worst, self.position = difference, position
        else:
            assert ours == theirs, (position, ours, theirs)


def compare_set(ours_of, number):
    """Returns the difference of one random set; the set's edge cases follow from its number."""
    case = Case(1000 + number, EDGES[number % len(EDGES)])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        case.write(root)
        error, theirs = None, None
        try:
            theirs = run_devkit(root, case)
        except Exception as caught:
            error = caught
        answer = ours_of(root, case)
        if error is not None:
            if answer.returncode == 0:
                raise SystemExit("set %d (%s): the devkit refuses (%r), camber does not" % (number, case.edge, error))
            return None
        if answer.returncode != 0:
            raise SystemExit(
                "set %d (%s): camber refuses what the devkit takes: %s" % (number, case.edge, answer.stderr)
            )
        difference = Difference()
        ours = json.loads(answer.stdout)
        for key in theirs[0]:
            if key != "eval_time":
                difference.compare(ours[key], theirs[0][key], key)
        difference.summary = "mAP %.4f, NDS %.4f" % (ours["mean_ap"], ours["nd_score"])
        difference.compare(json.loads((root / "details.json").read_text()), theirs[1], "details")
        for threads in ("1", "3"):
            again = json.loads(ours_of(root, case, ["--threads", threads]).stdout)
            for key in ours:
                if key != "eval_time" and json.dumps(again[key]) != json.dumps(ours[key]):
                    raise SystemExit("set %d: %s depends on the number of threads" % (number, key))
    return difference


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="build/camber")
    parser.add_argument("--python", help="a Python with torch: compare camber.nuscenes instead of the program")
    parser.add_argument("--sets", type=int, default=50)
    parser.add_argument("--own-arithmetic", action="store_true", help="ask for %g, not for the last bit" % TOLERANCE)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    ours_of = PythonEvaluations(arguments.python) if arguments.python else partial(run_camber, arguments.program)
    worst, same, values, agreed, compared, refused = 0.0, 0, 0, 0, 0, 0
    number = -1
    while compared < arguments.sets:  # sets that both refuse are counted on their own
        number += 1
        difference = compare_set(ours_of, number)
        edge = EDGES[number % len(EDGES)]
        if difference is None:
            refused += 1
            if arguments.verbose:
                print("set %2d, %-20s both refuse" % (number, edge))
            continue
        if arguments.verbose:
            print(
                "set %2d, %-20s %s, worst %.1e %s, %d of %d to the bit"
                % (
                    number,
                    edge,
                    difference.summary,
                    difference.worst,
                    difference.position,
                    difference.same,
                    difference.values,
                )
            )
        compared += 1
        agreed += difference.worst <= TOLERANCE if arguments.own_arithmetic else difference.same == difference.values
        worst = max(worst, difference.worst)
        same, values = same + difference.same, values + difference.values
    arithmetic = (
        ("the arithmetic that this processor suggests to numpy", "within %g" % TOLERANCE)
        if arguments.own_arithmetic
        else ("fixed arithmetic", "equal to the last bit")
    )
    print(
        "devkit agreement, devkit with %s: %d of %d random result sets %s (target: all), worst difference %.1e, %d of %d "
        "values equal to the last bit; %d further sets refused by both"
        % (arithmetic[0], agreed, compared, arithmetic[1], worst, same, values, refused)
    )
    sys.exit(0 if agreed == compared else 1)


if __name__ == "__main__":
    main()
