"""Evaluates by camber.nuscenes whatever agreement.py asks for: one JSON object a line, in and out.

Run by the Python that has torch and the package; nuscenes-devkit lives in an environment of its own.
"""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

from camber import nuscenes


def evaluate(request):
    root = Path(request["root"])
    config = json.loads((root / "config.json").read_text()) if request["config"] else "detection_cvpr_2019"
    summary = nuscenes.evaluate(
        root / "results.json", root, request["version"], request["split"], config=config, threads=request["threads"]
    )
    dataset = SimpleNamespace(dataroot=str(root), version=request["version"])
    again = nuscenes.DetectionEval(
        dataset, config, root / "results.json", request["split"], output_dir=root / "ours", verbose=False
    ).main(render_curves=False)
    for answer in (summary, again):
        del answer["eval_time"]
    assert json.dumps(summary) == json.dumps(again)
    os.replace(root / "ours" / "metrics_details.json", root / "details.json")
    return summary


for line in sys.stdin:
    try:
        answer = {"summary": evaluate(json.loads(line))}
    except (ValueError, RuntimeError, FileNotFoundError) as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
