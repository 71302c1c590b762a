"""What nuscenes-devkit does for the same job, as its own command line does it without drawing.

python devkit_run.py metrics FOLDER OUT      load tables and results, evaluate, write the summary
python devkit_run.py tables FOLDER           load the tables
python devkit_run.py arithmetic              name what decides the last digits of numpy here
"""

import json
import sys
import time

from nuscenes import NuScenes


def arithmetic():
    """The kernels of numpy's OpenBLAS, and whether numpy's own functions take AVX-512."""
    from numpy.core._multiarray_umath import __cpu_features__ as features
    from threadpoolctl import threadpool_info

    kernels = [entry["architecture"] for entry in threadpool_info() if "numpy.libs" in entry["filepath"]]
    return "OpenBLAS kernels %s, numpy %s AVX-512" % (" ".join(kernels), "with" if features["AVX512F"] else "without")


def main():
    if sys.argv[1] == "arithmetic":
        print(arithmetic())
        return
    job, folder = sys.argv[1:3]
    start = time.perf_counter()
    nusc = NuScenes(version="v1.0-trainval", dataroot=folder, verbose=False)
    if job == "tables":
        print(
            json.dumps(
                {
                    "samples": len(nusc.sample),
                    "sample_data": len(nusc.sample_data),
                    "annotations": len(nusc.sample_annotation),
                }
            )
        )
        return
    from nuscenes.eval.common.config import config_factory
    from nuscenes.eval.detection.evaluate import DetectionEval

    evaluation = DetectionEval(
        nusc,
        config=config_factory("detection_cvpr_2019"),
        result_path=folder + "/results.json",
        eval_set="val",
        output_dir=sys.argv[3],
        verbose=False,
    )
    evaluation.main(render_curves=False)
    print(json.dumps({"seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
