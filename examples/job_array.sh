#!/bin/bash
# Reads LOGDIR with a Slurm job array, N jobs (16 by default), and diagnoses the parts when all of them are done.
#
#   ./job_array.sh LOGDIR OUTDIR [N]
#
# LOGDIR and OUTDIR are on a file system that all nodes see. OUTDIR/parts must hold nothing but parts.
set -euo pipefail

logs=$1
out=$2
count=${3:-16}
mkdir -p "$out/parts"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

array=$(sbatch --parsable --array="0-$((count - 1))" "$here/job_array.sbatch" "$logs" "$out/parts")
sbatch --dependency="afterok:${array%%;*}" "$here/job_array_merge.sbatch" "$out/parts" "$out/report.txt"
