"""Compiles the Triton kernels for GPUs that need not be there, and prints what each of them takes as JSON.

compile_triton_kernels.py   (without TRITON_INTERPRET, which replaces the kernels by functions of Python)
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from camber import _triton_kernels as kernels

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
FLOATS = {"lse_ptr", "total_ptr", "delta_ptr", "output_ptr", "dq_ptr", "slope_ptr", "difference_ptr", "dbias_ptr"}
FLOATS |= {"bias_ptr", "shift_ptr", "dk_ptr", "dv_ptr"}
LONGS = {"offsets_ptr", "ends_ptr", "order_ptr", "row_ptr"}
CONSTANTS = {"WIDTH": 32, "VALUE_WIDTH": 32, "WIDE": 32, "VALUE_WIDE": 32, "BLOCK": kernels.BLOCK}
CONSTANTS |= {"HAS_SHIFT": True, "HAS_OUTPUT": True}


def signature_of(kernel: Any, element: str) -> dict[str, str]:
    """The type of every argument; q, k, v and the output's gradient have the element's."""

    def kind(name: str) -> str:
        if name in CONSTANTS:
            return "constexpr"
        if name in FLOATS:
            return "*fp32"
        if name in LONGS:
            return "*i64"
        if name == "key_ptr":
            return "*i32"
        if name.endswith("_ptr"):
            return f"*{element}"
        return "fp32" if name == "scale" else "i32"

    return {name: kind(name) for name in kernel.arg_names}


def nvidia_registers(cubin: bytes) -> int:
    """What cuobjdump, which comes with triton, says of the only function."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        told = subprocess.run([tool, "-res-usage", file.name], check=True, capture_output=True, text=True).stdout
    return int(re.search(r"REG:(\d+)", told).group(1))


def compiled(kernel: Any, target: GPUTarget, element: str) -> dict[str, int]:
    signature = signature_of(kernel, element)
    constants = {
        (kernel.arg_names.index(name),): value for name, value in CONSTANTS.items() if name in kernel.arg_names
    }
    result = triton.compile(ASTSource(kernel, signature, constants, None), target=target)
    if target.backend == "cuda":
        binary, registers = result.asm["cubin"], nvidia_registers(result.asm["cubin"])
    else:
        binary = result.asm["hsaco"]
        registers = int(re.search(r"\.vgpr_count:\s*(\d+)", result.asm["amdgcn"]).group(1))
    return {"bytes": len(binary), "shared": result.metadata.shared, "registers": registers}


if __name__ == "__main__":
    print(
        json.dumps(
            {
                f"{kernel.fn.__name__} {name} {element}": compiled(kernel, target, element)
                for kernel in (kernels.forward_kernel, kernels.row_kernel, kernels.key_kernel)
                for name, target in TARGETS.items()
                for element in ("fp32", "bf16")
            }
        )
    )
