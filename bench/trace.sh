#!/bin/sh
# What watching a start costs: becalm beside strace, on five workloads.
#
#   bench/trace.sh [BECALM]
#
# BECALM is the release binary that `make build` makes; without the argument the environment
# variable of that name says which. ROUNDS (15) and PYTHON, an interpreter that can import numpy
# and scipy, may be set in the environment; setup/install-test-tools makes one. `becalm record`
# uses eBPF where it may, as root; with `--no-ebpf` it records as it does for an ordinary user. These two
# watch whole runs; `check`, and `record` without more, let go of the command when its start is over.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
becalm=${1:-${BECALM:?give the path of becalm}}
cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}
python=${PYTHON:-${BECALM_TEST_HOME:-$cache/becalm-tests}/venv/bin/python}
rec=$(mktemp)
trap 'rm -f "$rec"' EXIT

for tool in "$becalm" strace emacs bash find dirname python3; do
    command -v "$tool" > /dev/null || { echo "bench/trace.sh: needs $tool" >&2; exit 2; }
done
modules=numpy,scipy
"$python" -c "import $modules" 2> /dev/null ||
    { echo "bench/trace.sh: $python cannot import $modules; set PYTHON" >&2; exit 2; }
if "$python" -c 'import pandas' 2> /dev/null; then modules=$modules,pandas; fi

# A start of 1 s, and then what it started for: whoever watches only the start costs nothing there.
reads="python3 $here/reads.py"

strace="strace --seccomp-bpf -f -o /dev/null -e trace=%file,%process"
python3 "$here/paired.py" --rounds "${ROUNDS:-15}" \
    --tool 'untraced=' \
    --tool "strace %file,%process=$strace" \
    --tool "strace %file,%desc,%process=$strace,%desc" \
    --tool "becalm record=$becalm record --until exit -o $rec --" \
    --tool "becalm record --no-ebpf=$becalm record --until exit --no-ebpf -o $rec --" \
    --tool "becalm check=$becalm check --" \
    --tool "becalm record, let go of=$becalm record -o $rec --" \
    --versus 'becalm record / strace %file,%process' \
    --versus 'becalm record --no-ebpf / strace %file,%process' \
    --versus 'becalm record --no-ebpf / strace %file,%desc,%process' \
    --work 'emacs --version=emacs --version' \
    --work "import $modules=$python -c 'import $modules'" \
    --work '2000 x dirname=bash -c "for ((i = 0; i < 2000; i++)); do dirname /a/b/\$i; done"' \
    --work 'find /usr/share=find /usr/share' \
    --work "10,000,000 reads after 1 s=$reads"
