#!/bin/sh
# What watching a start costs: becalm beside strace, on four workloads.
#
#   bench/trace.sh [BECALM]
#
# BECALM is the release binary that `make build` makes; without the argument the environment
# variable of that name says which. ROUNDS (15) and PYTHON, an interpreter that can import numpy
# and scipy, may be set in the environment; setup/install-test-tools makes one. `becalm record`
# uses eBPF where it may, as root; with `--no-ebpf` it records as it does for an ordinary user, and
# with `--metadata-only` what `becalm check` does for everybody.
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

strace="strace --seccomp-bpf -f -o /dev/null -e trace=%file,%process"
python3 "$here/paired.py" --rounds "${ROUNDS:-15}" --processor-time \
    --tool 'untraced=' \
    --tool "strace %file,%process=$strace" \
    --tool "strace %file,%desc,%process=$strace,%desc" \
    --tool "becalm record --metadata-only=$becalm record --metadata-only -o $rec --" \
    --tool "becalm record=$becalm record -o $rec --" \
    --tool "becalm record --no-ebpf=$becalm record --no-ebpf -o $rec --" \
    --versus 'becalm record --metadata-only / strace %file,%process' \
    --versus 'becalm record / strace %file,%process' \
    --versus 'becalm record --no-ebpf / strace %file,%process' \
    --versus 'becalm record --no-ebpf / strace %file,%desc,%process' \
    --work 'emacs --version=emacs --version' \
    --work "import $modules=$python -c 'import $modules'" \
    --work '2000 x dirname=bash -c "for ((i = 0; i < 2000; i++)); do dirname /a/b/\$i; done"' \
    --work 'find /usr/share=find /usr/share'
