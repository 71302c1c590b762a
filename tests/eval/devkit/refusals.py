"""What the devkit refuses, `camber metrics` refuses, in one sentence.

$(scripts/devkit_venv) tests/eval/devkit/refusals.py --program build/camber
"""

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path

from agreement import META, Case, run_camber, run_devkit


def first_box(case):
    """A prediction that lies exactly on a true object with points, of a class that is evaluated."""
    world = case.world
    names = {c["token"]: c["name"] for c in world.tables["category"]}
    of_instance = {i["token"]: names[i["category_token"]] for i in world.tables["instance"]}
    for token, boxes in case.results.items():
        ego = world.ego_of(next(s for s in world.tables["sample"] if s["token"] == token))
        for row in world.tables["sample_annotation"]:
            name = {
                "vehicle.car": "car",
                "vehicle.truck": "truck",
                "vehicle.trailer": "trailer",
                "vehicle.construction": "construction_vehicle",
            }.get(of_instance[row["instance_token"]])
            if name is None or row["sample_token"] != token or math.dist(row["translation"][:2], ego[:2]) > 40:
                continue
            row["num_lidar_pts"] = 9
            boxes.insert(
                0,
                {
                    "sample_token": token,
                    "translation": list(row["translation"]),
                    "size": [1.0, 1.0, 1.0],
                    "rotation": [1.0, 0.0, 0.0, 0.0],
                    "velocity": [0.0, 0.0],
                    "detection_name": name,
                    "detection_score": 2.0,
                    "attribute_name": "",
                    "row": row,
                },
            )
            return boxes[0]
    raise AssertionError("the world must hold a vehicle in range")


def box_with(**changes):
    def change(case):
        first_box(case).update(changes)

    return change


def box_without(field):
    def change(case):
        del first_box(case)[field]

    return change


def config_with(**changes):
    def change(case):
        case.config = {
            "class_range": {
                "car": 50,
                "truck": 50,
                "bus": 50,
                "trailer": 50,
                "construction_vehicle": 50,
                "pedestrian": 40,
                "motorcycle": 40,
                "bicycle": 40,
                "traffic_cone": 30,
                "barrier": 30,
            },
            "dist_fcn": "center_distance",
            "dist_ths": [0.5, 1.0, 2.0, 4.0],
            "dist_th_tp": 2.0,
            "min_recall": 0.1,
            "min_precision": 0.1,
            "max_boxes_per_sample": 500,
            "mean_ap_weight": 5,
        }
        case.config.update(changes)
        case.config = {key: value for key, value in case.config.items() if value is not None}

    return change


def whole_text(make):
    def change(case):
        case.text = make(json.dumps({"meta": META, "results": case.results}))

    return change


def too_many(case):
    box = first_box(case)
    case.results[box["sample_token"]] = [box] * 501


def two_attributes(case):
    row = first_box(case)["row"]
    row["attribute_tokens"] = [a["token"] for a in case.world.tables["attribute"][5:7]]


def unknown_attribute(case):
    row = first_box(case)["row"]
    record = dict(case.world.tables["attribute"][0], token="other", name="vehicle.flying")
    case.world.tables["attribute"].append(record)
    row["attribute_tokens"] = ["other"]


def flat_truth(case):
    first_box(case)["row"]["size"][1] = 0.0


def set_split(name):
    def change(case):
        case.split = name

    return change


def no_lidar(case):
    token = case.world.tables["calibrated_sensor"][1]["token"]
    for row in case.world.tables["sample_data"]:
        if row["calibrated_sensor_token"] == token:
            row["is_key_frame"] = False


def clear(table):
    def change(case):
        case.world.tables[table] = []

    return change


def dangling(table, field):
    def change(case):
        case.world.tables[table][0][field] = "nowhere"

    return change


def every_box(change_box):
    """Of some class not every object is found, so that its curve ends in zeros above the negative scores."""

    def change(case):
        for boxes in case.results.values():
            for box in boxes:
                change_box(box)

    return change


def every_sample_empty(case):
    case.results = {token: [] for token in case.results}


CASES = {
    "no file": whole_text(lambda text: None),
    "no results": whole_text(lambda text: text.replace('"results"', '"result"')),
    "no meta": whole_text(lambda text: text.replace('"meta"', '"data"')),
    "results are a list": whole_text(lambda text: '{"meta": {}, "results": [1]}'),
    "a sample is a number": whole_text(lambda text: '{"meta": {}, "results": {"a": 1}}'),
    "cut off": whole_text(lambda text: text[: len(text) // 2]),
    "cut off at the end": whole_text(lambda text: text[:-1]),
    "something behind the end": whole_text(lambda text: text + " x"),
    "empty": whole_text(lambda text: " "),
    "not JSON": whole_text(lambda text: "results"),
    "a comma too many": whole_text(lambda text: text.replace("}]", "},]", 1)),
    "a comma too few": whole_text(lambda text: text.replace(', "size"', ' "size"', 1)),
    "control character": whole_text(lambda text: text.replace('"meta"', '"me\x01ta"', 1)),
    "wrong number": whole_text(lambda text: text.replace('"size": [', '"size": [01.5, ', 1)),
    "wrong word": whole_text(lambda text: text.replace('"size": [', '"size": [nan, ', 1)),
    "damage in a field nobody reads": whole_text(lambda text: text.replace('"size"', '"extra": tru, "size"', 1)),
    "not UTF-8": whole_text(lambda text: text.replace('"meta"', '"\udcff": 1, "meta"', 1)),
    "translation of 2": box_with(translation=[1.0, 2.0]),
    "translation of 4": box_with(translation=[1.0, 2.0, 3.0, 4.0]),
    "translation of NaN": box_with(translation=[1.0, math.nan, 3.0]),
    "translation of null": box_with(translation=[1.0, None, 3.0]),
    "translation of text": box_with(translation=["1", "2", "3"]),
    "translation is text": box_with(translation="abc"),
    "size of NaN": box_with(size=[math.nan, 1.0, 1.0]),
    "size of 2": box_with(size=[1.0, 1.0]),
    "size of zero, found": box_with(size=[0.0, 1.0, 1.0]),
    "size below zero, found": box_with(size=[1.0, 1.0, -1.0]),
    "true size of zero, found": flat_truth,
    "rotation of 3": box_with(rotation=[1.0, 0.0, 0.0]),
    "rotation of NaN": box_with(rotation=[1.0, 0.0, math.nan, 0.0]),
    "velocity of 3": box_with(velocity=[1.0, 0.0, 0.0]),
    "velocity of null, found": box_with(velocity=[None, None]),
    "ego_translation of NaN": box_with(ego_translation=[math.nan, 0.0, 0.0]),
    "ego_translation of 2": box_with(ego_translation=[0.0, 0.0]),
    "num_pts of NaN": box_with(num_pts=math.nan),
    "num_pts of infinity": box_with(num_pts=math.inf),
    "num_pts of null": box_with(num_pts=None),
    "score of NaN": box_with(detection_score=math.nan),
    "score of text": box_with(detection_score="high"),
    "score of null": box_with(detection_score=None),
    "scores below zero": every_box(lambda box: box.update(detection_score=-3.0)),
    "no scores": every_box(lambda box: box.pop("detection_score")),
    "unknown class": box_with(detection_name="tram"),
    "class of null": box_with(detection_name=None),
    "unknown attribute": box_with(attribute_name="vehicle.flying"),
    "attribute of null": box_with(attribute_name=None),
    "sample_token is a number": box_with(sample_token=5),
    "no sample_token": box_without("sample_token"),
    "no translation": box_without("translation"),
    "no size": box_without("size"),
    "no rotation": box_without("rotation"),
    "no velocity": box_without("velocity"),
    "no detection_name": box_without("detection_name"),
    "no attribute_name": box_without("attribute_name"),
    "a box is text": lambda case: case.results[next(iter(case.results))].append("box"),
    "501 boxes": too_many,
    "a sample is missing": lambda case: case.results.pop(next(iter(case.results))),
    "a sample too many": lambda case: case.results.update(other=[]),
    "every sample empty": every_sample_empty,
    "no annotations": clear("sample_annotation"),
    "no samples": clear("sample"),
    "two attributes": two_attributes,
    "an attribute that is not of the task": unknown_attribute,
    "no LiDAR at the key frame": no_lidar,
    "split of another version": set_split("val"),
    "unknown split": set_split("everything"),
    "dangling category": dangling("instance", "category_token"),
    "dangling instance": dangling("sample_annotation", "instance_token"),
    "dangling sensor": dangling("calibrated_sensor", "sensor_token"),
    "dangling calibration": dangling("sample_data", "calibrated_sensor_token"),
    "dangling sample": dangling("sample_annotation", "sample_token"),
    "dangling scene": dangling("sample", "scene_token"),
    "configuration without its threshold": config_with(dist_th_tp=3.0),
    "configuration with another distance": config_with(dist_fcn="iou"),
    "configuration with precision 1": config_with(min_precision=1.0),
    "configuration with recall 2": config_with(min_recall=2.0),
    "configuration without distances": config_with(dist_ths=None),
    "configuration with an unknown class": config_with(class_range={"tram": 50}),
}


def write(case, root):
    for box in (box for boxes in case.results.values() for box in boxes if isinstance(box, dict)):
        box.pop("row", None)
    case.write(root)
    if case.edge == "no file":
        (root / "results.json").unlink()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="build/camber")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    good = 0
    for name, change in CASES.items():
        case = Case(7, "plain")
        case.edge = name
        change(case)
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            write(case, root)
            try:
                run_devkit(root, case)
                print("%s: the devkit does not refuse it" % name)
                continue
            except Exception as caught:
                error = caught
            answer = run_camber(arguments.program, root, case)
            sentence = answer.stderr.replace(str(root), "<data>").strip()
            one_line = answer.returncode in (1, 2) and sentence.startswith("camber: [") and "\n" not in sentence
            good += one_line and not answer.stdout
            if arguments.verbose or not one_line:
                print("%s\n  devkit: %s\n  camber: %s" % (name, repr(error)[:100], sentence or answer.stdout[:80]))
    print(
        "refusals: %d of %d cases that the devkit refuses are refused in one sentence (target: all)"
        % (good, len(CASES))
    )
    sys.exit(0 if good == len(CASES) else 1)


if __name__ == "__main__":
    main()
