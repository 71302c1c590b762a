"""Writes data of the official sizes, for the speed comparison: nothing in it is real.

python3 bench/nuscenes/generate.py validation FOLDER    6,019 samples, 1.2 million predictions, 140 thousand objects
python3 bench/nuscenes/generate.py validation FOLDER --samples 600    the same with fewer samples
python3 bench/nuscenes/generate.py trainval FOLDER      tables of the size of v1.0-trainval
"""

import argparse
import math
import random
from pathlib import Path

CATEGORIES = [
    "vehicle.car",
    "human.pedestrian.adult",
    "movable_object.barrier",
    "movable_object.trafficcone",
    "vehicle.truck",
    "vehicle.trailer",
    "vehicle.bus.rigid",
    "vehicle.construction",
    "vehicle.motorcycle",
    "vehicle.bicycle",
    "static_object.bicycle_rack",
]
WEIGHTS = [40, 22, 13, 9, 8, 2, 1.5, 1.5, 1.2, 1.2, 0.6]
NAMES = [
    "car",
    "pedestrian",
    "barrier",
    "traffic_cone",
    "truck",
    "trailer",
    "bus",
    "construction_vehicle",
    "motorcycle",
    "bicycle",
]
ATTRIBUTES = [
    "vehicle.moving",
    "vehicle.parked",
    "vehicle.stopped",
    "pedestrian.moving",
    "pedestrian.standing",
    "cycle.with_rider",
    "cycle.without_rider",
    "pedestrian.sitting_lying_down",
]
ATTRIBUTE_OF = [
    "vehicle.parked",
    "pedestrian.moving",
    "",
    "",
    "vehicle.moving",
    "vehicle.parked",
    "vehicle.moving",
    "vehicle.stopped",
    "cycle.without_rider",
    "cycle.with_rider",
]
RANGES = [50, 40, 30, 30, 50, 50, 50, 50, 40, 40, 50]  # of the categories, metres
CHANNELS = (
    [("CAM_" + n, "camera") for n in ("FRONT", "BACK", "BACK_LEFT", "FRONT_LEFT", "FRONT_RIGHT", "BACK_RIGHT")]
    + [("LIDAR_TOP", "lidar")]
    + [("RADAR_" + n, "radar") for n in ("FRONT", "FRONT_RIGHT", "BACK_RIGHT", "BACK_LEFT", "FRONT_LEFT")]
)
# How often each sensor delivers between key frames: cameras 6 times, the LiDAR 10, radars 6 or 7; 77 files a sample.
FILES = [6] * 6 + [10] + [6, 6, 6, 6, 7]
VAL_SCENES = [
    (3, 3),
    (12, 18),
    (35, 36),
    (38, 39),
    (92, 110),
    (221, 221),
    (268, 278),
    (329, 332),
    (344, 346),
    (519, 524),
    (552, 565),
    (625, 627),
    (629, 630),
    (632, 638),
    (770, 771),
    (775, 775),
    (777, 778),
    (780, 784),
    (794, 800),
    (802, 802),
    (904, 917),
    (919, 931),
    (962, 963),
    (966, 969),
    (971, 972),
    (1059, 1073),
]


class Table:
    """A table's file, written row by row in the layout of the official ones: one field a line."""

    def __init__(self, folder, name):
        self.file = open(folder / (name + ".json"), "w", encoding="ascii", buffering=1 << 20)
        self.file.write("[")
        self.separator = "\n"

    def add(self, text):
        self.file.write(self.separator + "{\n" + text + "\n}")
        self.separator = ",\n"

    def close(self):
        self.file.write("\n]")
        self.file.close()


def token(r):
    return "%032x" % r.getrandbits(128)


def write_fixed(folder, r):
    tokens = {}
    for name, rows in (("category", CATEGORIES), ("attribute", ATTRIBUTES)):
        table = Table(folder, name)
        for row in rows:
            tokens[row] = token(r)
            table.add('"token": "%s",\n"name": "%s",\n"description": "made"' % (tokens[row], row))
        table.close()
    table = Table(folder, "visibility")
    for i, level in enumerate(("v0-40", "v40-60", "v60-80", "v80-100")):
        table.add('"description": "made",\n"token": "%d",\n"level": "%s"' % (i + 1, level))
    table.close()
    table, tokens["log"] = Table(folder, "log"), token(r)
    table.add(
        '"token": "%s",\n"logfile": "made",\n"vehicle": "n",\n"date_captured": "d",\n"location": "l"' % tokens["log"]
    )
    table.close()
    table = Table(folder, "map")
    table.add(
        '"category": "semantic_prior",\n"token": "%s",\n"filename": "maps/map.png",\n"log_tokens": [\n"%s"\n]'
        % (token(r), tokens["log"])
    )
    table.close()
    (folder.parent / "maps").mkdir(exist_ok=True)
    (folder.parent / "maps" / "map.png").write_bytes(b"")
    table = Table(folder, "sensor")
    for channel, modality in CHANNELS:
        tokens[channel] = token(r)
        table.add('"token": "%s",\n"channel": "%s",\n"modality": "%s"' % (tokens[channel], channel, modality))
    table.close()
    return tokens


class Writer:
    """The tables that grow with the number of scenes."""

    def __init__(self, root, version, seed):
        self.folder = root / version
        self.folder.mkdir(parents=True, exist_ok=True)
        self.random = random.Random(seed)
        self.fixed = write_fixed(self.folder, self.random)
        self.tables = {
            name: Table(self.folder, name)
            for name in (
                "scene",
                "sample",
                "sample_data",
                "ego_pose",
                "sample_annotation",
                "instance",
                "calibrated_sensor",
            )
        }
        self.annotations = 0

    def add_scene(self, name, samples, objects, sweeps):
        """Returns per sample its token, its ego position and its objects: (x, y, z, w, l, h, yaw, class, vx, vy)."""
        r, tables = self.random, self.tables
        scene, time = token(r), 1533000000000000 + r.getrandbits(40)
        tokens = [token(r) for _ in range(samples)]
        tables["scene"].add(
            '"token": "%s",\n"log_token": "%s",\n"nbr_samples": %d,\n"first_sample_token": "%s",\n'
            '"last_sample_token": "%s",\n"name": "%s",\n"description": "made"'
            % (scene, self.fixed["log"], samples, tokens[0], tokens[-1], name)
        )
        calibrations = [token(r) for _ in CHANNELS]
        for (channel, modality), calibration in zip(CHANNELS, calibrations):
            tables["calibrated_sensor"].add(
                '"token": "%s",\n"sensor_token": "%s",\n"translation": [\n1.7,\n0.01,\n1.5\n],\n"rotation": [\n0.5,\n'
                '-0.5,\n0.5,\n-0.5\n],\n"camera_intrinsic": %s'
                % (
                    calibration,
                    self.fixed[channel],
                    "[\n[\n1266.4,\n0.0,\n816.2\n],\n[\n0.0,\n1266.4,\n491.5\n],\n[\n0.0,\n0.0,\n1.0\n]\n]"
                    if modality == "camera"
                    else "[]",
                )
            )
        ego = [r.uniform(300, 2000), r.uniform(300, 2000)]
        egos = [(ego[0] + 0.4 * i, ego[1] + 0.1 * i) for i in range(samples)]
        for i, sample in enumerate(tokens):
            tables["sample"].add(
                '"token": "%s",\n"timestamp": %d,\n"prev": "%s",\n"next": "%s",\n"scene_token": "%s"'
                % (
                    sample,
                    time + 500000 * i,
                    tokens[i - 1] if i else "",
                    tokens[i + 1] if i + 1 < samples else "",
                    scene,
                )
            )
        for c, (channel, modality) in enumerate(CHANNELS):
            self.add_files(channel, modality, calibrations[c], tokens, egos, time, FILES[c] if sweeps else 1)
        return list(zip(tokens, egos, self.add_objects(tokens, egos, objects)))

    def add_files(self, channel, modality, calibration, samples, egos, time, per_sample):
        r, tables = self.random, self.tables
        count = len(samples) * per_sample
        tokens = [token(r) for _ in range(count)]
        for i in range(count):
            sample, part = divmod(i, per_sample)
            stamp = time + 500000 * sample - 500000 // per_sample * (per_sample - 1 - part)
            pose, key = token(r), part == per_sample - 1
            x, y = egos[sample]
            tables["ego_pose"].add(
                '"token": "%s",\n"timestamp": %d,\n"rotation": [\n%.16f,\n%.16f,\n%.16f,\n%.16f\n],\n"translation": [\n'
                "%.13f,\n%.13f,\n0.0\n]"
                % (
                    pose,
                    stamp,
                    0.9 + r.random() * 0.1,
                    r.random() * 1e-2,
                    r.random() * 1e-2,
                    r.random() * 0.1,
                    x - 0.05 * (per_sample - 1 - part),
                    y,
                )
            )
            tables["sample_data"].add(
                '"token": "%s",\n"sample_token": "%s",\n"ego_pose_token": "%s",\n"calibrated_sensor_token": "%s",\n'
                '"timestamp": %d,\n"fileformat": "%s",\n"is_key_frame": %s,\n"height": %d,\n"width": %d,\n'
                '"filename": "%s/%s/n015-2018-07-18-11-07-57+0800__%s__%d.%s",\n"prev": "%s",\n"next": "%s"'
                % (
                    tokens[i],
                    samples[sample],
                    pose,
                    calibration,
                    stamp,
                    "jpg" if modality == "camera" else "pcd",
                    "true" if key else "false",
                    900 if modality == "camera" else 0,
                    1600 if modality == "camera" else 0,
                    "samples" if key else "sweeps",
                    channel,
                    channel,
                    stamp,
                    {"camera": "jpg", "lidar": "pcd.bin", "radar": "pcd"}[modality],
                    tokens[i - 1] if i else "",
                    tokens[i + 1] if i + 1 < count else "",
                )
            )

    def add_objects(self, samples, egos, objects):
        r, tables = self.random, self.tables
        of_sample = [[] for _ in samples]
        left = objects
        while left > 0:
            first = r.randrange(len(samples))
            length = min(left, r.randint(1, 36), len(samples) - first)
            left -= length
            kind = r.choices(range(len(CATEGORIES)), WEIGHTS)[0]
            instance, tokens = token(r), [token(r) for _ in range(length)]
            tables["instance"].add(
                '"token": "%s",\n"category_token": "%s",\n"nbr_annotations": %d,\n"first_annotation_token": "%s",\n'
                '"last_annotation_token": "%s"'
                % (instance, self.fixed[CATEGORIES[kind]], length, tokens[0], tokens[-1])
            )
            near = 1.1 * RANGES[kind] * math.sqrt(r.random())
            angle, yaw = r.uniform(-math.pi, math.pi), r.uniform(-math.pi, math.pi)
            x, y = egos[first][0] + near * math.cos(angle), egos[first][1] + near * math.sin(angle)
            vx, vy = (r.uniform(-6, 6), r.uniform(-6, 6)) if r.random() < 0.4 else (0.0, 0.0)
            w, l, h = r.uniform(0.5, 2.5), r.uniform(0.5, 6), r.uniform(1, 3)
            attribute = ATTRIBUTE_OF[kind] if kind < len(ATTRIBUTE_OF) else ""
            for i in range(length):
                px, py = x + 0.5 * i * vx, y + 0.5 * i * vy
                tables["sample_annotation"].add(
                    '"token": "%s",\n"sample_token": "%s",\n"instance_token": "%s",\n"visibility_token": "%d",\n'
                    '"attribute_tokens": [%s],\n"translation": [\n%.3f,\n%.3f,\n1.5\n],\n"size": [\n%.3f,\n%.3f,\n%.3f\n],\n'
                    '"rotation": [\n%.16f,\n0.0,\n0.0,\n%.16f\n],\n"prev": "%s",\n"next": "%s",\n"num_lidar_pts": %d,\n'
                    '"num_radar_pts": 0'
                    % (
                        tokens[i],
                        samples[first + i],
                        instance,
                        r.randint(1, 4),
                        '\n"%s"\n' % self.fixed[attribute] if attribute else "",
                        px,
                        py,
                        w,
                        l,
                        h,
                        math.cos(yaw / 2),
                        math.sin(yaw / 2),
                        tokens[i - 1] if i else "",
                        tokens[i + 1] if i + 1 < length else "",
                        int(r.expovariate(0.05)),
                    )
                )
                if kind < len(NAMES):
                    of_sample[first + i].append((px, py, 1.5, w, l, h, yaw, kind, vx, vy))
                self.annotations += 1
        return of_sample

    def close(self):
        for table in self.tables.values():
            table.close()


def box_text(r, sample, x, y, z, w, l, h, yaw, kind, vx, vy, score):
    return (
        '{"sample_token": "%s", "translation": [%r, %r, %r], "size": [%r, %r, %r], "rotation": [%r, 0.0, 0.0, %r], '
        '"velocity": [%r, %r], "detection_name": "%s", "detection_score": %r, "attribute_name": "%s"}'
        % (
            sample,
            x,
            y,
            z,
            w,
            l,
            h,
            math.cos(yaw / 2),
            math.sin(yaw / 2),
            vx,
            vy,
            NAMES[kind],
            score,
            ATTRIBUTE_OF[kind],
        )
    )


def write_results(path, samples, per_sample, seed):
    """Found objects with noise, and false ones up to the wanted number."""
    r = random.Random(seed)
    count = 0
    with open(path, "w", encoding="ascii", buffering=1 << 20) as file:
        file.write(
            '{"meta": {"use_camera": true, "use_lidar": true, "use_radar": false, "use_map": false, '
            '"use_external": false}, "results": {'
        )
        for i, (sample, ego, objects) in enumerate(samples):
            boxes = []
            for x, y, z, w, l, h, yaw, kind, vx, vy in objects:
                if r.random() < 0.85:
                    n = r.gauss(0, 0.35), r.gauss(0, 0.35)
                    boxes.append(
                        box_text(
                            r,
                            sample,
                            x + n[0],
                            y + n[1],
                            z,
                            w * r.uniform(0.9, 1.1),
                            l * r.uniform(0.9, 1.1),
                            h,
                            yaw + r.gauss(0, 0.2),
                            kind,
                            vx + n[0],
                            vy + n[1],
                            r.betavariate(4, 3),
                        )
                    )
            while len(boxes) < per_sample:
                boxes.append(
                    box_text(
                        r,
                        sample,
                        ego[0] + r.uniform(-50, 50),
                        ego[1] + r.uniform(-50, 50),
                        1.5,
                        r.uniform(0.5, 2.5),
                        r.uniform(0.5, 6),
                        1.7,
                        r.uniform(-3, 3),
                        r.choices(range(10), WEIGHTS[:10])[0],
                        0.1,
                        0.2,
                        r.betavariate(1, 9),
                    )
                )
            count += len(boxes)
            file.write('%s"%s": [%s]' % (", " if i else "", sample, ", ".join(boxes)))
        file.write("}}")
    return count


def validation(root, total=6019):
    writer = Writer(root, "v1.0-trainval", 1)
    names = ["scene-%04d" % n for first, last in VAL_SCENES for n in range(first, last + 1)]
    samples = []
    for i, name in enumerate(names):
        length = total * (i + 1) // len(names) - total * i // len(names)
        samples += writer.add_scene(name, length, 141000 * total // 6019 // len(names), False)
    writer.close()
    boxes = write_results(root / "results.json", samples, 200, 2)
    print("%d samples, %d annotations, %d predictions" % (len(samples), writer.annotations, boxes))


def trainval(root):
    writer = Writer(root, "v1.0-trainval", 3)
    scenes, samples, annotations = 850, 34149, 1166187
    rows = 0
    for i in range(scenes):
        length = samples * (i + 1) // scenes - samples * i // scenes
        objects = annotations * (i + 1) // scenes - annotations * i // scenes
        writer.add_scene("scene-%04d" % (i + 1), length, objects, True)
        rows += length * sum(FILES)
    writer.close()
    print("%d samples, %d sample_data rows, %d annotations" % (samples, rows, writer.annotations))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["validation", "trainval"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, default=6019, help="of the validation data; at least one a scene, 150")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.what == "validation":
        validation(arguments.folder, arguments.samples)
    else:
        trainval(arguments.folder)


if __name__ == "__main__":
    main()
