"""Opens a data set with nuscenes-devkit and reads every key frame's files. Prints one line of JSON.

usage: python devkit_opens.py ROOT VERSION
"""

import json
import sys

import numpy as np
from nuscenes.nuscenes import NuScenes
from nuscenes.utils.data_classes import LidarPointCloud
from nuscenes.utils.geometry_utils import points_in_box
from PIL import Image


def main(root, version):
    nusc = NuScenes(version=version, dataroot=root, verbose=False)
    files = boxes = agreeing = 0
    for sample in nusc.sample:
        for channel, token in sample["data"].items():
            path, seen, _ = nusc.get_sample_data(token)
            files += 1
            if path.endswith(".jpg"):
                Image.open(path).load()
                continue
            cloud = LidarPointCloud.from_file(path)
            for box in seen:
                boxes += 1
                counted = nusc.get("sample_annotation", box.token)["num_lidar_pts"]
                agreeing += abs(int(points_in_box(box, cloud.points[:3]).sum()) - counted) <= 1
            assert np.isfinite(cloud.points).all(), channel
    print(json.dumps({"samples": len(nusc.sample), "files": files, "boxes": boxes, "agreeing": agreeing}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
