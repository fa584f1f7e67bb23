#!/bin/sh
# A Python start on a slow shared filesystem: becalm's image beside the usual cures.
#
#   bench/python.sh [BECALM]
#
# BECALM is the release binary that `make build` makes; without the argument the environment
# variable of that name says which. Needs root, since it also has the kernel mount images. ROUNDS (3)
# may be set. The environment (numpy, scipy, pandas, matplotlib, scikit-learn) is made in the directory
# sci of $BECALM_TEST_HOME, as setup/install-test-tools makes its own there.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
becalm=${1:-${BECALM:?give the path of becalm}}
home=${BECALM_TEST_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/becalm-tests}

for tool in "$becalm" squashfuse_ll mksquashfs fusermount3 tar zstd setpriv /usr/bin/python3; do
    command -v "$tool" > /dev/null || { echo "bench/python.sh: needs $tool" >&2; exit 2; }
done
[ "$(id -u)" = 0 ] || { echo "bench/python.sh: needs root" >&2; exit 2; }
if [ ! -e "$home/sci/bin/python3" ]; then
    /usr/bin/python3 -m venv "$home/sci"
    "$home/sci/bin/python3" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
        numpy scipy pandas matplotlib scikit-learn
fi
exec /usr/bin/python3 "$here/python.py" --becalm "$becalm" --environment "$home/sci" \
    --rounds "${ROUNDS:-3}"
