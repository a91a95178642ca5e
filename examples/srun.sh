#!/bin/bash
# Reads LOGDIR with one process a task inside an allocation, then diagnoses the merged parts.
#
#   salloc --nodes=4 --ntasks=32 ./srun.sh LOGDIR OUTDIR
#
# LOGDIR and OUTDIR are on a file system that all nodes see. OUTDIR/parts must hold nothing but parts.
set -euo pipefail

logs=$1
parts=$2/parts
mkdir -p "$parts"

# Every task takes the share with its own number.
# shellcheck disable=SC2016  # expanded in the task
srun --kill-on-bad-exit=1 bash -c '
    correlator ingest "$1" --workers 1 --shard "$SLURM_PROCID/$SLURM_NTASKS" -o "$2/part-$SLURM_PROCID.parquet"
' task "$logs" "$parts"

correlator diagnose "$parts"
