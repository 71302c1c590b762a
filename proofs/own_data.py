"""Own data: written from arrays, copied from a KITTI-shaped folder, another rig, cameras that drop frames; each opened by
nuscenes-devkit, inspected, trained on and evaluated."""

from __future__ import annotations

import json
import pathlib

from proofs.programs import BUILD, build_target, camber, camber_json, devkit_python, run, run_json
from proofs.report import Proof, parts_of

DROPPED = 0.05
RIG = """
[[rig.cameras]]
name = "{name}"
yaw = {yaw}
field_of_view = 90.0
width = {width}
height = {height}
"""


def walk(proof: Proof, what: str, root: pathlib.Path, version: str, classes: str) -> None:
    """Inspected, trained on for two steps and evaluated; and the devkit opens it."""
    report = camber_json("inspect", "--data", root, "--version", version, "--read")
    proof.line(f"{what}: files that cannot be read", len(report["problems"]), 0, not report["problems"])
    for sentence in report["missed"]:
        proof.text(sentence)
    out = root.parent / f"{root.name}_run"
    camber(
        "train", "--out", out, "--threads", 1, f"--data.root={root}", f"--data.version={version}", "--loop.steps=2",
        "--data.batch_size=2", "--evaluation.limit=4", "--evaluation.faults=[]", f"--detector.classes={classes}",
        "--detector.router.mode=learned",
    )  # fmt: skip
    clean = camber_json("eval", "--run", out, "--limit", 4, "--threads", 1)["clean"]
    proof.line(
        f"{what}: trained on for two steps and evaluated",
        f"mAP {clean['mean_ap']:.4f}",
        "0 to 1",
        0 <= clean["mean_ap"] <= 1,
    )
    opened = run_json(devkit_python(), "tests/nuscenes/devkit_opens.py", root, version)
    proof.line(
        f"{what}: boxes whose points nuscenes-devkit counts alike, within 1",
        f"{opened['agreeing']} of {opened['boxes']} in {opened['files']} files",
        "97 %",
        opened["boxes"] > 0 and opened["agreeing"] >= 0.97 * opened["boxes"],
    )


def world(proof: Proof) -> pathlib.Path:
    folder = proof.folder / "world"
    if not folder.exists():
        camber("simulate", "--out", folder, "--scenes", 6, "--seed", 3, "--threads", 2, "--world.frames=4")
    return folder


def arrays(proof: Proof) -> None:
    build_target("example_own_data")
    out = proof.folder / "arrays"
    run(BUILD / "examples/example_own_data", out)
    walk(proof, "arrays", out, "v1.0-own", '["car"]')


def kitti(proof: Proof) -> None:
    folder, out = proof.folder / "kitti", proof.folder / "imported"
    run(devkit_python(), "tests/nuscenes/kitti_of_world.py", world(proof), "v1.0-simulated", folder)
    answer = camber_json("import", "kitti", folder, "--out", out)
    wanted = [
        row
        for row in json.loads((world(proof) / "v1.0-simulated/sample_annotation.json").read_text())
        if row["num_lidar_pts"] >= 0
    ]
    kept = answer["boxes"] + sum(answer["left_out"].values())
    proof.line("kitti: labels copied or left out", f"{kept} of {len(wanted)}", "all", kept == len(wanted))
    points = sorted(row["num_lidar_pts"] for row in wanted)
    copied = sorted(row["num_lidar_pts"] for row in json.loads((out / "v1.0-kitti/sample_annotation.json").read_text()))
    proof.note("kitti: LiDAR points in boxes", f"{sum(copied)} of {sum(points)} (cones are left out)")
    walk(proof, "kitti", out, "v1.0-kitti", '["car", "truck", "pedestrian"]')


def another_rig(proof: Proof) -> None:
    cameras = (("LEFT", 90, 96, 64), ("FRONT", 0, 160, 64), ("RIGHT", -90, 96, 64), ("REAR", 180, 160, 64))
    config = proof.folder / "rig.toml"
    config.write_text("".join(RIG.format(name=n, yaw=float(y), width=w, height=h) for n, y, w, h in cameras))
    out = proof.folder / "rig"
    camber("simulate", "--config", config, "--out", out, "--scenes", 6, "--threads", 2, "--world.frames=4")
    walk(proof, "four cameras of two sizes", out, "v1.0-simulated", '["car", "truck", "pedestrian", "traffic_cone"]')


def dropped_frames(proof: Proof) -> None:
    folder = proof.folder / "dropped"
    camber("simulate", "--out", folder, "--scenes", 6, "--seed", 4, "--threads", 2, "--world.frames=6")
    table = folder / "v1.0-simulated/sample_data.json"
    rows = json.loads(table.read_text())
    images = [row for row in rows if row["fileformat"] == "jpg"]
    gone = {row["token"] for row in images[:: int(1 / DROPPED)]}
    by_token = {row["token"]: row for row in rows}
    for row in (by_token[token] for token in gone):  # out of the list of its camera, as the schema wants it
        if row["prev"]:
            by_token[row["prev"]]["next"] = row["next"]
        if row["next"]:
            by_token[row["next"]]["prev"] = row["prev"]
        (folder / row["filename"]).unlink()
    table.write_text(json.dumps([row for row in rows if row["token"] not in gone]))
    proof.note("camera frames taken away", f"{len(gone)} of {len(images)}")
    walk(
        proof,
        "5 % of the camera frames missing",
        folder,
        "v1.0-simulated",
        '["car", "truck", "pedestrian", "traffic_cone"]',
    )


PARTS = parts_of(arrays, kitti, another_rig, dropped_frames)
