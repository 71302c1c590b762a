"""camber.nuscenes.evaluate and its DetectionEval: shapes and files. Its values beside the running devkit: scripts/prove python."""

import json
import math
from types import SimpleNamespace

import pytest

import camber
from camber import nuscenes
from camber._program import run_program

VERSION = "v1.0-simulated"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nuscenes")
    camber.simulate(folder / "world", scenes=5, seed=7, settings={"world.frames": 2})
    dataset = nuscenes.Dataset(folder / "world", VERSION)
    results = {}
    for token in dataset.samples("val"):
        frame = dataset.frame(token, sweeps=0)
        to_global = frame.ego_to_global @ frame.lidar_to_ego
        results[token] = []
        for i, (category, box) in enumerate(zip(frame.objects.categories, frame.objects.boxes.tolist())):
            name = {"vehicle.car": "car", "vehicle.truck": "truck", "human.pedestrian.adult": "pedestrian"}.get(
                category
            )
            if name is None:
                continue
            x, y, z = (to_global[:3, :3] @ frame.objects.boxes[i, :3] + to_global[:3, 3]).tolist()
            results[token].append({
                "sample_token": token, "translation": [x + 0.3 * i / 10, y, z], "size": [box[4], box[3], box[5]],
                "rotation": [math.cos(box[6] / 2), 0, 0, math.sin(box[6] / 2)], "velocity": [0.0, 0.0],
                "detection_name": name, "detection_score": 0.5 + 0.01 * i, "attribute_name": "",
            })  # fmt: skip
    meta = dict.fromkeys(("use_camera", "use_lidar", "use_radar", "use_map", "use_external"), True)
    submission = {"meta": meta, "results": results}
    (folder / "results.json").write_text(json.dumps(submission))
    return SimpleNamespace(folder=folder, data=folder / "world", file=folder / "results.json", results=submission)


def without_time(summary):
    return {key: value for key, value in summary.items() if key != "eval_time"}


def test_evaluate_is_camber_metrics(world, capfd):
    summary = nuscenes.evaluate(world.file, world.data, VERSION, "val")
    command = [
        "metrics",
        "--results",
        str(world.file),
        "--data",
        str(world.data),
        "--version",
        VERSION,
        "--split",
        "val",
    ]
    assert run_program([*command, "--format", "json"]) == 0
    printed = json.loads(capfd.readouterr().out)
    assert summary["mean_ap"] > 0.1
    for key, value in json.loads(json.dumps(summary)).items():
        if key != "eval_time":
            assert json.dumps(value) == json.dumps(printed[key]), key
    again = nuscenes.evaluate(world.results, str(world.data), VERSION, "val", threads=1)
    assert json.dumps(without_time(again)) == json.dumps(without_time(summary))


def test_detection_eval_writes_what_scripts_read(world, capsys):
    data = SimpleNamespace(dataroot=str(world.data), version=VERSION)
    config = nuscenes.evaluate(world.file, world.data, VERSION, "val")["cfg"]
    config = {**config, "dist_ths": [1.0, 2.0], "class_range": dict.fromkeys(config["class_range"], 24)}
    devkit_like = SimpleNamespace(serialize=lambda: config)
    evaluation = nuscenes.DetectionEval(data, devkit_like, world.file, "val", output_dir=world.folder / "out")
    summary = evaluation.main()
    assert summary["cfg"]["dist_ths"] == [1.0, 2.0] and sorted(summary["label_aps"]["car"]) == [1.0, 2.0]
    written = json.loads((world.folder / "out" / "metrics_summary.json").read_text())
    assert written["nd_score"] == summary["nd_score"] and evaluation.meta["use_lidar"] is True
    assert (world.folder / "out" / "plots" / "curves.svg").read_text().startswith("<svg")
    printed = capsys.readouterr().out
    assert f"NDS: {summary['nd_score']:.4f}" in printed and "Per-class results:" in printed
    metrics, curves = evaluation.evaluate()
    assert (
        metrics.mean_ap == summary["mean_ap"] and metrics.get_label_ap("car", 2.0) == summary["label_aps"]["car"][2.0]
    )
    assert metrics.get_label_tp("car", "trans_err") == summary["label_tp_errors"]["car"]["trans_err"]
    assert set(metrics.serialize()) == set(summary) - {"meta"}
    assert len(curves["car", 1.0]["precision"]) == 101 and len(curves) == 20
    assert curves.serialize() == json.loads((world.folder / "out" / "metrics_details.json").read_text())


def test_refusals(world):
    data = SimpleNamespace(dataroot=str(world.data), version=VERSION)
    with pytest.raises(FileNotFoundError, match="result_path must be a file"):
        nuscenes.DetectionEval(data, None, "nowhere.json", "val")
    with pytest.raises(ValueError, match="plot_examples must be 0"):
        nuscenes.DetectionEval(data, None, world.file, "val").main(plot_examples=3)
    with pytest.raises(ValueError, match="nowhere"):
        nuscenes.evaluate(world.file, world.data, VERSION, "nowhere")
    with pytest.raises(TypeError, match="config must be"):
        nuscenes.evaluate(world.file, world.data, VERSION, "val", config=3)
    with pytest.raises((ValueError, RuntimeError), match="detection_name"):
        bad = json.loads(json.dumps(world.results))
        next(iter(bad["results"].values()))[0]["detection_name"] = "tank"
        nuscenes.evaluate(bad, world.data, VERSION, "val")
