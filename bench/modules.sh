#!/bin/sh
# `module avail` and `module load` on trees of modulefiles: the usual cures, and becalm's index.
#
#   bench/modules.sh [BECALM]
#
# BECALM is the release binary that `make build` makes; without the argument the environment
# variable of that name says which. ROUNDS (11) and LARGE (20000) may be set. Trees are built in a
# temporary directory: name a directory on another filesystem in TMPDIR to measure that. Modules newer
# than the distribution's is taken from modules/newest in $BECALM_TEST_HOME, where
# setup/modern-modules puts it. Root measures without its right to read everything: as others see.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
becalm=${1:-${BECALM:?give the path of becalm}}
home=${BECALM_TEST_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/becalm-tests}

for tool in "$becalm" strace setpriv /usr/bin/python3 bash /usr/lib/*/modulecmd.tcl; do
    command -v "$tool" > /dev/null || { echo "bench/modules.sh: needs $tool" >&2; exit 2; }
done
[ -e "$home/modules/newest/modulecmd.tcl" ] || "$here/../setup/modern-modules" "$home/modules"
limit=
[ "$(id -u)" != 0 ] || limit="setpriv --bounding-set=-dac_override,-dac_read_search"
exec $limit /usr/bin/python3 "$here/modules.py" --becalm "$becalm" --rounds "${ROUNDS:-11}" \
    --large "${LARGE:-20000}" --old /usr/lib/*/modulecmd.tcl --new "$home/modules/newest"
