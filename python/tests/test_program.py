"""The program in a Python process beside build/camber: the same answers, exit codes, Ctrl-C and progress line."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from camber import _library
from camber._program import run_program

LIBRARY = _library.find_library()
EXECUTABLE = LIBRARY.parents[1] / "camber"
PACKAGE = Path(_library.__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PACKAGE), "CAMBER_LIBRARY": str(LIBRARY), "OMP_NUM_THREADS": "1"}


def start(*arguments, **options):
    command = [sys.executable, "-m", "camber", *map(str, arguments)]
    return subprocess.Popen(command, env=ENVIRONMENT, **options)


def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.skipif(not EXECUTABLE.is_file(), reason="only a build has the executable to compare with")
@pytest.mark.parametrize(
    "arguments, code",
    [
        (["analyze", "bound", "--keys", "100", "--window", "5", "--mass", ".5", "--format", "json"], 0),
        (["train", "--print-config"], 0),
        (["metrics", "--results", "nowhere.json", "--ground-truth", "nowhere.json"], 1),
        (["train", "--loop.stepz=3", "--out", "nowhere"], 2),
    ],
)
def test_answers_are_those_of_the_executable(arguments, code, capfd):
    theirs = subprocess.run([EXECUTABLE, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert run_program(arguments) == theirs.returncode == code
    assert capfd.readouterr() == (theirs.stdout, theirs.stderr)


def test_ctrl_c_ends_a_training_in_order(tmp_path, capfd):
    world, run = tmp_path / "world", tmp_path / "run"
    simulate = ["simulate", "--out", str(world), "--scenes", "5", "--world.frames=1", "--seed", "7", "--format", "json"]
    assert run_program(simulate) == 0
    assert json.loads(capfd.readouterr().out)["scenes"] == 5
    process = start("train", "--out", run, f"--data.root={world}", "--data.batch_size=1", "--loop.steps=100000",
                    "--threads", "1", "--quiet", stderr=subprocess.PIPE, text=True)  # fmt: skip
    metrics = run / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGINT, words
    assert "stopped by a signal" in words and any((run / "checkpoints").iterdir())


def test_python_has_its_signals_back_afterwards(tmp_path):
    """A script that trains inside its own process is interrupted like any other once the training is over."""
    code = (
        "import camber, os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        "world, run = sys.argv[1] + '/world', sys.argv[1] + '/run'\n"
        "camber.simulate(world, scenes=5, seed=7, settings={'world.frames': 1})\n"
        "code = camber.run_program(['train', '--out', run, f'--data.root={world}', '--data.batch_size=1', '--loop.steps=1',"
        " '--evaluation.faults=[]', '--quiet'])\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt:\n    sys.exit(10 + code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], env=ENVIRONMENT, check=False, timeout=300, capture_output=True
    )
    assert done.returncode == 10, done.stderr


def test_progress_is_drawn_on_a_terminal_until_ctrl_c_ends_it(tmp_path):
    ours, theirs = pty.openpty()
    process = start("simulate", "--out", tmp_path / "world", "--scenes", 9999, "--threads", 1, stderr=theirs)
    os.close(theirs)
    text = b""
    while b"simulate [" not in text or b" frames, " not in text:
        text += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == -signal.SIGINT
    os.close(ours)


def test_a_closed_pipe_ends_it_as_any_program():
    process = start("train", "--print-config", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == -signal.SIGPIPE
