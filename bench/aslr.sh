#!/bin/sh
# Layouts of a job, and the analysis of a published campaign's size.
#
#   bench/aslr.sh [BECALM]
#
# BECALM is the release binary that `make build` makes; without the argument the environment
# variable of that name says which. Starts the four nodes of setup/slurm-cluster in a directory of its
# own, and stops them. Needs Slurm's and munge's packages, cc, and no privileges. STARTS (300) may
# be set.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
becalm=${1:-${BECALM:?give the path of becalm}}

for tool in "$becalm" srun slurmctld munged cc python3; do
    PATH=$PATH:/usr/sbin command -v "$tool" > /dev/null ||
        { echo "bench/aslr.sh: needs $tool" >&2; exit 2; }
done
exec python3 "$here/aslr.py" --becalm "$becalm" --cluster "$here/../setup/slurm-cluster" \
    --starts "${STARTS:-300}"
