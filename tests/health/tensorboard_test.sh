#!/usr/bin/env bash
# TensorBoard reads what we wrote: a run with findings, and one that was killed in thought and resumed.
#   tensorboard_test.sh MADE_RUN
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$source/scripts/tensorboard_venv")
"$1" "$folder/whole" runaway_scale 400
"$1" "$folder/resumed" no_gradient 400 10 resumed
"$python" "$source/tests/health/tensorboard_check.py" "$folder/whole" "$folder/resumed"
