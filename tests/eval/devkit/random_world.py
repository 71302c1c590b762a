"""Random data sets in the nuScenes v1.0 schema, and random results for them, with every edge case of the evaluation."""

import itertools
import json
import math
import random
from pathlib import Path

CATEGORIES = {
    "movable_object.barrier": "barrier",
    "vehicle.bicycle": "bicycle",
    "vehicle.bus.bendy": "bus",
    "vehicle.bus.rigid": "bus",
    "vehicle.car": "car",
    "vehicle.construction": "construction_vehicle",
    "vehicle.motorcycle": "motorcycle",
    "human.pedestrian.adult": "pedestrian",
    "human.pedestrian.child": "pedestrian",
    "human.pedestrian.construction_worker": "pedestrian",
    "human.pedestrian.police_officer": "pedestrian",
    "movable_object.trafficcone": "traffic_cone",
    "vehicle.trailer": "trailer",
    "vehicle.truck": "truck",
    "human.pedestrian.stroller": None,
    "animal": None,
    "static_object.bicycle_rack": None,
}
CLASSES = [
    "car",
    "truck",
    "bus",
    "trailer",
    "construction_vehicle",
    "pedestrian",
    "motorcycle",
    "bicycle",
    "traffic_cone",
    "barrier",
]
ATTRIBUTES = [
    "pedestrian.moving",
    "pedestrian.sitting_lying_down",
    "pedestrian.standing",
    "cycle.with_rider",
    "cycle.without_rider",
    "vehicle.moving",
    "vehicle.parked",
    "vehicle.stopped",
]
SCENES = ["scene-0061", "scene-0103", "scene-0916", "scene-0553"]  # mini_val is the middle two


def attributes_of(name):
    if name == "pedestrian":
        return ATTRIBUTES[:3]
    if name in ("bicycle", "motorcycle"):
        return ATTRIBUTES[3:5]
    return [] if name in ("barrier", "traffic_cone") else ATTRIBUTES[5:]


class World:
    """The tables as Python objects; `write` puts them into a folder."""

    def __init__(self, seed, version="v1.0-mini", samples=6, objects=14):
        self.random = random.Random(seed)
        self.version = version
        self.tables = {
            name: []
            for name in [
                "category",
                "attribute",
                "visibility",
                "instance",
                "sensor",
                "calibrated_sensor",
                "ego_pose",
                "log",
                "scene",
                "sample",
                "sample_data",
                "sample_annotation",
                "map",
            ]
        }
        self.splits = None
        self.fixed_tables()
        for name in SCENES:
            self.add_scene(name, self.random.randint(2, samples), objects)

    def token(self):
        return "%032x" % self.random.getrandbits(128)

    def fixed_tables(self):
        t = self.tables
        t["category"] = [{"token": self.token(), "name": n, "description": ""} for n in CATEGORIES]
        t["attribute"] = [{"token": self.token(), "name": n, "description": ""} for n in ATTRIBUTES]
        t["visibility"] = [
            {"token": str(i + 1), "level": level, "description": ""}
            for i, level in enumerate(["v0-40", "v40-60", "v60-80", "v80-100"])
        ]
        t["log"] = [{"token": self.token(), "logfile": "x", "vehicle": "y", "date_captured": "z", "location": "w"}]
        t["map"] = [
            {
                "token": self.token(),
                "log_tokens": [t["log"][0]["token"]],
                "category": "semantic_prior",
                "filename": "maps/map.png",
            }
        ]
        for channel, modality in (("CAM_FRONT", "camera"), ("LIDAR_TOP", "lidar")):
            sensor = {"token": self.token(), "channel": channel, "modality": modality}
            t["sensor"].append(sensor)
            t["calibrated_sensor"].append(
                {
                    "token": self.token(),
                    "sensor_token": sensor["token"],
                    "translation": [1.0, 0.5, 1.8],
                    "rotation": [1.0, 0.0, 0.0, 0.0],
                    "camera_intrinsic": [[1266.0, 0.0, 800.0], [0.0, 1266.0, 450.0], [0.0, 0.0, 1.0]]
                    if modality == "camera"
                    else [],
                }
            )

    def add_scene(self, name, count, objects):
        r, t = self.random, self.tables
        scene = {
            "token": self.token(),
            "name": name,
            "description": "d\u00e9",
            "log_token": t["log"][0]["token"],
            "nbr_samples": count,
        }
        # Whole metres, so that distances can be hit exactly.
        ego = [float(r.randint(300, 900)), float(r.randint(300, 900))]
        time = 1532402927647951 + r.randint(0, 10**12)
        samples = []
        for _i in range(count):
            samples.append(
                {"token": self.token(), "timestamp": time, "scene_token": scene["token"], "prev": "", "next": ""}
            )
            self.add_sensor_files(samples[-1], ego, time)
            # Now and then a gap that is too long for a velocity.
            time += r.choice([500000, 500000, 499871, 500123, 450007, 1500000, 1600000, 3100000])
            ego = [ego[0] + r.randint(-2, 2), ego[1] + r.randint(0, 3)]
        self.link(samples)
        scene["first_sample_token"], scene["last_sample_token"] = samples[0]["token"], samples[-1]["token"]
        t["scene"].append(scene)
        # Samples of all scenes mixed would be legal too, but tables come scene by scene.
        t["sample"] += samples
        for _ in range(objects):
            self.add_object(samples)
        rack = self.add_object(samples, "static_object.bicycle_rack")
        self.add_cycles_in(rack)

    @staticmethod
    def link(rows):
        for a, b in itertools.pairwise(rows):
            a["next"], b["prev"] = b["token"], a["token"]

    def add_sensor_files(self, sample, ego, time):
        t = self.tables
        for calibrated, sensor in zip(t["calibrated_sensor"], t["sensor"]):
            pose = {
                "token": self.token(),
                "timestamp": time,
                "translation": [ego[0], ego[1], 0.0],
                "rotation": [1.0, 0.0, 0.0, 0.0],
            }
            t["ego_pose"].append(pose)
            t["sample_data"].append(
                {
                    "token": self.token(),
                    "sample_token": sample["token"],
                    "ego_pose_token": pose["token"],
                    "calibrated_sensor_token": calibrated["token"],
                    "timestamp": time,
                    "fileformat": "jpg",
                    "is_key_frame": True,
                    "height": 900,
                    "width": 1600,
                    "filename": "samples/%s/%d.bin" % (sensor["channel"], time),
                    "prev": "",
                    "next": "",
                }
            )

    def ego_of(self, sample):
        lidar = self.tables["calibrated_sensor"][1]["token"]
        data = next(
            d
            for d in self.tables["sample_data"]
            if d["sample_token"] == sample["token"] and d["calibrated_sensor_token"] == lidar
        )
        return next(p for p in self.tables["ego_pose"] if p["token"] == data["ego_pose_token"])["translation"]

    def add_object(self, samples, category=None):
        r, t = self.random, self.tables
        if category is None:
            category = r.choice(list(CATEGORIES))
        name = CATEGORIES[category]
        record = next(c for c in t["category"] if c["name"] == category)
        instance = {"token": self.token(), "category_token": record["token"]}
        ego = self.ego_of(samples[0])
        position = [ego[0] + r.uniform(-60, 60), ego[1] + r.uniform(-60, 60), r.uniform(0, 2)]
        if r.random() < 0.2:  # a whole number of metres away: on the border of a range, at times
            position[:2] = [ego[0] + r.choice([30.0, 40.0, 50.0, 3.0, 24.0]), ego[1] + r.choice([0.0, 40.0, 18.0])]
        speed = [r.uniform(-8, 8) * (r.random() < 0.5), r.uniform(-8, 8) * (r.random() < 0.5)]
        rows = []
        for sample in samples:
            position = [position[0] + 0.5 * speed[0], position[1] + 0.5 * speed[1], position[2]]
            if r.random() < 0.25 and len(samples) > 1:
                continue
            choice = attributes_of(name) if name else []
            attributes = [a["token"] for a in t["attribute"] if choice and a["name"] == r.choice(choice)][:1]
            rows.append(
                {
                    "token": self.token(),
                    "sample_token": sample["token"],
                    "instance_token": instance["token"],
                    "visibility_token": str(r.randint(1, 4)),
                    "attribute_tokens": attributes,
                    "translation": list(position),
                    "size": [r.uniform(0.4, 3), r.uniform(0.4, 9), r.uniform(0.5, 3)],
                    "rotation": self.rotation(),
                    "prev": "",
                    "next": "",
                    "num_lidar_pts": r.choice([0, 0, 1, 3, 7, 40, 300]),
                    "num_radar_pts": r.choice([0, 0, 2]),
                }
            )
        if not rows:
            return None
        self.link(rows)
        instance.update(
            nbr_annotations=len(rows), first_annotation_token=rows[0]["token"], last_annotation_token=rows[-1]["token"]
        )
        t["instance"].append(instance)
        t["sample_annotation"] += rows
        return rows

    def add_cycles_in(self, rack):
        """Bicycles and motorcycles in, beside and on the border of a rack."""
        r = self.random
        for row in rack or []:
            if r.random() < 0.5:
                row["rotation"], row["size"] = [1.0, 0.0, 0.0, 0.0], [4.0, 8.0, 2.0]
                row["translation"] = [
                    math.floor(row["translation"][0]) * 1.0,
                    math.floor(row["translation"][1]) * 1.0,
                    1.0,
                ]
            sample = next(s for s in self.tables["sample"] if s["token"] == row["sample_token"])
            for offset in ([0.0, 0.0], [4.0, 2.0], [4.0000001, 0.0], [0.0, -2.0], [r.uniform(-5, 5), r.uniform(-3, 3)]):
                cycle = self.add_object([sample], r.choice(["vehicle.bicycle", "vehicle.motorcycle"]))
                cycle[0]["translation"] = [
                    row["translation"][0] + offset[0],
                    row["translation"][1] + offset[1],
                    row["translation"][2],
                ]
                cycle[0]["num_lidar_pts"] = 5

    def rotation(self):
        r = self.random
        kind = r.random()
        yaw = r.choice([r.uniform(-4, 4), 0.0, math.pi / 2, math.pi])
        if kind < 0.7:
            return [math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)]
        if kind < 0.95:
            return [r.uniform(-1, 1) for _ in range(4)]  # of any length, turned in space
        return [0.0, 0.0, 0.0, 0.0]

    def samples_of(self, scenes):
        tokens = {s["token"] for s in self.tables["scene"] if s["name"] in scenes}
        return [s for s in self.tables["sample"] if s["scene_token"] in tokens]

    def write(self, root):
        folder = Path(root) / self.version
        folder.mkdir(parents=True, exist_ok=True)
        (Path(root) / "maps").mkdir(exist_ok=True)
        (Path(root) / "maps" / "map.png").write_bytes(b"")
        for name, rows in self.tables.items():
            (folder / (name + ".json")).write_text(json.dumps(rows, indent=self.random.choice([None, 0, 1])))
        if self.splits is not None:
            (folder / "splits.json").write_text(json.dumps(self.splits))


def random_results(world, samples, edge):
    """Predictions from the true objects, moved, doubled, forgotten and invented; `edge` names what is special."""
    r = world.random
    category = {c["token"]: c["name"] for c in world.tables["category"]}
    instances = {i["token"]: category[i["category_token"]] for i in world.tables["instance"]}
    attributes = {a["token"]: a["name"] for a in world.tables["attribute"]}
    results = {}
    for sample in samples:
        boxes = []
        for row in world.tables["sample_annotation"]:
            name = CATEGORIES[instances[row["instance_token"]]]
            if row["sample_token"] != sample["token"] or name is None:
                continue
            own = attributes[row["attribute_tokens"][0]] if row["attribute_tokens"] else ""
            for _ in range(r.choice([0, 1, 1, 1, 2, 3])):
                boxes.append(predict(world, row, name, own, sample, edge))
        ego = world.ego_of(sample)
        for _ in range(r.randint(0, 8)):
            boxes.append(
                {
                    "sample_token": sample["token"],
                    "translation": [ego[0] + r.uniform(-55, 55), ego[1] + r.uniform(-55, 55), 1.0],
                    "size": [1.0, 2.0, 3.0],
                    "rotation": world.rotation(),
                    "velocity": [0.0, 0.0],
                    "detection_name": r.choice(CLASSES),
                    "detection_score": score_of(r, edge),
                    "attribute_name": r.choice(ATTRIBUTES + [""]),
                }
            )
        r.shuffle(boxes)
        results[sample["token"]] = boxes
    return results


def score_of(r, edge):
    if edge == "equal scores":
        return 0.5
    if edge == "integer scores":
        return r.choice([0, 1])
    if edge == "zero scores":
        return r.choice([0.0, 0.0, 0.25, 0.5])
    if edge == "tied scores":
        return r.randint(1, 9) / 10
    if edge == "large scores":
        return r.uniform(0, 1e6)
    if edge == "infinite scores":
        return r.choice([math.inf, 1e308, 0.5, r.random()])
    if edge == "negative scores":
        return r.choice([-1.0, r.random(), r.random(), r.random()])
    return r.random()


def predict(world, row, name, attribute, sample, edge):
    r = world.random
    if edge == "exact distances":
        away = r.choice([0.0, 0.5, 1.0, 2.0, 4.0, 0.3])
        angle = r.choice([0, 1, 2, 3])
        offset = [[away, 0.0], [0.0, away], [-away, 0.0], [away * 0.6, away * 0.8]][angle]
    else:
        spread = r.choice([0.1, 0.5, 1.5, 4.0])
        offset = [r.gauss(0, spread), r.gauss(0, spread)]
    translation = [row["translation"][0] + offset[0], row["translation"][1] + offset[1], row["translation"][2]]
    if edge == "exact distances":
        translation[:2] = [round(translation[0] * 2) / 2, round(translation[1] * 2) / 2]
    box = {
        "sample_token": sample["token"],
        "translation": translation,
        "size": [s * r.uniform(0.7, 1.4) for s in row["size"]] if r.random() < 0.9 else list(row["size"]),
        "rotation": row["rotation"] if r.random() < 0.3 else world.rotation(),
        "velocity": [r.uniform(-5, 5), r.uniform(-5, 5)],
        "detection_name": name if r.random() < 0.9 else r.choice(CLASSES),
        "detection_score": score_of(r, edge),
        "attribute_name": attribute if r.random() < 0.6 else r.choice(ATTRIBUTES + [""]),
    }
    if edge == "odd velocities":
        box["velocity"] = r.choice([[math.nan, math.nan], [math.nan, 0.0], [1, 2], [math.inf, 0.0], [3.0, -1.0]])
    if edge == "odd fields":
        box.update(r.choice([{"num_pts": 0}, {"num_pts": 3}, {"num_pts": 0.7}, {"num_pts": -1}, {}]))
        box.update(r.choice([{"ego_translation": [1000.0, 0.0, 0.0]}, {"ego_translation": [0, 0, 0]}, {}]))
        box.update(r.choice([{"tracking_id": "x"}, {"extra": {"a": [1, None, True, "y"]}}, {}]))
    if edge == "whole numbers":
        box["translation"] = [round(x) for x in box["translation"]]
        box["size"] = [max(1, round(x)) for x in box["size"]]
        box["rotation"] = r.choice([[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [2, 0, 0, 2]])
    return box
