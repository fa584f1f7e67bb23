#!/bin/sh
# The loader storm, and what calms it: becalm beside libtree, lddtree, ldd and patchelf.
#
#   bench/elf.sh [BECALM]
#
# BECALM is the release binary that `make build` makes; without the argument the environment
# variable of that name says which. ROUNDS (11) and LIBS (150) may be set in the environment.
# Builds stores of libraries in a temporary directory: name a directory on another filesystem in TMPDIR
# to measure that.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
becalm=${1:-${BECALM:?give the path of becalm}}

for tool in "$becalm" strace patchelf libtree lddtree ldd gcc emacs python3; do
    command -v "$tool" > /dev/null || { echo "bench/elf.sh: needs $tool" >&2; exit 2; }
done
exec python3 "$here/elf.py" --becalm "$becalm" --rounds "${ROUNDS:-11}" --libs "${LIBS:-150}"
