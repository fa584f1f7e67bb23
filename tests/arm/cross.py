#!/usr/bin/env python3
"""A tree of one processor's programs, shown on the other, is that processor's own; its container is refused there.

    tests/arm/cross.py make ROOT BECALM       programs of this machine, and what becalm says of them here
    tests/arm/cross.py compare ROOT BECALM    what becalm says of them on this machine
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

STORE = pathlib.Path(__file__).resolve().parents[1] / "store/make"
PROGRAMS = ["/usr/bin/perl", "/usr/bin/git", "/bin/bash"]
# Directories that are looked into by the processor's features.
BY_FEATURE = {"glibc-hwcaps", "tls", "haswell", "x86_64", "avx512_1", "aarch64", "atomics"}


def tree(root, becalm, program):
    """What is said of a program in a root of its own."""
    shutil.copy(becalm, root / "becalm")
    said = subprocess.run(["chroot", root, "/becalm", "elf", "tree", "--json", "--probes", program],
                          stdout=subprocess.PIPE, check=False)
    return json.loads(said.stdout)


def copy(root, path):
    """A file, with its name's links, into the root."""
    subprocess.run(["cp", "--parents", "-L", "-n", path, root], check=True)


def fill(root, programs):
    """A new root with these programs, and what they load."""
    root.mkdir(parents=True)
    for link in ("bin", "lib", "lib64"):
        if pathlib.Path("/", link).is_symlink():
            (root / link).symlink_to(pathlib.Path("/", link).readlink())
    for directory in ("usr/bin", "usr/lib", "usr/lib64", "etc"):
        (root / directory).mkdir(parents=True)
    for program in programs:
        copy(root, program)
        traced = subprocess.run(["env", "LD_TRACE_LOADED_OBJECTS=1", program], stdout=subprocess.PIPE, text=True, check=True)
        for path in (word for word in traced.stdout.split() if word.startswith("/")):
            copy(root, path)


def contain(directory, becalm):
    """A container of this machine's shell."""
    fill(directory / "contained", ["/bin/sh"])
    sif = directory / "shell.sif"
    with tempfile.TemporaryDirectory() as made:
        # Not on 9p, whose client still takes a file for absent that has got its name by link(2).
        subprocess.run([becalm, "image", "build", "-o", f"{made}/shell.sif", directory / "contained"], capture_output=True, check=True)
        shutil.copy(f"{made}/shell.sif", sif)
    sif.chmod(0o755)
    return sif


def say(becalm, sif):
    """What a container says, how it ends, and what there is to complain about."""
    ran = subprocess.run([becalm, "run", sif, "sh", "-c", "echo here"], capture_output=True, text=True, check=False)
    return ran.stdout, ran.returncode, ran.stderr.splitlines()


def make(root, becalm):
    shutil.rmtree(root, ignore_errors=True)
    made = subprocess.run([STORE, "--libs", "20", "/tmp/cross-store"], stdout=subprocess.PIPE, text=True, check=True)
    programs = [*PROGRAMS, made.stdout.strip()]
    fill(root, programs)
    copy(root, "/etc/ld.so.cache")
    assert say(becalm, contain(root, becalm)) == ("here\n", 0, [])
    shown = {program: tree(root, becalm, program) for program in programs}
    assert all(one["complete"] and not one["another_processor"] for one in shown.values()), shown
    (root / "shown.json").write_text(json.dumps(shown))


def compare(root, becalm):
    for program, own in json.loads((root / "shown.json").read_text()).items():
        other = tree(root, becalm, program)
        assert other["another_processor"], program
        for one in (own, other):
            del one["another_processor"], one["searches"]
            one["probes"] = [probe for probe in one["probes"] if not BY_FEATURE & set(probe["path"].split("/"))]
        assert len(own["probes"]) > 3 and own == other, f"{program}:\n{own}\n{other}"
    said, status, complaints = say(becalm, root / "shell.sif")
    # Where an emulator is registered it is run.
    if not any(pathlib.Path("/proc/sys/fs/binfmt_misc").glob("qemu-*")):
        assert (said, status, len(complaints)) == ("", 126, 1) and "built for" in complaints[0], complaints
    print(f"ok      trees and containers of another processor's programs: {root.name}")


if __name__ == "__main__":
    {"make": make, "compare": compare}[sys.argv[1]](pathlib.Path(sys.argv[2]), sys.argv[3])
