"""The package as a whole: what it needs at import, its installation, its example, its types."""

import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import camber
from camber import _library

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = _library.find_library()


def call(command, environment):
    # From a folder without a camber in it: Python looks there first.
    options = {"capture_output": True, "text": True, "cwd": "/", "timeout": 300}
    return subprocess.run(command, env=environment, check=False, **options)


def run(code, **environment):
    kept = ("PATH", "LD_PRELOAD", "ASAN_OPTIONS")  # the last two: of a sanitized library
    variables = {name: os.environ[name] for name in kept if name in os.environ}
    variables |= {"OMP_WAIT_POLICY": "passive", **environment}
    return call([sys.executable, "-c", code], variables)


def last_line(text):
    return text.strip().splitlines()[-1]


def test_another_torch_is_refused_in_a_sentence(tmp_path):
    shutil.copy(LIBRARY, tmp_path)
    (tmp_path / "libcamber_ops.json").write_text(json.dumps({"version": "0.1.0", "torch": "2.12.1"}))
    answer = run("import camber", PYTHONPATH=str(ROOT / "python"), CAMBER_LIBRARY=str(tmp_path / "libcamber_ops.so"))
    assert answer.returncode == 1
    assert last_line(answer.stderr).startswith(
        "ImportError: [camber] torch must be 2.12, the version that libcamber_ops.so was built with, got 2."
    )


def test_a_missing_library_is_told_in_a_sentence(tmp_path):
    missing = tmp_path / "libcamber_ops.so"
    answer = run("import camber", PYTHONPATH=str(ROOT / "python"), CAMBER_LIBRARY=str(missing))
    assert last_line(answer.stderr) == (
        f"ImportError: [camber] libcamber_ops.so must be at {missing}, found none: run `make build`, then "
        "`pip install ./python`, or name libcamber_ops.so in CAMBER_LIBRARY"
    )


def test_installs_with_the_library_inside(tmp_path):
    """pip install ./python, without isolation and without the network, into a folder of its own."""
    pip = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-index", "--no-deps"]
    environment = {**os.environ, "CAMBER_LIBRARY": str(LIBRARY)}
    done = call([*pip, "--target", str(tmp_path), str(ROOT / "python")], environment)
    assert done.returncode == 0, done.stderr
    installed = tmp_path / "camber"
    assert {"py.typed", "libcamber_ops.so", "libcamber_ops.json", "libcamber_program.so", "configs"} <= {
        file.name for file in installed.iterdir()
    }
    code = "import camber, camber._library as l; print(camber.__version__, l.find_library())"
    answer = run(code, PYTHONPATH=str(tmp_path))
    assert answer.stdout.split() == [camber.__version__, str(installed / "libcamber_ops.so")], answer.stderr


def test_an_old_setuptools_is_told_in_a_sentence(tmp_path):
    """What a new environment of Python 3.11 holds, met by a build without isolation."""
    (tmp_path / "setuptools").mkdir()
    (tmp_path / "setuptools" / "__init__.py").write_text('__version__ = "65.5.0"')
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "CAMBER_LIBRARY": str(LIBRARY)}
    answer = call([sys.executable, str(ROOT / "python" / "setup.py"), "--version"], environment)
    assert answer.returncode == 1
    assert last_line(answer.stderr) == (
        "[camber] setuptools must be at least 77, got 65.5.0: run `pip install ./python`, which fetches one for the build, "
        "or `pip install --upgrade setuptools` first"
    )


def test_example_runs():
    example = ROOT / "examples" / "python_multihead_attention.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "CAMBER_LIBRARY": str(LIBRARY)}
    answer = call([sys.executable, str(example)], environment)
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    assert float(lines[0].split()[-1]) < 1e-5  # without a bias nothing changed
    losses = [float(line.split("loss ")[1].split(",")[0]) for line in lines if line.startswith("step")]
    assert losses[-1] < 0.5 * losses[0]
    assert float(lines[-1].split()[-1]) > 2.5  # and the scale learned


@pytest.mark.parametrize("name", camber.__all__)
def test_everything_public_is_documented(name):
    thing = getattr(camber, name)
    if not callable(thing):
        return
    assert inspect.getdoc(thing), name
    if inspect.isfunction(thing):
        assert ">>>" in thing.__doc__, name
        for parameter in inspect.signature(thing).parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty, f"{name}: {parameter.name}"
