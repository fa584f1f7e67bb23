#!/bin/sh
# Every `module` command by the site's own tool, and by `becalm modules answer`: asked for the first
# time, remembered, and what cannot be remembered.
#
#   bench/answers.sh [BECALM]
#
# BECALM is the release binary that `make build` makes; without the argument the environment
# variable of that name says which. ROUNDS (9), PAIRS (60), LARGE (20000, or 0 for none), LARGE_ROUNDS (3)
# and LARGE_LMOD (1000; it is asked with a spider cache, too) may be set. TMPDIR is best where nothing else is
# made meanwhile: directories that have just changed are not relied on. Tools newer than the
# distribution's are taken from the directory modules in $BECALM_TEST_HOME, where setup/modern-modules
# puts them. Root measures without its right to read everything: as others see.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
becalm=${1:-${BECALM:?give the path of becalm}}
home=${BECALM_TEST_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/becalm-tests}

for tool in "$becalm" strace setpriv /usr/bin/python3 /usr/lib/*/modulecmd.tcl; do
    command -v "$tool" > /dev/null || { echo "bench/answers.sh: needs $tool" >&2; exit 2; }
done
"$here/../setup/modern-modules" "$home/modules"
limit=
[ "$(id -u)" != 0 ] || limit="setpriv --bounding-set=-dac_override,-dac_read_search"
exec $limit /usr/bin/python3 "$here/answers.py" --becalm "$becalm" --rounds "${ROUNDS:-9}" \
    --pairs "${PAIRS:-60}" --large "${LARGE:-20000}" --large-rounds "${LARGE_ROUNDS:-3}" \
    --large-lmod "${LARGE_LMOD:-1000}" --old /usr/lib/*/modulecmd.tcl --modules "$home/modules"
