#!/bin/sh
# A slow shared filesystem on one machine: becalm's rehearsal beside strace --inject and sshfs.
#
#   bench/rehearse.sh [BECALM]
#
# BECALM is the release binary that `make build` makes; without the argument the environment
# variable of that name says which. ROUNDS (7) and CALLS (2000) may be set in the environment. An
# sshd of its own serves sshfs on the loopback device. As root becalm uses a mount namespace;
# USER_TOO=1 also measures as an ordinary user (nobody), in a user namespace.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
becalm=${1:-${BECALM:?give the path of becalm}}

for tool in "$becalm" strace sshfs fusermount3 ssh-keygen /usr/sbin/sshd gcc python3 setpriv; do
    command -v "$tool" > /dev/null || { echo "bench/rehearse.sh: needs $tool" >&2; exit 2; }
done
exec python3 "$here/rehearse.py" --becalm "$becalm" --rounds "${ROUNDS:-7}" --calls "${CALLS:-2000}" \
    ${USER_TOO:+--user}
