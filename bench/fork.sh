#!/bin/sh
# An unpack script that starts three programs a file: becalm's cures beside edited scripts.
#
#   bench/fork.sh [BECALM]
#
# BECALM is the release binary that `make build` makes; without the argument the environment
# variable of that name says which. COUNT (1500) files of a list of 71,000 are unpacked in each of
# ROUNDS (3) rounds. Needs bash 5.1 to 5.3 and perl, and no privileges.
# Where SOURCES is a directory with unpacked packages (`apt-get source hello sed grep`), the ./configure of
# each is run, too, with CONFIGURE's options: processes by strace, and whether all files and output are the same.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
becalm=${1:-${BECALM:?give the path of becalm}}

for tool in "$becalm" bash perl python3; do
    command -v "$tool" > /dev/null || { echo "bench/fork.sh: needs $tool" >&2; exit 2; }
done
python3 "$here/fork.py" --becalm "$becalm" --count "${COUNT:-1500}" --rounds "${ROUNDS:-3}"
[ -z "${SOURCES:-}" ] || exec python3 "$here/configure.py" --becalm "$becalm" --rounds "${ROUNDS:-3}" \
    --configure="${CONFIGURE:-}" "$SOURCES"/*/
