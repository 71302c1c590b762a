"""The commands of the documentation: how they are found, how they are made short, and which are not run."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from documentation.markdown import ROOT, blocks

CALL = re.compile(r"(?:^|\s)(?:build/)?camber (?P<arguments>\S.*)$")
# Prose mentions sub-commands; only what has an option is a command to copy.
INLINE = re.compile(r"`([^`]*\bcamber [^`]* --[^`]*)`")
COMMENT = re.compile(r"\s+# .*$")

# Pages in an order in which each finds what it needs: a world, a run, a study that an earlier one made.
ORDER = ("study.md", "study_alarms.md", "README.md", "training.md", "health.md", "world.md", "metrics.md", "start.md",
         "cmt.md")  # fmt: skip
# A block with such a comment before it is a file that commands of the page read, as it stands or at the end of another.
FILE = re.compile(r"<!-- file: (\S+)(?: after (\S+))? -->")

TINY_STUDY = (
    "--world.root=study_world --world.scenes=8 --world.frames=3 --base_steps=4 --branch_steps=3 --frames=4 --replicates=4 "
    "--training.loop.checkpoint_every=1 --gates.doubled_seeds=0 --seeds 1 --only plain --threads 1"
)
TINY_OWN = (
    TINY_STUDY.removesuffix("--only plain --threads 1") + "--threads 1 --gates.stop=false "
    "--training.detector.bias.scale.learnable=false --training.detector.bias.segment_scale.learnable=false"
)
TINY_ALARMS = (
    "--world.root=alarms_world --world.scenes=20 --test_world.root=alarms_test_world --test_world.scenes=20 --branch_steps=3 "
    "--frames=4 --replicates=4 --training.loop.checkpoint_every=1 --gates.stop=false --seeds 1 --only verified_rule,verified_bias "
    "--training.detector.bias.scale.learnable=false --training.detector.bias.segment_scale.learnable=false "
    "--threads 1"
)
FEW_EPISODES = "--training.episodes=2 --tests.0.episodes=2 --tests.1.episodes=2"

# CMT at widths that learn in seconds: (what stands in configs/cmt_r50*.toml, what stands there instead).
SMALL_CMT = (
    ("= 54.0", "= 12.8"),
    ("= -54.0", "= -12.8"),
    ("grid_cells = 128", "grid_cells = 0"),
    ("image_width = 800", "image_width = 160"),
    ("image_height = 320", "image_height = 64"),
    ("bev_channels = 512", "bev_channels = 64"),
    ("camera_channels = 256", "camera_channels = 32"),
    (
        "[detector.encoder.cmt]",
        "[detector.encoder.cmt]\nsparse_channels = [4, 4, 8, 8]\nsparse_outputs = 8\nbev_backbone_channels = [16, 16]\n"
        "stem_width = 4\nbackbone_width = 4",
    ),
    ("num_queries = 900", "num_queries = 30"),
    ("width = 256", "width = 32"),
    ("feedforward_width = 1024", "feedforward_width = 32"),
    ("num_layers = 6", "num_layers = 2"),
    ("camera_window = 15", "camera_window = 3"),
    ("\nsteps = 35000", "\nsteps = 1"),
    ("\nsteps = 2000", "\nsteps = 2"),
    ("accumulate = 16", "accumulate = 1"),
    ("accumulate = 4", "accumulate = 1"),
    ("data/nuscenes", "build/world"),
    ("v1.0-trainval", "v1.0-simulated"),
    ("limit = 200", "limit = 1"),
)


def small_cmt(name: str) -> str:
    """A configuration of CMT in small, from its file."""
    text = (ROOT / "configs" / name).read_text()
    for old, new in SMALL_CMT:
        text = text.replace(old, new)
    return text


# What makes a command a matter of seconds: (what to look for, what stands there instead).
SHORTER = (
    (
        r"^study (run|list|estimate) --config configs/study_small\.toml --out runs/study_small",
        r"study \1 --config configs/study.toml --out runs/study",
    ),
    (r"runs/study_small", "runs/study"),
    (
        r"^study (run|list|estimate) --config configs/study\.toml",
        rf"study \1 --config configs/study_small.toml {TINY_STUDY}",
    ),
    (
        r"^study run --config configs/own_study\.toml --start study",
        rf"study run --config configs/own_study.toml {TINY_OWN}",
    ),
    (
        r"^study (run|estimate) --config configs/study_alarms\.toml --start study",
        rf"study \1 --config configs/study_alarms.toml --start {ROOT}/study {TINY_ALARMS}",
    ),
    (r"^advise (?!--from)", "advise --from runs/study_alarms "),
    # The run of two steps above agrees with nothing; a published model stands in for it.
    (
        r"^calibrate-agreement --run runs/demo (.*)",
        rf"calibrate-agreement --checkpoint {ROOT}/study/bases/base_s0.safetensors --data build/world \1",
    ),
    (
        r"^(train --config configs/dense_heads\.toml.*)=/data/nuscenes --data.version=v1.0-trainval",
        r"\1=build/world --loop.steps=2 --evaluation.limit=1 '--evaluation.faults=[]'",
    ),
    (
        r"^calibrate-agreement --run runs/cmt_r50_dense (.*)",
        rf"calibrate-agreement --checkpoint {ROOT}/study/bases/base_s0.safetensors --data build/world \1",
    ),
    (r"^(eval .*--cue-errors .*)", r"\1 --limit 2"),
    (r"^(eval --checkpoint verified.*)", r"\1 --limit 2"),
    (r"^(simulate .*)--scenes 280", r"\1--scenes 20 --world.frames=3"),
    (r"^(train --config configs/demo\.toml.*)", r"\1 --loop.steps=2 --evaluation.limit=2 '--evaluation.faults=[]'"),
    (r"^(eval .*)--limit 200", r"\1--limit 2"),
    (
        r"^(study fewshot run --config configs/fewshot_study\.toml.*)",
        r"\1 --only glyphs_none,glyphs_sap --seeds='[1]' "
        r"""--parts.1.options='["training.episodes=2", "tests.0.episodes=2", "tests.1.episodes=2", "leak_episodes=2"]'""",
    ),
    (r"^(fewshot --config configs/fewshot_(?:letter|omniglot)\.toml.*)", rf"\1 {FEW_EPISODES}"),
    (r"^(fewshot --config configs/fewshot_(?:glyphs|pacs)\.toml.*)", rf"\1 {FEW_EPISODES} --leak_episodes=2"),
    (r"^(simulate .*)--scenes 60", r"\1--scenes 20"),
    (r"^bench attention$", "bench attention --no-memory"),
    (r"^(bench attention(?!.*--queries).*)", r"\1 --queries 20 --keys 5000 --repeats 1"),
    (r"^(bench detector .*)", r"\1 --repeats 1"),
    (r"^bench grid .*", "bench grid --batches 1 --queries 1 --keys 128 --types float32 --seconds 0"),
    (r"^(metrics .*)--data world ", r"\1--data build/world "),
    (r"^(import cmt .*)--config cmt_r50 ", r"\1--config cmt_r50.toml "),
    (
        r"^(train .*)--config configs/cmt_r50_bias\.toml (.*)=/data/nuscenes",
        r"\1--config cmt_r50_bias.toml \2=build/world",
    ),
    (
        r"^(eval --checkpoint cmt_r50.* --data )/data/nuscenes --version v1.0-trainval",
        r"\1build/world --version v1.0-simulated",
    ),
    (r"^(simulate --reference-size .*)--scenes 20", r"\1--scenes 2 --val_share=0.5 --test_share=0 --world.frames=1"),
    (r"^(eval (?:--checkpoint cmt_r50|--run runs/cmt_r50_bias).*?)(?: --limit \d+)?$", r"\1 --limit 1"),
    (r"--device cuda", "--device cpu"),  # nowhere here is a GPU
)

# Commands that are not run, each with its reason; one that stands in no document fails the test.
NOT_RUN = {
    "metrics --results results_nusc.json --data /data/nuscenes --version v1.0-trainval --split val": "needs nuScenes itself",
    "inspect --data /data/nuscenes --version v1.0-mini": "needs nuScenes itself",
    "inspect --data /data/nuscenes --version v1.0-mini --image frame.png --frame 12 --points": "needs nuScenes itself",
    "import kitti kitti/training --out data/kitti": "needs KITTI itself; Kitti makes such a folder",
    "train --from": "names an option, without its file",
    "train --resume RUN": "names an option; TrainProgram resumes runs",
}
# Data that not every machine has; the configurations look for it in CAMBER_DATA.
NEEDS_DATA = re.compile(r"configs/fewshot_(letter|omniglot|pacs)\.toml")


class Command(NamedTuple):
    page: str
    arguments: str

    def shortened(self) -> str:
        text = self.arguments
        for pattern, replacement in SHORTER:
            text = re.sub(pattern, replacement, text)
        return text


def blocks_and_prose(text: str) -> Iterator[tuple[bool, str]]:
    """Every line, with whether it stands in a block of code; lines that end in a backslash are joined with the next."""
    fenced = False
    waiting = ""
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
            continue
        code = fenced or line.startswith("    ")
        if code and line.rstrip().endswith("\\"):
            waiting += line.rstrip()[:-1].strip() + " "
            continue
        yield code, waiting + line.strip()
        waiting = ""


def commands_of(page: str, text: str) -> Iterator[Command]:
    prose = []
    for code, line in blocks_and_prose(text):
        if not code:
            prose.append(line)
        elif found := CALL.search(COMMENT.sub("", line)):
            yield Command(page, " ".join(found["arguments"].split()))
    for inline in INLINE.findall(" ".join(prose)):
        if found := CALL.search(inline):
            yield Command(page, " ".join(found["arguments"].split()))


def pages() -> list[pathlib.Path]:
    every = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return sorted(every, key=lambda page: ORDER.index(page.name) if page.name in ORDER else len(ORDER))


def files_of(paths: Iterable[pathlib.Path]) -> dict[str, str]:
    """The files that pages show for their commands, by name."""
    found: dict[str, str] = {}
    for path in paths:
        for block in blocks(path.read_text()):
            if match := FILE.search(block.before):
                before = (ROOT / match[2]).read_text() + "\n" if match[2] else ""
                found[match[1]] = before + block.text
    return found


def documented(paths: Iterable[pathlib.Path]) -> list[Command]:
    """Every command once, where it stands first."""
    found: dict[str, Command] = {}
    for path in paths:
        for command in commands_of(path.name, path.read_text()):
            found.setdefault(command.arguments, command)
    return list(found.values())
