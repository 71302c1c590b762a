"""Camber: attention with a structured additive bias that is never stored, and a bounded, learnable scale for it.

>>> import torch, camber
>>> q, k, v = (torch.randn(1, 8, n, 32, requires_grad=True) for n in (10, 200, 200))
>>> cells = torch.randint(0, 10, (1, 10, 2, 2))                  # (column, row) of each query on two 10 x 10 maps
>>> scale = camber.BoundedScale()
>>> trust = torch.rand(1, 10, 2)
>>> bias = camber.StructuredBias.from_windows(cells, 5, [(10, 10), (10, 10)], trust * scale())
>>> camber.biased_attention(q, k, v, bias).output.sum().backward()
>>> scale.raw.grad is not None
True
"""

from . import faults, nn, nuscenes
from ._library import DESCRIPTION as _DESCRIPTION
from ._library import find_configurations as _find_configurations
from ._program import run_program
from .attention import (
    AttentionResult,
    AttentionStatistics,
    biased_attention,
    explain_attention,
    merge,
    scaled_dot_product_attention,
    sparse_attention,
)
from .attention_bias import AttentionBias, BiasWindows
from .bounded_scale import SCALE_PRESETS, BoundedScale, BoundsStage
from .detector import Agreement, Detection, Detector, DetectorSession
from .frames import Frame, Objects
from .scale_projection import project_after_step, project_scales
from .sensors import BevGrid, CameraMap
from .sparse_convolution import SparseIndices, build_sparse_indices, sparse_convolution
from .structured_bias import Segments, StructuredBias, Windows, dense_mask
from .table_bias import Table
from .triton_kernels import TritonReport, check_triton_kernels, enable_triton_kernels
from .worlds import report, simulate
from .writing import DatasetWriter, RigSensor, SceneWriter

__version__ = _DESCRIPTION["version"]
configs = _find_configurations()  # the folder of the configurations: `camber train --config` takes a file of it

__all__ = [
    "SCALE_PRESETS",
    "Agreement",
    "AttentionBias",
    "AttentionResult",
    "AttentionStatistics",
    "BevGrid",
    "BiasWindows",
    "BoundedScale",
    "BoundsStage",
    "CameraMap",
    "DatasetWriter",
    "Detection",
    "Detector",
    "DetectorSession",
    "Frame",
    "Objects",
    "RigSensor",
    "SceneWriter",
    "Segments",
    "SparseIndices",
    "StructuredBias",
    "Table",
    "TritonReport",
    "Windows",
    "biased_attention",
    "build_sparse_indices",
    "check_triton_kernels",
    "configs",
    "dense_mask",
    "enable_triton_kernels",
    "explain_attention",
    "faults",
    "merge",
    "nn",
    "nuscenes",
    "project_after_step",
    "project_scales",
    "report",
    "run_program",
    "scaled_dot_product_attention",
    "simulate",
    "sparse_attention",
    "sparse_convolution",
]
