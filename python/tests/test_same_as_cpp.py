"""BoundedScale and AttentionBias against the C++ modules: the same options, states, values, gradients and schedules.

tests/python/module_records.cpp says what is recorded, and reads back the states that are written here.
"""

import json
import os
import struct
import subprocess
import warnings
from pathlib import Path

import pytest
import tomllib
import torch

import camber

MOMENTS = ((0, 0), (3, 30), (9, 90))
TYPES = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64, "I32": torch.int32, "BOOL": torch.bool}
# A sum of many products is taken in another order at most.
TOLERANCE = {"double": 1e-12, "float": 2e-6}
DTYPES = {"double": torch.float64, "float": torch.float32}


def program():
    """The program that CAMBER_MODULE_RECORDS names, as ctest does, else the one of the source tree's build."""
    named = os.environ.get("CAMBER_MODULE_RECORDS")
    path = Path(named) if named else Path(__file__).parents[2] / "build" / "tests" / "python" / "module_records"
    if named is None and not path.is_file():
        pytest.skip(f"{path} is not built")
    return path


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + at for at in entry["data_offsets"])
        dtype = TYPES[entry["dtype"]]
        flat = torch.frombuffer(bytearray(data[begin:end]), dtype=dtype) if end > begin else torch.empty(0, dtype=dtype)
        tensors[name] = flat.view(entry["shape"])
    return tensors, metadata


def write_safetensors(path, tensors):
    names = {dtype: name for name, dtype in TYPES.items()}
    header, data = {}, b""
    for name, tensor in tensors.items():
        part = tensor.detach().contiguous().numpy().tobytes()
        offsets = [len(data), len(data) + len(part)]
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    path = tmp_path_factory.mktemp("records") / "records.safetensors"
    subprocess.run([program(), "write", path], check=True)
    return read_safetensors(path)


def cases(records, kind):
    return {name.split("/")[1]: tomllib.loads(text) for name, text in records[1].items() if name.startswith(kind + "/")}


def scale_options(table):
    """The options of C++ as the constructor takes them: an empty centre is None, and so is a moment of -1."""
    stages = [
        camber.BoundsStage(
            stage["min"], stage["max"], *(None if stage[key] < 0 else stage[key] for key in ("from_epoch", "from_step"))
        )
        for stage in table.get("bounds_schedule", [])
    ]
    return {**table, "l2_center": table["l2_center"] or None, "bounds_schedule": stages}


def same(actual, expected, name, dtype):
    assert actual.dtype == expected.dtype, name
    assert actual.shape == expected.shape, name
    if expected.is_floating_point():
        torch.testing.assert_close(
            actual.detach(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], msg=lambda text: f"{name}: {text}"
        )
    else:
        assert torch.equal(actual, expected), name


def same_state(module, tensors, prefix, dtype):
    expected = {
        name[len(prefix) + 7 :]: value for name, value in tensors.items() if name.startswith(prefix + "/state/")
    }
    state = module.state_dict()
    assert sorted(state) == sorted(expected), prefix
    for name, value in state.items():
        same(value, expected[name], f"{prefix}/{name}", dtype)
    return expected


def weighted(result):
    return (result * torch.arange(result.numel(), dtype=result.dtype).view(result.shape).cos()).sum()


@pytest.mark.parametrize("dtype", ["double", "float"])
@pytest.mark.filterwarnings("ignore")
def test_scales_are_those_of_cpp(records, dtype):
    tensors = records[0]
    for case, table in cases(records, "scale").items():
        prefix = f"scale/{case}/{dtype}"
        scale = camber.BoundedScale(**scale_options(table)).to(DTYPES[dtype])
        same_state(scale, tensors, prefix, dtype)
        same(scale.penalty(), tensors[f"{prefix}/penalty"], f"{prefix}/penalty", dtype)
        first = scale.raw.detach().clone()
        for i in range(7):
            at = f"{prefix}/moved{i}"
            with torch.no_grad():
                scale.raw.copy_(first + 0.83 * (i - 3) * abs(i - 3))
            same(scale.raw, tensors[f"{at}/raw"], at, dtype)
            value = scale()
            same(value, tensors[f"{at}/value"], f"{at}/value", dtype)
            if scale.learnable:
                (gradient,) = torch.autograd.grad(weighted(value), scale.raw)
                same(gradient, tensors[f"{at}/gradient"], f"{at}/gradient", dtype)
            scale.project()
            same(scale.raw, tensors[f"{at}/projected"], f"{at}/projected", dtype)
        same(scale.share_at_bound(), tensors[f"{prefix}/share_at_bound"], f"{prefix}/share_at_bound", dtype)
        with torch.no_grad():
            scale.raw.copy_(first)
        for epoch, step in MOMENTS:
            at = f"{prefix}/epoch{epoch}"
            scale.apply_schedule(epoch, step)
            state = same_state(scale, tensors, at, dtype)
            same(scale(), tensors[f"{at}/value"], f"{at}/value", dtype)
            # Whatever a scale was made with, it becomes what was saved.
            other = camber.BoundedScale(shape=table["shape"], learnable=table["learnable"]).to(DTYPES[dtype])
            other.load_state_dict(state)
            same(other(), tensors[f"{at}/value"], f"{at}/value after loading", dtype)


def bias_of(case, table):
    grid = None if case.startswith("cameras_alone") else camber.BevGrid(-8, 8, -8, 8, cell=1)
    camera = None if case.startswith("grid_alone") else camber.CameraMap(100, 60, 10, 6)
    taken = ("windows", "segments", "locality", "window_trust", "per_camera", "form", "bev_window", "camera_window")
    taken += ("sharing", "num_layers")
    scales = {name: scale_options(table[name]) for name in ("scale", "segment_scale", "locality_scale")}
    for options in scales.values():  # an empty shape is the sharing's to say
        if not options["shape"]:
            del options["shape"]
    return camber.AttentionBias(
        grid,
        camera,
        **{name: table[name] for name in taken},
        num_heads=table["num_heads"],
        clip=table["clip"] or None,
        clip_schedule=[(step["from_epoch"], step["clip"]) for step in table.get("clip_schedule", [])],
        **scales,
    )


@pytest.mark.parametrize("dtype", ["double", "float"])
@pytest.mark.filterwarnings("ignore")
def test_biases_are_those_of_cpp(records, dtype):
    tensors = records[0]
    for case, table in cases(records, "bias").items():
        prefix = f"bias/{case}/{dtype}"
        bias = bias_of(case, table).to(DTYPES[dtype])
        trust = tensors[f"{prefix}/trust"].clone().requires_grad_(True)
        placed = bias.windows_at(
            tensors[f"{prefix}/points"], tensors[f"{prefix}/lidar2img"], boxes=tensors.get(f"{prefix}/boxes")
        )
        for epoch, step in MOMENTS:
            at = f"{prefix}/epoch{epoch}"
            bias.apply_schedule(epoch, step)
            state = same_state(bias, tensors, at, dtype)
            structured = bias.from_windows(trust, placed, layer=1)
            loss = weighted(structured.windows.value)
            got = {
                "row_offsets": structured.windows.row_offsets,
                "key_index": structured.windows.key_index,
                "window_value": structured.windows.value,
                "segment_offsets": structured.segments.offsets,
                "penalty": bias.penalty(),
            }
            leaves = {"grad_trust": trust}
            if bias.window_trust:
                leaves["grad_scale"] = bias.scale.raw
            if structured.segments.value is not None:
                got["segment_value"] = structured.segments.value
                loss = loss + weighted(structured.segments.value)
                leaves["grad_segment_scale"] = bias.segment_scale.raw
            if bias.locality_scale is not None:
                leaves["grad_locality_scale"] = bias.locality_scale.raw
            got |= dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values()))))
            recorded = {name.removeprefix(at + "/") for name in tensors if name.startswith(at + "/")}
            assert {name for name in recorded if not name.startswith("state/")} == set(got), at
            for name, value in got.items():
                same(value, tensors[f"{at}/{name}"], f"{at}/{name}", dtype)
            fresh = bias_of(case, table).to(DTYPES[dtype])
            fresh.load_state_dict(state)
            same(
                fresh.from_windows(trust, placed, layer=1).windows.value,
                tensors[f"{at}/window_value"],
                f"{at}/loaded",
                dtype,
            )


def test_cpp_loads_the_scales_of_python(records, tmp_path):
    for case, table in cases(records, "scale").items():
        scale = camber.BoundedScale(**scale_options(table)).double()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scale.apply_schedule(3, 30)
            state = {f"model.{name}": value for name, value in scale.state_dict().items()}
            write_safetensors(tmp_path / f"{case}.safetensors", {**state, "value": scale().detach()})
    told = subprocess.run([program(), "check", tmp_path], capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (0, "")
    # A wrong value is noticed.
    write_safetensors(tmp_path / f"{case}.safetensors", {**state, "value": scale().detach() + 1e-9})
    told = subprocess.run([program(), "check", tmp_path], capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (1, f"{case}: the loaded scale has another value\n")


def test_presets_are_those_of_cpp(records):
    tables = {case[7:]: table for case, table in cases(records, "scale").items() if case.startswith("preset_")}
    assert sorted(tables) == sorted(camber.SCALE_PRESETS)
    for name, table in tables.items():
        made, named = camber.BoundedScale(**scale_options(table)), camber.BoundedScale.preset(name)
        for field in ("init", "learnable", "initial_bounds", "constraint", "space", "warn_threshold"):
            assert getattr(made, field) == getattr(named, field), (name, field)
