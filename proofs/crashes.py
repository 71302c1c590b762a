"""Crashes in the middle: kills, full disks, failing and short writes in every sub-command that writes files.

A file layer (tests/crashes/failing_writes.cpp) lets one call of a run go wrong: the process is killed at it, half of its bytes
are written before the kill, or it fails with ENOSPC or EIO, or is done in part. Afterwards what was there before is there, or what
the command makes, and nothing between them; and the same command, given again, makes what an unbroken one makes, without leftovers.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence

from proofs.crash_scenarios import Scenario, World, sum_of, tree_of
from proofs.programs import BUILD, CAMBER, PASSIVE, ROOT, ProgramFailed, build_target, environment_with, words
from proofs.report import Proof, parts_of

LAYER = BUILD / "tests/crashes/libcamber_failing_writes.so"
OLD = b"what was there before"


def fresh(folder: pathlib.Path, scenario: Scenario) -> pathlib.Path:
    """The folder that a scenario writes to; a single file has a predecessor there."""
    shutil.rmtree(folder, ignore_errors=True)
    if scenario.one_file:
        folder.mkdir()
        (folder / scenario.product).write_bytes(OLD)
    return folder


def call(
    command: Sequence[object], failing: Mapping[str, object] | None = None, file_bytes: int = 0
) -> subprocess.CompletedProcess[str]:
    extra = dict(PASSIVE)
    if failing is not None:
        extra |= {"LD_PRELOAD": str((ROOT / LAYER).resolve()), **{key: str(value) for key, value in failing.items()}}

    def limit() -> None:
        if file_bytes:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    return subprocess.run(
        words(ROOT / CAMBER, *command, "--quiet"),
        cwd=ROOT,
        env=environment_with(extra),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
        timeout=600,
    )


def measure(world: World, scenario: Scenario) -> None:
    """The state that the unbroken command leaves, and how many calls change files on the way there."""
    out = fresh(world.folder / f"whole_{scenario.name.replace(' ', '_')}", scenario)
    log = world.folder / f"calls_{scenario.name.replace(' ', '_')}"
    answer = call(
        scenario.command(out), {"CAMBER_FAIL_FOLDER": out, "CAMBER_FAIL_HOW": "count", "CAMBER_FAIL_LOG": log}
    )
    if answer.returncode != 0:
        raise ProgramFailed(f"{scenario.name} failed: {answer.stderr}")
    world.whole[scenario.name] = scenario.state(out)
    world.calls[scenario.name] = int(log.read_text())


def third_state(world: World, scenario: Scenario, out: pathlib.Path) -> str:
    """What is wrong with the state after a crash, before anything is mended; empty when it is the old or the new one."""
    product = out / scenario.product
    if scenario.one_file:
        if product.read_bytes() != OLD and sum_of(product) != world.whole[scenario.name][scenario.product]:
            return f"{scenario.product} is neither the old nor the new file"
    elif product.exists() and scenario.state is tree_of:
        state = {name: value for name, value in tree_of(out).items() if name != ".unfinished"}
        if state != world.whole[scenario.name]:
            return f"{scenario.product} is there, but not all of the data set"
    return ""


def mended(world: World, scenario: Scenario, out: pathlib.Path) -> str:
    """Gives the command again; what is wrong with what is there then, empty when it is what an unbroken one leaves."""
    started = scenario.again is not None and (out / "config.toml").exists()
    if not (started or scenario.one_file or scenario.name == "study") and (out / scenario.product).exists():
        return "" if not (out / ".unfinished").exists() or scenario.state is tree_of else "a mark is left"
    again = scenario.again(out) if scenario.again is not None and started else scenario.command(out)
    answer = call(again)
    if answer.returncode != 0:
        return f"given again it ended with {answer.returncode}: {answer.stderr.strip()}"
    state, whole = scenario.state(out), world.whole[scenario.name]
    if state == whole:
        return ""
    names = sorted(name for name in {*state, *whole} if state.get(name) != whole.get(name))
    return f"given again it made another state: {', '.join(names[:5])}"


def crash(world: World, scenario: Scenario, how: str, at: int, number: int) -> str:
    """One crash and what follows; empty, or one sentence that says what was wrong."""
    out = fresh(world.folder / f"{scenario.name.replace(' ', '_')}_{how}_{number}", scenario)
    answer = call(scenario.command(out), {"CAMBER_FAIL_FOLDER": out, "CAMBER_FAIL_HOW": how, "CAMBER_FAIL_AT": at})
    wrong = ""
    # A study outlives a run that was killed, and says so.
    run_killed = scenario.name == "study" and answer.returncode == 1 and is_sentence(answer.stderr)
    if how in ("kill", "torn"):
        if answer.returncode not in (0, -signal.SIGKILL) and not run_killed:
            wrong = f"ended with {answer.returncode}: {answer.stderr.strip()}"
    elif how == "short":
        wrong = f"a short write must do no harm: {answer.stderr.strip()}" if answer.returncode != 0 else ""
    elif answer.returncode not in (0, 1) or (answer.returncode == 1 and not is_sentence(answer.stderr)):
        wrong = f"ended with {answer.returncode}: {answer.stderr.strip()}"
    if not wrong and answer.returncode in (0, 1) and not run_killed and not is_clean(out):
        wrong = f"left {leftovers(out)}"
    wrong = wrong or third_state(world, scenario, out) or mended(world, scenario, out)
    if not wrong:
        shutil.rmtree(out, ignore_errors=True)
    return f"{scenario.name}, {how} at call {at} of {world.calls[scenario.name]}: {wrong}" if wrong else ""


def is_sentence(text: str) -> bool:
    """The last line, of which notes may stand before, is `camber: [op] ...`."""
    lines = text.strip().splitlines()
    return bool(lines) and lines[-1].startswith("camber: [")


def leftovers(out: pathlib.Path) -> list[str]:
    if not out.exists():
        return []
    return [path.name for path in out.rglob("*") if path.name == ".unfinished" or path.name.endswith(".temporary")]


def is_clean(out: pathlib.Path) -> bool:
    return not leftovers(out)


def spread(count: int, calls: int, dice: random.Random) -> list[int]:
    """So many calls out of all, the first and the last among them where there are two."""
    if count >= calls:
        return [1 + number % calls for number in range(count)]
    return (
        sorted({1, calls} | set(dice.sample(range(1, calls + 1), count)))[:count]
        if count > 1
        else [dice.randint(1, calls)]
    )


Job = tuple[Scenario, str, int, int]


def run_jobs(proof: Proof, world: World, what: str, jobs: Sequence[Job]) -> None:
    """Crashes side by side; a line for each kind of command."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        wrongs = list(pool.map(lambda job: crash(world, *job), jobs))
    by_name: dict[str, list[str]] = {}
    for job, wrong in zip(jobs, wrongs, strict=True):
        by_name.setdefault(job[0].name, []).append(wrong)
    for name, results in by_name.items():
        bad = [wrong for wrong in results if wrong]
        value = f"{len(results) - len(bad)} of {len(results)} left the old or the new state"
        proof.line(f"{what}, {name} ({world.calls[name]} calls)", value, "all", not bad)
        proof.text("\n".join(bad))


def world_of(proof: Proof) -> World:
    if "world" not in WORLDS:
        if not (ROOT / LAYER).exists():
            build_target("camber_failing_writes")
        WORLDS["world"] = World(proof.folder)
        for scenario in WORLDS["world"].scenarios():
            measure(WORLDS["world"], scenario)
    return WORLDS["world"]


WORLDS: dict[str, World] = {}


def shared_out(
    scenarios: Sequence[Scenario], count: int, world: World, hows: Sequence[str], dice: random.Random
) -> list[Job]:
    """So many crashes over all scenarios, at calls spread over each of them, of these kinds in turn."""
    jobs: list[Job] = []
    for number, scenario in enumerate(scenarios):
        share = count // len(scenarios) + (number < count % len(scenarios))
        points = spread(share, world.calls[scenario.name], dice)
        jobs += [(scenario, hows[i % len(hows)], at, i) for i, at in enumerate(points)]
    return jobs


KILLS = ("kill", "kill", "kill", "torn")


def kills(proof: Proof) -> None:
    world = world_of(proof)
    others = [scenario for scenario in world.scenarios() if scenario.name != "train"]
    run_jobs(proof, world, "killed", shared_out(others, proof.options.kills, world, KILLS, random.Random(5)))


def training(proof: Proof) -> None:
    """Kills at any call that changes a file; those in the middle of steps are in `scripts/prove training kills`."""
    world = world_of(proof)
    only = [one for one in world.scenarios() if one.name == "train"]
    run_jobs(proof, world, "killed", shared_out(only, proof.options.training_kills, world, KILLS, random.Random(6)))


def errors(proof: Proof) -> None:
    world, dice = world_of(proof), random.Random(7)
    for how, what in (("ENOSPC", "disk full"), ("EIO", "a call that fails"), ("short", "a short write")):
        run_jobs(proof, world, what, shared_out(world.scenarios(), proof.options.errors, world, [how], dice))


def limits(proof: Proof) -> None:
    """A file that may not grow is an error with a sentence, not the end by SIGXFSZ."""
    world = world_of(proof)
    bad = []
    for scenario in world.scenarios():
        out = fresh(world.folder / "limited", scenario)
        answer = call(scenario.command(out), None, 300)
        if answer.returncode != 1 or not is_sentence(answer.stderr):
            bad.append(f"{scenario.name} ended with {answer.returncode}: {answer.stderr.strip()}")
        elif not is_clean(out) or third_state(world, scenario, out):
            bad.append(f"{scenario.name}: {leftovers(out)} {third_state(world, scenario, out)}")
    count = len(world.scenarios())
    proof.line("files limited to 300 bytes", f"{count - len(bad)} of {count} end in a sentence", "all", not bad)
    proof.text("\n".join(bad))


def studies(proof: Proof) -> None:
    """Kills of a study's own process and of its runs: the file layer is inherited by them."""
    if proof.options.study_kills == 0:
        return
    world, scenario = world_of(proof), world_of(proof).study()
    measure(world, scenario)
    run_jobs(proof, world, "killed", shared_out([scenario], proof.options.study_kills, world, KILLS, random.Random(8)))


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=200, help="over the sub-commands beside train")
    parser.add_argument("--training-kills", type=int, default=200, help="in training")
    parser.add_argument("--study-kills", type=int, default=20, help="in a study and its runs")
    parser.add_argument("--errors", type=int, default=50, help="of each kind, over all sub-commands")


PARTS = parts_of(kills, training, errors, limits, studies)
