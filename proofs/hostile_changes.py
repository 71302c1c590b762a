"""What bad inputs do to the data set, the run and the files of a scene before the command is called."""

from __future__ import annotations

import os
import shutil
import struct

from proofs.hostile_case import Change, Scene

Rows = list[dict[str, object]]


def cloud_is_fifo(scene: Scene) -> None:
    for file in scene.lidar_files():
        file.unlink()
        os.mkfifo(file)


def cloud_is_device(scene: Scene) -> None:
    for file in scene.lidar_files():
        file.unlink()
        file.symlink_to("/dev/zero")


def cloud_leaves_folder(scene: Scene) -> None:
    outside = scene.folder / "outside.bin"
    outside.write_bytes(scene.lidar_files()[0].read_bytes())
    for file in scene.lidar_files():
        file.unlink()
        file.symlink_to(outside)


def cloud_is_empty(scene: Scene) -> None:
    for file in scene.lidar_files():
        file.write_bytes(b"")


def cloud_not_finite(scene: Scene) -> None:
    for file in scene.lidar_files():
        content = bytearray(file.read_bytes())
        content[0:40] = struct.pack("<10f", float("nan"), 1, 1, 1, 1, float("inf"), 1, 1, 1, 1)
        file.write_bytes(content)


def no_cameras(scene: Scene) -> None:
    kept = {row["token"] for row in rows_of(scene, "sensor") if row["modality"] != "camera"}
    rigs = {row["token"] for row in rows_of(scene, "calibrated_sensor") if row["sensor_token"] in kept}

    def change(rows: Rows) -> None:
        rows[:] = [row for row in rows if row["calibrated_sensor_token"] in rigs]

    scene.rewrite("sample_data", change)


def rows_of(scene: Scene, table: str) -> Rows:
    found: Rows = []
    scene.rewrite(table, found.extend)
    return found


def zero_intrinsics(scene: Scene) -> None:
    def change(rows: Rows) -> None:
        for row in rows:
            if row["camera_intrinsic"]:
                row["camera_intrinsic"] = [[0, 0, 0], [0, 0, 0], [0, 0, 0]]

    scene.rewrite("calibrated_sensor", change)


def one_camera_never(scene: Scene) -> None:
    sensor = next(row["token"] for row in rows_of(scene, "sensor") if row["modality"] == "camera")
    rigs = {row["token"] for row in rows_of(scene, "calibrated_sensor") if row["sensor_token"] == sensor}

    def change(rows: Rows) -> None:
        rows[:] = [row for row in rows if row["calibrated_sensor_token"] not in rigs]

    scene.rewrite("sample_data", change)


def empty_scenes(scene: Scene) -> None:
    def change(rows: Rows) -> None:
        rows.append({**rows[0], "token": "empty", "name": "scene-empty", "nbr_samples": 0,
                     "first_sample_token": "", "last_sample_token": ""})  # fmt: skip

    scene.rewrite("scene", change)


def samples_loop(scene: Scene) -> None:
    def change(rows: Rows) -> None:
        rows[1]["next"] = rows[0]["token"]

    scene.rewrite("sample", change)


def sweeps_loop(scene: Scene) -> None:
    def change(rows: Rows) -> None:
        for row in rows:
            row["prev"] = row["token"]

    scene.rewrite("sample_data", change)


def clock_backwards(scene: Scene) -> None:
    def change(rows: Rows) -> None:
        for row in rows:
            row["timestamp"] = 3_000_000_000_000_000 - int(str(row["timestamp"]))

    scene.rewrite("sample", change)
    scene.rewrite("sample_data", change)


def clock_at_the_limit(scene: Scene) -> None:
    def change(rows: Rows) -> None:
        for row in rows:
            row["timestamp"] = -(2**63)

    scene.rewrite("sample", change)
    scene.rewrite("sample_data", change)


def leftover_world(scene: Scene) -> None:
    (scene.folder / "k1/samples").mkdir(parents=True)
    (scene.folder / "k1/samples/left.jpg").write_bytes(b"x")


def stopped_run(scene: Scene) -> None:
    shutil.copytree(scene.folder / "run", scene.folder / "other")


def run_with_bad_result(scene: Scene) -> None:
    copy_run(scene)
    (scene.folder / "rx/result.json").write_text('{"clean": "nonsense"}')


def run_with_linked_image(scene: Scene) -> None:
    copy_run(scene)
    (scene.folder / "rx/images").mkdir(exist_ok=True)
    (scene.folder / "rx/images/p.png").symlink_to("/etc/passwd")


def copy_run(scene: Scene) -> None:
    shutil.copytree(scene.folder / "run", scene.folder / "rx")


def model_cut(scene: Scene) -> None:
    content = (scene.folder / "run/model.safetensors").read_bytes()
    (scene.folder / "m.safetensors").write_bytes(content[: len(content) // 2])


def model_flipped(scene: Scene) -> None:
    content = bytearray((scene.folder / "run/model.safetensors").read_bytes())
    content[-100] ^= 4
    (scene.folder / "m.safetensors").write_bytes(content)


def model_is_fifo(scene: Scene) -> None:
    os.mkfifo(scene.folder / "m.safetensors")


def model_is_empty(scene: Scene) -> None:
    (scene.folder / "m.safetensors").write_bytes(b"")


def model_is_text(scene: Scene) -> None:
    (scene.folder / "m.safetensors").write_text("weights")


def model_is_folder(scene: Scene) -> None:
    (scene.folder / "m.safetensors").mkdir()


def model_header_huge(scene: Scene) -> None:
    (scene.folder / "m.safetensors").write_bytes(b"\xff" * 7 + b"\x7f" + b"{}")


def table_cut(scene: Scene) -> None:
    scene.table("sample_data").write_text(scene.table("sample_data").read_text()[:-300])


def table_empty(scene: Scene) -> None:
    scene.table("sample").write_text("[]")


def table_is_fifo(scene: Scene) -> None:
    scene.table("scene").unlink()
    os.mkfifo(scene.table("scene"))


def table_is_missing(scene: Scene) -> None:
    scene.table("ego_pose").unlink()


def table_is_folder(scene: Scene) -> None:
    scene.table("ego_pose").unlink()
    scene.table("ego_pose").mkdir()


def table_leaves(scene: Scene) -> None:
    shutil.move(scene.table("scene"), scene.folder / "scene.json")
    scene.table("scene").symlink_to(scene.folder / "scene.json")


def image_cut(scene: Scene) -> None:
    for file in (scene.data / "samples/CAM_FRONT").iterdir():
        file.write_bytes(file.read_bytes()[:200])


def image_is_text(scene: Scene) -> None:
    for file in (scene.data / "samples/CAM_FRONT").iterdir():
        file.write_text("an image")


def image_is_fifo(scene: Scene) -> None:
    for file in (scene.data / "samples/CAM_FRONT").iterdir():
        file.unlink()
        os.mkfifo(file)


def image_leaves(scene: Scene) -> None:
    for file in (scene.data / "samples/CAM_FRONT").iterdir():
        shutil.move(file, scene.folder / file.name)
        file.symlink_to(scene.folder / file.name)


def cloud_odd(scene: Scene) -> None:
    for file in scene.lidar_files():
        file.write_bytes(file.read_bytes() + b"abc")


def negative_size(scene: Scene) -> None:
    def change(rows: Rows) -> None:
        rows[0]["size"] = [-1, 2, 3]

    scene.rewrite("sample_annotation", change)


def pose_of_zeros(scene: Scene) -> None:
    def change(rows: Rows) -> None:
        rows[0]["rotation"] = [0, 0, 0, 0]

    scene.rewrite("ego_pose", change)


def token_twice(scene: Scene) -> None:
    def change(rows: Rows) -> None:
        rows.append(dict(rows[0]))

    scene.rewrite("sample", change)


def file_outside(scene: Scene) -> None:
    def change(rows: Rows) -> None:
        rows[0]["filename"] = "../../etc/passwd"

    scene.rewrite("sample_data", change)


def results_file(text: str) -> Change:
    def change(scene: Scene) -> None:
        (scene.folder / "bad.json").write_text(text)

    return change


def results_fifo(scene: Scene) -> None:
    os.mkfifo(scene.folder / "bad.json")


def config_file(text: str) -> Change:
    def change(scene: Scene) -> None:
        (scene.folder / "bad.toml").write_text(text)

    return change


def config_fifo(scene: Scene) -> None:
    os.mkfifo(scene.folder / "bad.toml")


def config_binary(scene: Scene) -> None:
    (scene.folder / "bad.toml").write_bytes(bytes(range(256)))


def out_is_file(scene: Scene) -> None:
    (scene.folder / "OUT").write_text("x")


def run_copy(scene: Scene) -> None:
    shutil.copytree(scene.folder / "run", scene.folder / "rx")


def run_without_weights(scene: Scene) -> None:
    run_copy(scene)
    (scene.folder / "rx/model.safetensors").unlink()
    shutil.rmtree(scene.folder / "rx/checkpoints")


def run_config_bad(scene: Scene) -> None:
    run_copy(scene)
    (scene.folder / "rx/config.toml").write_text("[detector]\nno_such = 1\n")


def run_metrics_bad(scene: Scene) -> None:
    run_copy(scene)
    (scene.folder / "rx/metrics.jsonl").write_text("{]\n")


def run_metrics_fifo(scene: Scene) -> None:
    run_copy(scene)
    (scene.folder / "rx/metrics.jsonl").unlink()
    os.mkfifo(scene.folder / "rx/metrics.jsonl")
