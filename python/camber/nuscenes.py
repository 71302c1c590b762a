"""nuScenes' detection metrics to the devkit's last bit, and reading of data sets in its schema.

>>> import tempfile, camber
>>> from camber import nuscenes
>>> folder = tempfile.mkdtemp()
>>> _ = camber.simulate(folder, scenes=5, seed=7, settings={"world.frames": 1})
>>> dataset = nuscenes.Dataset(folder, "v1.0-simulated")
>>> frame = dataset.frame(dataset.samples("val")[0])
>>> frame.points.shape[1], len(frame.images), frame.images[0].dtype
(6, 6, torch.uint8)
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import _doors
from .frames import Frame, Objects

__all__ = ["CurveList", "Dataset", "DetectionEval", "DetectionMetrics", "evaluate"]

Results = str | os.PathLike[str] | Mapping[str, Any]
Configuration = str | os.PathLike[str] | Mapping[str, Any] | Any
OFFICIAL = "detection_cvpr_2019"
_SHORT = {"trans_err": "mATE", "scale_err": "mASE", "orient_err": "mAOE", "vel_err": "mAVE", "attr_err": "mAAE"}


class _Files:
    """Files for what came as objects, in a folder that lives for the length of a call."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def write(self, name: str, content: object) -> str:
        with open(self.path(name), "w") as file:
            json.dump(content, file)
        return self.path(name)

    def results(self, results: Results) -> str:
        if isinstance(results, Mapping):
            return self.write("results.json", results)
        return os.fspath(results)

    def configuration(self, config: Configuration) -> str | None:
        """A name of the devkit's, a file, a dictionary, or an object such as the devkit's DetectionConfig."""
        if config is None or config == OFFICIAL:
            return None
        if isinstance(config, Mapping):
            return self.write("config.json", config)
        if hasattr(config, "serialize"):
            return self.write("config.json", config.serialize())
        if isinstance(config, (str, os.PathLike)):
            return os.fspath(config)
        raise TypeError(
            f"[nuscenes] config must be {OFFICIAL!r}, a file, a dictionary or an object with serialize(), got "
            f"{type(config).__name__}"
        )


_KEYS = (
    "label_aps", "mean_dist_aps", "mean_ap", "label_tp_errors", "tp_errors", "tp_scores", "nd_score", "eval_time", "cfg",
    "meta",
)  # fmt: skip


def _summary(answer: dict[str, Any]) -> dict[str, Any]:
    """As the devkit's main() returns it: distances are numbers, whole ones where the configuration has them so."""
    summary = {key: answer[key] for key in _KEYS}
    aps: dict[str, dict[str, float]] = summary["label_aps"]
    summary["label_aps"] = {
        label: {json.loads(distance): value for distance, value in by_distance.items()}
        for label, by_distance in aps.items()
    }
    return summary


def evaluate(
    results: Results,
    dataroot: str | os.PathLike[str],
    version: str = "v1.0-trainval",
    split: str = "val",
    *,
    config: Configuration = None,
    threads: int = 0,
) -> dict[str, Any]:
    """The detection metrics of a submission: the summary that the devkit's `DetectionEval.main()` returns, bit for bit.

    results: a results_nusc.json, or its content as a dictionary. split: an official one, or one of the data set's
    splits.json. config: the official one, or another as a file in the devkit's format, a dictionary or the devkit's
    DetectionConfig. The number of threads changes no bit; 0 takes as many as the machine has.

    >>> import tempfile, camber
    >>> folder = tempfile.mkdtemp()
    >>> _ = camber.simulate(folder, scenes=5, seed=7, settings={"world.frames": 1})
    >>> tokens = camber.nuscenes.Dataset(folder, "v1.0-simulated").samples("val")
    >>> box = {"sample_token": tokens[0], "translation": [0, 0, 0], "size": [2, 4, 2], "rotation": [1, 0, 0, 0],
    ...        "velocity": [0, 0], "detection_name": "car", "detection_score": 0.5, "attribute_name": ""}
    >>> meta = dict.fromkeys(("use_camera", "use_lidar", "use_radar", "use_map", "use_external"), False)
    >>> results = {"meta": meta, "results": {token: [] for token in tokens} | {tokens[0]: [box]}}
    >>> summary = camber.nuscenes.evaluate(results, folder, "v1.0-simulated", "val")
    >>> summary["mean_ap"], sorted(summary["label_aps"]["car"])
    (0.0, [0.5, 1.0, 2.0, 4.0])
    """
    with tempfile.TemporaryDirectory(prefix="camber_metrics_") as folder:
        files = _Files(folder)
        answer = _doors.answer_of(
            "metrics", results=files.results(results), data=Path(dataroot), version=version, split=split,
            config=files.configuration(config), threads=threads, no_bins=True,
        )  # fmt: skip
    return _summary(answer)


class DetectionMetrics:
    """The numbers of one evaluation under the names of the devkit's class.

    >>> metrics = DetectionMetrics({"mean_ap": 0.5, "nd_score": 0.6, "label_aps": {"car": {0.5: 0.4}}})
    >>> metrics.mean_ap, metrics.get_label_ap("car", 0.5)
    (0.5, 0.4)
    """

    def __init__(self, summary: dict[str, Any]) -> None:
        self._summary = summary

    def __getattr__(self, name: str) -> Any:
        if name in ("mean_ap", "nd_score", "tp_errors", "tp_scores", "mean_dist_aps", "eval_time"):
            return self._summary[name]
        raise AttributeError(f"[nuscenes] DetectionMetrics has no {name}")

    def get_label_ap(self, detection_name: str, dist_th: float) -> float:
        value: float = self._summary["label_aps"][detection_name][dist_th]
        return value

    def get_label_tp(self, detection_name: str, metric_name: str) -> float:
        value: float = self._summary["label_tp_errors"][detection_name][metric_name]
        return value

    def serialize(self) -> dict[str, Any]:
        return {key: value for key, value in self._summary.items() if key != "meta"}


class CurveList(Mapping[tuple[str, float], dict[str, Any]]):
    """The curves over recall of each class and distance, as the devkit's DetectionMetricDataList.

    >>> curves = CurveList({"car:0.5": {"precision": [1.0]}})
    >>> curves["car", 0.5]["precision"], curves.serialize()
    ([1.0], {'car:0.5': {'precision': [1.0]}})
    """

    def __init__(self, details: dict[str, dict[str, Any]]) -> None:
        self._details = details
        self._names = {(key.rsplit(":", 1)[0], json.loads(key.rsplit(":", 1)[1])): key for key in details}

    def __getitem__(self, key: tuple[str, float]) -> dict[str, Any]:
        return self._details[self._names[key]]

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def serialize(self) -> dict[str, dict[str, Any]]:
        return self._details


class DetectionEval:
    """The devkit's class of that name, for scripts whose import line changes.

    nusc is the devkit's NuScenes, a `Dataset`, or anything with a dataroot and a version. main() writes
    metrics_summary.json and metrics_details.json into output_dir, with render_curves also plots/curves.svg, and returns
    the summary. Examples are not drawn: plot_examples must be 0.

    >>> from camber.nuscenes import DetectionEval  # instead of: from nuscenes.eval.detection.evaluate import DetectionEval
    """

    def __init__(
        self,
        nusc: Any,
        config: Configuration,
        result_path: str | os.PathLike[str],
        eval_set: str,
        output_dir: str | os.PathLike[str] | None = None,
        verbose: bool = True,
    ) -> None:
        if not Path(result_path).exists():
            raise FileNotFoundError(f"[nuscenes] result_path must be a file, got {os.fspath(result_path)!r}")
        self.nusc, self.cfg, self.result_path, self.eval_set = nusc, config, os.fspath(result_path), eval_set
        self.output_dir = None if output_dir is None else os.fspath(output_dir)
        self.plot_dir = None if self.output_dir is None else os.path.join(self.output_dir, "plots")
        self.verbose = verbose
        self.meta: dict[str, Any] = {}

    def evaluate(self) -> tuple[DetectionMetrics, CurveList]:
        """The metrics and the curves."""
        summary, details = self._run(None)
        return DetectionMetrics(summary), CurveList(details)

    def main(self, plot_examples: int = 0, render_curves: bool = True) -> dict[str, Any]:
        """Evaluates, writes the files, and returns the summary."""
        if plot_examples != 0:
            raise ValueError(f"[nuscenes] plot_examples must be 0: examples are not drawn, got {plot_examples}")
        curves: str | None = None
        for folder in (self.output_dir, self.plot_dir):
            if folder is not None:
                os.makedirs(folder, exist_ok=True)
        if render_curves and self.plot_dir is not None:
            curves = os.path.join(self.plot_dir, "curves.svg")
        summary, details = self._run(curves)
        if self.output_dir is not None:
            for name, content in (("metrics_summary", summary), ("metrics_details", details)):
                Path(self.output_dir, name + ".json").write_text(json.dumps(content, indent=2))
        if self.verbose:
            _print(summary)
        return summary

    def _run(self, curves: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
        with tempfile.TemporaryDirectory(prefix="camber_metrics_") as folder:
            files = _Files(folder)
            details = files.path("details.json")
            answer = _doors.answer_of(
                "metrics", results=self.result_path, data=Path(self.nusc.dataroot), version=self.nusc.version,
                split=self.eval_set, config=files.configuration(self.cfg), no_bins=True, details=details,
                curves=curves,
            )  # fmt: skip
            read: dict[str, Any] = json.loads(Path(details).read_text())
        summary = _summary(answer)
        self.meta = summary["meta"]
        return summary, read


def _print(summary: dict[str, Any]) -> None:
    print(f"mAP: {summary['mean_ap']:.4f}")
    for name, short in _SHORT.items():
        print(f"{short}: {summary['tp_errors'][name]:.4f}")
    print(f"NDS: {summary['nd_score']:.4f}\nEval time: {summary['eval_time']:.1f}s")
    print(
        "\nPer-class results:\n"
        + f"{'Object Class':<22}"
        + "".join(f"\t{s}" for s in ("AP", *(s[1:] for s in _SHORT.values())))
    )
    for label, mean in summary["mean_dist_aps"].items():
        errors = summary["label_tp_errors"][label]
        print(f"{label:<22}\t{mean:.3f}" + "".join(f"\t{errors[name]:.3f}" for name in _SHORT))


class Dataset:
    """A data set in the nuScenes v1.0 schema, opened for reading; files of sensors are read when they are asked for.

    >>> import tempfile, camber
    >>> folder = tempfile.mkdtemp()
    >>> _ = camber.simulate(folder, scenes=5, seed=7, settings={"world.frames": 2})
    >>> dataset = camber.nuscenes.Dataset(folder, "v1.0-simulated")
    >>> len(dataset.scenes()), len(dataset.samples()), len(dataset.samples_of(dataset.scenes()[0]))
    (5, 10, 2)
    """

    def __init__(self, dataroot: str | os.PathLike[str], version: str = "v1.0-trainval", *, threads: int = 0) -> None:
        self.dataroot, self.version = os.fspath(dataroot), version
        self._door = _doors.make("Dataset", self.dataroot, version, threads)

    def scenes(self) -> list[str]:
        """Names of all scenes."""
        names: list[str] = self._door.scenes()
        return names

    def samples(self, split: str | None = None) -> list[str]:
        """Tokens of a split's key frames, in the order of the table; of all without a split."""
        tokens: list[str] = self._door.samples(split or "")
        return tokens

    def samples_of(self, scene: str) -> list[str]:
        """Tokens of a scene's key frames, in the order of time."""
        tokens: list[str] = self._door.samples_of(scene)
        return tokens

    def frame(
        self,
        token: str,
        *,
        faults: str = "none",
        split: str | None = None,
        seed: int = 0,
        sweeps: int = 10,
        image_size: tuple[int, int] | None = None,
    ) -> Frame:
        """A key frame with its true objects, as its sensors delivered it under these faults.

        faults: a list such as "frozen:4:other_scene,beams:3" (`camber faults --list`); those that repeat take other
        scenes from `split`. sweeps: LiDAR sweeps before the key frame (`Detector.previous_sweeps`). image_size (width, height): of all images; without it the first camera's own. Points are
        [N, 6]: x, y, z, intensity 0..255, ring, seconds before the frame.

        >>> import tempfile, camber
        >>> folder = tempfile.mkdtemp()
        >>> _ = camber.simulate(folder, scenes=5, seed=7, settings={"world.frames": 2})
        >>> dataset = camber.nuscenes.Dataset(folder, "v1.0-simulated")
        >>> token = dataset.samples("val")[0]
        >>> bool(dataset.frame(token, faults="black:5").images[0].any()), dataset.frame(token, faults="lidar_off").points
        (False, None)
        """
        width, height = image_size or (0, 0)
        tensors, images, names, categories = self._door.frame(token, faults, split or "", seed, sweeps, width, height)
        available = tensors["available"].tolist()
        times = tensors["timestamps"].tolist()
        return Frame(
            points=tensors["points"] if available[0] else None,
            images=[image if there else None for image, there in zip(images, available[1:])],
            intrinsics=tensors["intrinsics"],
            lidar_to_camera=tensors["lidar_to_camera"],
            camera_names=names,
            timestamp=int(tensors["timestamp"]),
            lidar_timestamp=times[0],
            camera_timestamps=times[1:],
            lidar_to_ego=tensors["poses"][0],
            ego_to_global=tensors["poses"][1],
            intensity_index=3,
            time_lag_index=5,
            token=token,
            objects=Objects(categories, tensors["boxes"], tensors["velocity"], tensors["lidar_points"]),
            quality=tensors["quality"].tolist(),
        )
