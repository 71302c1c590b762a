"""Writes a simulated world as a KITTI-shaped folder: one of its cameras, its LiDAR, its boxes, by the format's description.

usage: python kitti_of_world.py WORLD VERSION OUT

KITTI's rectified camera frame is that of the camera itself here; the label's y is the lower face of the box.
"""

import json
import math
import pathlib
import shutil
import sys

import numpy as np

TYPES = {"vehicle.car": "Car", "vehicle.truck": "Truck", "human.pedestrian.adult": "Pedestrian"}


def rotation_of(quaternion):
    w, x, y, z = np.array(quaternion) / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def matrix_of(row):
    matrix = np.eye(4)
    matrix[:3, :3] = rotation_of(row["rotation"])
    matrix[:3, 3] = row["translation"]
    return matrix


class World:
    def __init__(self, root, version):
        self.root = root
        names = (
            "sample",
            "sample_data",
            "sample_annotation",
            "calibrated_sensor",
            "sensor",
            "ego_pose",
            "instance",
            "category",
        )
        tables = {name: json.loads((root / version / f"{name}.json").read_text()) for name in names}
        self.samples = tables["sample"]
        self.rows = {name: {row["token"]: row for row in rows} for name, rows in tables.items()}
        self.boxes, self.files = {}, {}
        for box in tables["sample_annotation"]:
            self.boxes.setdefault(box["sample_token"], []).append(box)
        for data in tables["sample_data"]:
            if data["is_key_frame"]:
                sensor = self.rows["sensor"][
                    self.rows["calibrated_sensor"][data["calibrated_sensor_token"]]["sensor_token"]
                ]
                self.files[data["sample_token"], sensor["channel"]] = data

    def to_global(self, data):
        pose = matrix_of(self.rows["ego_pose"][data["ego_pose_token"]])
        return pose @ matrix_of(self.rows["calibrated_sensor"][data["calibrated_sensor_token"]])

    def category(self, box):
        return self.rows["category"][self.rows["instance"][box["instance_token"]]["category_token"]]["name"]


def numbers(values):
    return " ".join(f"{value:.12e}" for value in np.asarray(values).reshape(-1))


def label(box, world, camera_from_global):
    heading = rotation_of(box["rotation"])[:, 0]
    ahead = camera_from_global[:3, :3] @ heading
    center = camera_from_global @ np.array([*box["translation"], 1])
    width, length, height = box["size"]
    name = TYPES.get(world.category(box), "Misc")
    occluded = {"4": 0, "3": 1}.get(box["visibility_token"], 2)
    turn = math.atan2(-ahead[2], ahead[0])
    values = f"{height} {width} {length} {center[0]} {center[1] + height / 2} {center[2]} {turn}"
    return f"{name} 0.00 {occluded} 0.00 0 0 0 0 {values}\n"


def main(root, version, out):
    world = World(root, version)
    for folder in ("calib", "velodyne", "image_2", "label_2"):
        (out / "training" / folder).mkdir(parents=True)
    for number, sample in enumerate(world.samples):
        lidar, camera = world.files[sample["token"], "LIDAR_TOP"], world.files[sample["token"], "CAM_FRONT"]
        # KITTI's points have x ahead and y to the left; the simulator's LiDAR has y ahead.
        ahead = np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 1.0]])
        points = np.fromfile(root / lidar["filename"], dtype=np.float32).reshape(-1, 5)
        velodyne = np.hstack([points[:, :3] @ ahead.T.astype(np.float32), points[:, 3:4] / 255])
        camera_from_global = np.linalg.inv(world.to_global(camera))
        turned = np.eye(4)
        turned[:3, :3] = ahead.T
        to_camera = (camera_from_global @ world.to_global(lidar) @ turned)[:3]
        intrinsic = np.hstack(
            [
                np.array(world.rows["calibrated_sensor"][camera["calibrated_sensor_token"]]["camera_intrinsic"]),
                np.zeros((3, 1)),
            ]
        )
        name = f"{number:06d}"
        calibration = [f"P{i}: {numbers(intrinsic)}" for i in range(4)]
        calibration += [f"R0_rect: {numbers(np.eye(3))}", f"Tr_velo_to_cam: {numbers(to_camera)}"]
        training = out / "training"
        (training / "calib" / f"{name}.txt").write_text("\n".join(calibration) + "\n")
        velodyne.astype(np.float32).tofile(training / "velodyne" / f"{name}.bin")
        shutil.copy(root / camera["filename"], training / "image_2" / f"{name}.jpg")
        rows = [label(box, world, camera_from_global) for box in world.boxes.get(sample["token"], [])]
        (training / "label_2" / f"{name}.txt").write_text("".join(rows))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]))
