#!/usr/bin/env bash
# Submits every open run of a study to Slurm, one job a run, each after those that it needs:
#   camber study list --config configs/study.toml --out runs/study > runs.tsv
#   slurm/study.sh runs.tsv --cpus-per-task 1 --time 4:00:00
# Everything after the list goes to sbatch. A run that is started twice, or is done, does no harm: submit the list again after
# a failure. CAMBER_SUBMIT names another command than sbatch, such as echo.
set -euo pipefail
list=$1
shift
declare -A job
while IFS=$'\t' read -r name needs state command; do
  [ "$state" = open ] || continue
  after=
  [ "$needs" = - ] || for need in ${needs//,/ }; do
    [ -z "${job[$need]:-}" ] || after+=:${job[$need]}
  done
  job[$name]=$("${CAMBER_SUBMIT:-sbatch}" --parsable --job-name "$name" ${after:+--dependency "afterok$after"} "$@" --wrap "$command")
  echo "${job[$name]} $name"
done <"$list"
