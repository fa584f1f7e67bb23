#!/usr/bin/env bash
# What becalm can do on older kernels and C libraries: boots each Debian release's own kernel with its own
# programs in an emulated machine, runs doctor and one check there as root and as a user, and prints
# the table of docs/where-it-works.md.
#
#   bench/kernels.sh BECALM [SUITE…]          bullseye bookworm trixie
#
# As root. Debian's packages: debootstrap qemu-system-x86 cpio. Some 700 MB a release in $KERNELS (default:
# ./kernels), which is kept: a second run only boots.
set -euo pipefail

becalm=$(realpath "${1:?which becalm?}")
shift
suites=("${@:-bullseye}")
(($#)) || suites=(bullseye bookworm trixie)
home=$(realpath -m "${KERNELS:-kernels}")
mkdir -p "$home"

root_of() { echo "$home/$1"; }

# The release, its kernel, and what is started: Python.
install_release() {
    [[ ! -e $(root_of "$1")/etc/debian_version ]] || return 0
    debootstrap --variant=minbase --include=python3-minimal,strace,linux-image-amd64,kmod \
        "$1" "$(root_of "$1")" >"$home/$1.log"
}

# What runs as process 1: each answer is a line that begins with its question.
write_init() {
    cat >"$1/init" <<'END'
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/shm; mount -t tmpfs shm /dev/shm; mount -t tmpfs tmp /tmp; chmod 1777 /tmp
modprobe -a fuse squashfs overlay loop; chmod 666 /dev/fuse
as() {
    [ "$1" = root ] && shift && "$@" && return
    shift; setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp "$@"
}
start="python3 -c pass"
echo
for who in root user; do
    echo "ANSWER $who doctor $(as $who /becalm doctor --json | tr -d '\n')"
    echo "ANSWER $who check $(cd /tmp && as $who /becalm check --until exit --json -- $start | tr -d '\n')"
done
# The same calls, counted by another: those that name a file.
echo "ANSWER strace $(strace -f -e trace=%file $start 2>&1 >/dev/null | grep -c '(.*"')"
sync; echo o >/proc/sysrq-trigger; sleep 9
END
    chmod 755 "$1/init"
    install -m 755 "$becalm" "$1/becalm"
}

# All but what a start does not need, as the kernel takes it into memory.
pack() {
    local modules
    modules=$(ls -d lib/modules/*)
    {
        find . -xdev \( -path ./boot -o -path ./var/cache -o -path ./var/lib/apt -o -path ./usr/share/doc \
            -o -path ./usr/share/locale -o -path '*/lib/modules' \) -prune -o -print
        find "$modules" -maxdepth 1 -type f
        find "$modules" -type d
        find "$modules"/kernel/{fs/fuse,fs/squashfs,fs/overlayfs,drivers/block/loop.ko*} -type f
        echo lib/modules
    } | sort -u | cpio --create --format=newc --quiet
}

# The emulator without KVM: nested virtualisation hangs on some hosts.
boot() {
    local root=$1
    (cd "$root" && pack) >"$root.cpio"
    timeout 600 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m 3072 -smp 2 -nographic -no-reboot \
        -kernel "$root"/boot/vmlinuz-* -initrd "$root.cpio" \
        -append 'console=ttyS0 quiet panic=-1 rdinit=/init' </dev/null | tr -d '\r'
    rm -f "$root.cpio"
}

for suite in "${suites[@]}"; do
    install_release "$suite"
    write_init "$(root_of "$suite")"
    boot "$(root_of "$suite")" | grep '^ANSWER' >"$home/$suite.answers"
done

python3 - "$home" "${suites[@]}" <<'END'
import json, sys

home, suites = sys.argv[1], sys.argv[2:]
rows, names = [], {}
for suite in suites:
    told = {}
    for line in open("%s/%s.answers" % (home, suite)):
        who, rest = line[len("ANSWER "):].split(" ", 1)
        if who == "strace":
            told["strace"] = int(rest)
        else:
            what, text = rest.split(" ", 1)
            told[who, what] = json.loads(text)
    rows.append(told)
    names.update((probe["name"], probe["title"]) for probe in told["root", "doctor"]["probes"])

def cell(told, probe):
    answers = [next((it["answer"] for it in told[who, "doctor"]["probes"] if it["name"] == probe), "-")
               for who in ("root", "user")]
    return answers[0] if answers[0] == answers[1] else "%s; user: %s" % tuple(answers)

def table_row(first, cells):
    print("| " + " | ".join([first, *cells]) + " |")

table_row("", ["Linux " + told["root", "doctor"]["kernel"].split("-")[0] for told in rows])
print("|---" * (len(rows) + 1) + "|")
table_row("glibc", [told["root", "doctor"]["glibc"]["version"] for told in rows])
for name, title in names.items():
    table_row(title, [cell(told, name) for told in rows])
for who in ("root", "user"):
    table_row("operations of a start, " + who,
              [str(told[who, "check"]["totals"]["metadata_ops"]) for told in rows])
table_row("strace's calls with a path", [str(told["strace"]) for told in rows])
END
