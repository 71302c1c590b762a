"""Opens a simulated data set with nuscenes-devkit and checks that the devkit sees what the simulator drew.

usage: python devkit_check.py ROOT VERSION [--only-open]

prints one line a check, exit 1 when one fails; --only-open loads tables and files of a data set whose sensors failed.
"""

import json
import os
import sys

import numpy as np
from nuscenes.eval.common.loaders import load_gt_of_sample_tokens
from nuscenes.eval.detection.data_classes import DetectionBox
from nuscenes.nuscenes import NuScenes
from nuscenes.utils.data_classes import LidarPointCloud
from nuscenes.utils.geometry_utils import points_in_box, view_points
from nuscenes.utils.splits import get_scenes_of_custom_split
from PIL import Image

CAMERAS = ["CAM_FRONT", "CAM_FRONT_RIGHT", "CAM_FRONT_LEFT", "CAM_BACK", "CAM_BACK_LEFT", "CAM_BACK_RIGHT"]
failures = 0


def check(name, value, holds):
    global failures
    failures += not holds
    print(f"{'pass' if holds else 'FAIL'}  {name}: {value}")


def rectangle(corners):
    low, high = corners[:2].min(axis=1), corners[:2].max(axis=1)
    return low[0], low[1], high[0], high[1]


def contrast(image, left, top, right, bottom):
    """How far the middle of a rectangle differs from the strips beside it, over the image's noise."""
    width, height = right - left, bottom - top
    rows = slice(int(top + 0.2 * height), max(int(top + 0.2 * height) + 1, int(bottom - 0.1 * height)))

    def strip(a, b):
        a, b = int(round(a)), max(int(round(b)), int(round(a)) + 1)
        part = image[rows, max(a, 0) : max(b, 0)]
        return part.reshape(-1, 3).mean(axis=0) if part.size else None

    inside = strip(left + 0.25 * width, right - 0.25 * width)
    beside = [strip(left - 0.5 * width - 2, left - 1), strip(right + 1, right + 0.5 * width + 2)]
    beside = [b for b in beside if b is not None]
    if inside is None or not beside:
        return None
    return min(np.abs(inside - b).mean() for b in beside)


def check_opens(nusc, root):
    read = 0
    for sample in nusc.sample[:40]:
        for token in sample["data"].values():
            path, boxes, _ = nusc.get_sample_data(token)
            read += len(boxes)
            if path.endswith(".jpg"):
                Image.open(path).load()
            else:
                LidarPointCloud.from_file(path)
    check("get_sample_data reads every sensor of 40 samples", f"{read} boxes", read > 0)
    missing = [d["filename"] for d in nusc.sample_data if not os.path.exists(os.path.join(root, d["filename"]))]
    check("every file of sample_data exists", f"{len(nusc.sample_data)} rows, {len(missing)} missing", not missing)


def main(root, version, only_open):
    nusc = NuScenes(version=version, dataroot=root, verbose=False)
    check("NuScenes() loads", f"{len(nusc.scene)} scenes, {len(nusc.sample)} samples", len(nusc.sample) > 0)
    scenes = sum(len(get_scenes_of_custom_split("simulated_" + s, nusc)) for s in ("train", "val", "test"))
    check("splits.json lists every scene once", f"{scenes} of {len(nusc.scene)}", scenes == len(nusc.scene))

    check_opens(nusc, root)
    if only_open:
        return 1 if failures else 0

    with open(os.path.join(root, version, "simulation.json")) as file:
        camouflaged = {
            i["instance_token"] for s in json.load(file)["scenes"] for i in s["instances"] if i["camouflaged"]
        }
    night = {s["token"]: s["description"].endswith("night") for s in nusc.scene}
    true_beats_moved = compared = inside_total = counted_total = equal = boxes_seen = 0
    merged = single = 0
    velocities = []
    for sample in nusc.sample:
        path, boxes, _ = nusc.get_sample_data(sample["data"]["LIDAR_TOP"])
        cloud = LidarPointCloud.from_file(path)
        three, _ = LidarPointCloud.from_file_multisweep(nusc, sample, "LIDAR_TOP", "LIDAR_TOP", nsweeps=3)
        for box in boxes:
            annotation = nusc.get("sample_annotation", box.token)
            inside = int(points_in_box(box, cloud.points[:3]).sum())
            inside_total += inside
            counted_total += annotation["num_lidar_pts"]
            equal += abs(inside - annotation["num_lidar_pts"]) <= 1
            boxes_seen += 1
            attributes = [nusc.get("attribute", t)["name"] for t in annotation["attribute_tokens"]]
            if any(a.endswith("parked") for a in attributes) and inside > 20:
                single += inside
                merged += int(points_in_box(box, three.points[:3]).sum())
            speed = np.linalg.norm(nusc.box_velocity(box.token)[:2])
            if not np.isnan(speed) and attributes:
                velocities.append((speed > 0.2) == attributes[0].endswith("moving"))
        for channel in CAMERAS:
            path, boxes, intrinsic = nusc.get_sample_data(sample["data"][channel])
            image = np.asarray(Image.open(path).convert("RGB"), dtype=np.float32)
            if night[sample["scene_token"]]:
                continue
            drawn = [rectangle(view_points(b.corners(), intrinsic, normalize=True)) for b in boxes]
            for index, box in enumerate(boxes):
                left, top, right, bottom = drawn[index]
                width = right - left
                annotation = nusc.get("sample_annotation", box.token)
                whole = left > 0 and top > 0 and right < image.shape[1] and bottom < image.shape[0]
                hidden = annotation["visibility_token"] != "4" or annotation["instance_token"] in camouflaged
                if not whole or hidden or (box.corners()[2] < 1).any() or width < 8:
                    continue
                here = contrast(image, left, top, right, bottom)
                # Two widths to a side, where no other object stands: it would differ from its surroundings too.
                moved = [
                    contrast(image, left + d, top, right + d, bottom)
                    for d in (-2 * width, 2 * width)
                    if not any(
                        a < right + d + width / 2 + 2 and c > left + d - width / 2 - 2 and b < bottom and e > top
                        for i, (a, b, c, e) in enumerate(drawn)
                        if i != index
                    )
                ]
                moved = [m for m in moved if m is not None]
                if here is None or not moved:
                    continue
                compared += 1
                true_beats_moved += here > max(moved)
    check(
        "points_in_box agrees with num_lidar_pts (within 1)",
        f"{equal / boxes_seen:.3f} of {boxes_seen} boxes",
        equal >= 0.97 * boxes_seen,
    )
    check(
        "points in boxes in all",
        f"{inside_total} found, {counted_total} counted",
        abs(inside_total - counted_total) <= 0.03 * counted_total,
    )
    check(
        "three sweeps triple the points of parked cars", f"{merged / max(single, 1):.2f} times", merged > 2.5 * single
    )
    check(
        "box_velocity agrees with the moving attribute",
        f"{np.mean(velocities):.3f} of {len(velocities)}",
        np.mean(velocities) > 0.99,
    )
    check(
        "objects are drawn where their boxes project (image differs there, not beside)",
        f"{true_beats_moved / max(compared, 1):.3f} of {compared} unhidden boxes by day",
        compared > 20 and true_beats_moved > 0.9 * compared,
    )
    truth = load_gt_of_sample_tokens(nusc, [s["token"] for s in nusc.sample], DetectionBox)
    names = sorted({b.detection_name for b in truth.all})
    check(
        "ground truth loads as detection boxes",
        f"{len(truth.all)} boxes of {', '.join(names)}",
        names == ["car", "pedestrian", "traffic_cone", "truck"],
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], "--only-open" in sys.argv))
