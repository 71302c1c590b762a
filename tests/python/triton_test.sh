#!/usr/bin/env bash
# The Triton kernels, interpreted and cross-compiled: triton lies beside the torch of the given Python for this test alone.
#   triton_test.sh PYTHON
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$("$source/scripts/triton_venv")
cd "$source/python"
TRITON_INTERPRET=1 TRITON_DEFAULT_FP_FUSION=1 PYTHONPATH="$PYTHONPATH:$folder" "$1" -m pytest tests/test_triton.py
