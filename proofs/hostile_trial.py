"""Bad inputs that an earlier version answered badly: accepted in silence, with a crash, a hang or too late."""

from __future__ import annotations

from proofs.hostile_case import REFUSED, Case
from proofs.hostile_changes import (
    clock_at_the_limit,
    clock_backwards,
    cloud_is_device,
    cloud_is_empty,
    cloud_is_fifo,
    cloud_leaves_folder,
    cloud_not_finite,
    empty_scenes,
    leftover_world,
    no_cameras,
    one_camera_never,
    run_with_bad_result,
    run_with_linked_image,
    samples_loop,
    stopped_run,
    sweeps_loop,
    zero_intrinsics,
)

TRAIN = "train --config tiny.toml --out OUT"
PREDICT = "predict --run run --data wx --split test --out px.json"
INSPECT = "inspect --data wx --read"
FEWSHOT = "fewshot --training.episodes=3 --tests.0.episodes=5 --tests.1.episodes=5 --leak_episodes=0"
EVAL = "eval --run run --split test"
STUDY = "study run --config CONFIGS/study_small.toml"


def train(name: str, options: str, says: str) -> Case:
    return Case(f"train: {name}", f"{TRAIN} {options}", REFUSED, says, leaves=("OUT/metrics.jsonl",))


CASES = (
    train("batch 4096", "--data.batch_size=4096", "GB|batch_size"),
    train("tiny cells", "--detector.space.cell=0.02 --detector.space.pillar_cell=0.01", "GB|cell"),
    Case("files of 100 kB at the most", TRAIN, 1, "too large|File too large", file_kilobytes=100),
    *(
        Case(f"sheet of severity {value}", f"inspect --data w --sheet a/s.png --severity {value}", 2, "severity")
        for value in (9, 0, -1, 6, 2147483648, 9223372036854775807)
    ),
    Case("a cloud is a FIFO", PREDICT, 1, "regular file", cloud_is_fifo),
    Case("a cloud links to a device", PREDICT, 1, "regular file|outside|leaves", cloud_is_device),
    Case("a cloud links out of the folder", PREDICT, 1, "outside|leaves", cloud_leaves_folder),
    Case("100,000 glyph classes", f"{FEWSHOT} --source.glyphs.classes=100000", 2, "classes"),
    train("2^63 - 1 steps", "--loop.steps=9223372036854775807", "steps"),
    train("10000 threads", "--threads 10000", "threads"),
    Case("-5 keys", "bench attention --keys -5", 2, "keys must be"),
    Case("an option for a value", "inspect --data w --points --frame 87 --image p.png", 2, "frame"),
    Case("no camera rows", PREDICT, 0, "", no_cameras),
    Case("zero intrinsics, predict", PREDICT, 1, "intrinsic", zero_intrinsics),
    Case("zero intrinsics, eval", "eval --run run --data wx --split test", 1, "intrinsic", zero_intrinsics),
    Case("zero intrinsics, train", "train --config tiny.toml --data.root=wx --data.train_split=test --out o10", 1,
         "intrinsic", zero_intrinsics),
    Case("one camera never delivers", PREDICT, 0, "", one_camera_never),
    Case("nonsense in result.json", "report rx --out r.html", 1, "result.json", run_with_bad_result),
    Case("-1 seeds", f"{STUDY} --seeds -1 --out st1", 2, "seeds"),
    train("learning rate 1e300", "--loop.optimizer.learning_rate=1e300", "learning_rate"),
    train("100,000,000 queries", "--detector.head.num_queries=100000000", "GB|num_queries"),
    train("10^18 threads", "--threads 1000000000000000000", "threads"),
    train("seed 2^63", "--seed 9223372036854775808", "seed"),
    Case("eval into a missing folder", f"{EVAL} --out nowhere/x.json --limit 2", REFUSED, "nowhere"),
    Case("eval onto a folder", f"{EVAL} --out a --limit 2", REFUSED, "regular file"),
    train("evaluation configuration is missing", "--evaluation.config=/nonexistent.json", "nonexistent"),
    train("evaluation configuration is TOML", "--evaluation.config=tiny.toml", "tiny.toml"),
    Case("an empty cloud, inspect", INSPECT, 1, "empty|no point", cloud_is_empty),
    Case("an empty cloud, predict", PREDICT, 0, "", cloud_is_empty),
    Case("points that are not finite, inspect", INSPECT, 1, "finite", cloud_not_finite),
    Case("points that are not finite, predict", PREDICT, 0, "", cloud_not_finite),
    Case("a scene without samples", INSPECT, 1, "scene-empty|no sample", empty_scenes),
    Case("samples in a loop, inspect", INSPECT, 1, "loop|next", samples_loop),
    Case("samples in a loop, predict", PREDICT, 1, "loop|next", samples_loop),
    Case("sweeps in a loop, inspect", INSPECT, 1, "loop|prev", sweeps_loop),
    Case("sweeps in a loop, predict", PREDICT, 1, "loop|prev", sweeps_loop),
    Case("zero intrinsics, inspect", INSPECT, 1, "intrinsic", zero_intrinsics),
    Case("a clock that runs backwards, inspect", INSPECT, 1, "timestamp|backwards|before", clock_backwards),
    Case("a clock that runs backwards, predict", PREDICT, 1, "timestamp|backwards|before", clock_backwards),
    Case("a clock at -2^63", INSPECT, 1, "timestamp", clock_at_the_limit),
    Case("a fault twice", f"{EVAL} --faults black,black --limit 2", 2, "black"),
    Case("all faults in one copy", "faults --data w --out o8 --faults all", 2, "contradict"),
    Case("faults that contradict", "faults --data w --out o8 --faults lidar_off,empty,stale:3", 2, "lidar_off"),
    Case("images of one pixel", f"{FEWSHOT} --source.size=1", 2, "size"),
    Case("few-shot learning rate 1e30", f"{FEWSHOT} --training.optimizer.learning_rate=1e30", 2, "learning_rate"),
    Case("faults without an image", "inspect --data w --faults black", 2, "--faults"),
    Case("frame without an image", "inspect --data w --frame 3", 2, "--frame"),
    Case("points without an image", "inspect --data w --points", 2, "--points"),
    Case("severity without a sheet", "inspect --data w --severity 3", 2, "--severity"),
    Case("a world into leftovers", "simulate --scenes 6 --seed 9 --out k1", 2, "k1", leftover_world),
    Case("a faulted copy into leftovers", "faults --data w --faults noise:3 --out k1", 2, "k1", leftover_world),
    Case("a distance of NaN", "metrics --results ok.json --ground-truth gt.json --distances 0,nan,10", 2, "--distances"),
    Case("curves as .png", "metrics --results ok.json --ground-truth gt.json --curves x.png", 2, "svg"),
    Case("simulate to an empty name", "simulate --scenes 3 --out ''", 2, "--out"),
    Case("eval to an empty name", "eval --run run --limit 2 --out ''", 2, "--out"),
    Case("an image as .txt", "predict --run run --split test --image a/p.txt", 2, "png"),
    Case("an image as .jpg", "predict --run run --split test --image a/p.jpg", 0, "image: a/p.jpg"),
    Case("--resume of a run that still trains", "train --resume other", 1, r"must be free, but process \d+ on .* works there",
         beside="train --config tiny.toml --out other --loop.steps=100000", begun="other/lock"),
    Case("--resume with other threads", "train --resume other --threads 2", 0, "this run began with 1 thread on",
         stopped_run),
    Case("a score of NaN", "predict --run run --split test --image a/p.png --score nan", 2, "--score"),
    Case("a score of 7", "predict --run run --split test --image a/p.png --score 7", 2, "--score"),
    Case("a link to a password file among the images", "report rx --out r.html", 1, "p.png", run_with_linked_image),
    Case("a camera at infinity", "simulate --out o8 --scenes 3 --rig.cameras=[{x=inf}]", 2, "finite|number"),
    Case("sweeps longer than a frame", "simulate --out o8 --scenes 3 --rig.lidar.sweeps=10 "
         "--rig.lidar.sweep_interval=1000 --world.frame_interval=20", 2, "sweep"),
    Case("200 objects within 10 m", "simulate --out o8 --scenes 3 --world.min_objects=200 --world.max_objects=200 "
         "--world.radius=10", 2, "objects"),
    Case("seeds with a printed configuration", f"{STUDY} --seeds=4 --print-config", REFUSED, "seeds"),
    train("a window beyond its map", "--detector.bias.bev_window=1000000001", "bev_window"),
    train("a class twice", '--detector.classes=["car","car"]', "car"),
    train("a class that the world lacks", '--detector.classes=["bus"]', "bus"),
    Case("train: an option twice", f"{TRAIN} --loop.steps=3 --loop.steps=4", 0,
         "loop.steps is given more than once: 4 holds"),
    train("images of 8 pixels", "--detector.encoder.image_width=8 --detector.encoder.image_height=8", "image"),
    Case("an --exclude that matches nothing", "train --from run/model.safetensors --exclude nonsense --out o11", 2,
         "nonsense"),
    Case("--exclude without --from", "train --config tiny.toml --exclude head --out o12", 2, "--exclude"),
    Case("--from with other bounds", "train --from run/model.safetensors --detector.bias.scale.init=1 "
         "--detector.bias.scale.min=0.5 --detector.bias.scale.max=1.5 --loop.steps=2 --out o13", 0, "1.5"),
    Case("--from with another constraint", "train --from run/model.safetensors "
         "--detector.bias.scale.constraint=sigmoid --loop.steps=2 --out o14", 0, "sigmoid"),
    Case("--from in log space", "train --from run/model.safetensors --detector.bias.scale.space=log --loop.steps=2 "
         "--out o15", 0, "log"),
    Case("--from with a fixed scale", "train --from run/model.safetensors --detector.bias.scale.learnable=false "
         "--detector.bias.scale.init=4 --loop.steps=2 --out o16", 0, "learnable|fixed|4"),
    Case("a bias without a router", "train --config tiny.toml --detector.router.mode=off --detector.bias.scale.max=9 "
         "--detector.bias.segments=true --out o17", 0, "has no effect: detector.router.mode is off"),
    Case("neither windows nor segments", "train --config tiny.toml --detector.bias.windows=false "
         "--detector.bias.segments=false --out o18", 2, "windows"),
)  # fmt: skip
