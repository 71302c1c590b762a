"""Compares the reader with the devkit: official splits, velocities, aggregated sweeps.

$(scripts/devkit_venv) tests/eval/devkit/reader.py --dump build/tests/nuscenes/reader_dump
"""

import argparse
import itertools
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from nuscenes.utils.data_classes import LidarPointCloud
from nuscenes.utils.splits import create_splits_scenes
from pyquaternion import Quaternion

from nuscenes import NuScenes
from random_world import World


def lines(dump, *arguments):
    answer = subprocess.run([dump, *map(str, arguments)], capture_output=True, text=True, check=True)
    return [line.split() for line in answer.stdout.splitlines()]


def compare_splits(dump):
    ours = {line[0]: line[1:] for line in lines(dump, "splits")}
    theirs = {name: sorted(scenes) for name, scenes in create_splits_scenes().items()}
    print(
        "official splits: %d of %d equal the devkit's (target: all)"
        % (sum(ours.get(name) == scenes for name, scenes in theirs.items()), len(theirs))
    )
    return ours == theirs


def moving_world(seed):
    """A world whose car turns and whose LiDAR delivers sweeps between the key frames."""
    world = World(seed)
    r, t = world.random, world.tables
    lidar = t["calibrated_sensor"][1]
    lidar["rotation"] = list(Quaternion(axis=[r.random(), r.random(), 1], angle=r.uniform(-3, 3)))
    rows = [d for d in t["sample_data"] if d["calibrated_sensor_token"] == lidar["token"]]
    scene_of = {s["token"]: s["scene_token"] for s in t["sample"]}
    chain = []
    for row in rows:
        for part in (3, 2, 1):
            pose = {
                "token": world.token(),
                "timestamp": row["timestamp"] - 50011 * part,
                "translation": [r.uniform(300, 900), r.uniform(300, 900), r.uniform(-1, 1)],
                "rotation": list(Quaternion(axis=[0.1 * r.random(), 0.1 * r.random(), 1], angle=r.uniform(-3, 3))),
            }
            t["ego_pose"].append(pose)
            sweep = dict(
                row,
                token=world.token(),
                ego_pose_token=pose["token"],
                timestamp=pose["timestamp"],
                is_key_frame=False,
                filename="sweeps/LIDAR_TOP/%s.pcd.bin" % pose["token"],
            )
            chain.append(sweep)
            t["sample_data"].append(sweep)
        row["filename"] = "samples/LIDAR_TOP/%s.pcd.bin" % row["token"]
        chain.append(row)
    for a, b in itertools.pairwise(chain):
        if scene_of[a["sample_token"]] == scene_of[b["sample_token"]]:
            a["next"], b["prev"] = b["token"], a["token"]
    return world, chain


def write_clouds(root, chain, seed):
    rng = np.random.default_rng(seed)
    for row in chain:
        path = root / row["filename"]
        path.parent.mkdir(parents=True, exist_ok=True)
        points = rng.normal(0, 12, (200, 5)).astype(np.float32)
        points[:20, :2] = rng.uniform(-1.5, 1.5, (20, 2))  # some of the car itself
        points.tofile(path)


def compare_velocities(dump, root, world, nusc):
    same = total = 0
    for token, *velocity in lines(dump, "velocities", root, world.version):
        theirs = nusc.box_velocity(token)
        for ours, other in zip(map(float.fromhex, velocity), theirs):
            total += 1
            same += ours == other or (math.isnan(ours) and math.isnan(other))
    return same, total


def compare_sweeps(dump, root, world, nusc):
    worst, clouds = 0.0, 0
    for sample in nusc.sample:
        for previous in (0, 2, 9):
            cloud, times = LidarPointCloud.from_file_multisweep(nusc, sample, "LIDAR_TOP", "LIDAR_TOP", previous + 1)
            ours = np.array(
                [
                    [float.fromhex(x) for x in line]
                    for line in lines(dump, "sweeps", root, world.version, sample["token"], previous)
                ]
            )
            theirs = np.vstack([cloud.points, times]).T
            if ours.shape[0] != theirs.shape[0]:
                raise SystemExit("sample %s: %d points against %d" % (sample["token"], len(ours), len(theirs)))
            worst = max(worst, np.abs(ours[:, [0, 1, 2, 3, 5]] - theirs).max())
            clouds += 1
    return worst, clouds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", default="build/tests/nuscenes/reader_dump")
    parser.add_argument("--worlds", type=int, default=5)
    arguments = parser.parse_args()
    good = compare_splits(arguments.dump)
    same = total = clouds = 0
    worst = 0.0
    for seed in range(arguments.worlds):
        world, chain = moving_world(seed)
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            world.write(root)
            write_clouds(root, chain, seed)
            nusc = NuScenes(version=world.version, dataroot=str(root), verbose=False)
            equal, count = compare_velocities(arguments.dump, root, world, nusc)
            same, total = same + equal, total + count
            difference, number = compare_sweeps(arguments.dump, root, world, nusc)
            worst, clouds = max(worst, difference), clouds + number
    print("velocities: %d of %d equal the devkit's to the last bit (target: all)" % (same, total))
    print(
        "aggregated sweeps: %d clouds, worst difference %.1e m or s (target: 1e-3, float32 over poses of hundreds of "
        "metres)" % (clouds, worst)
    )
    sys.exit(0 if good and same == total and worst < 1e-3 else 1)


if __name__ == "__main__":
    main()
