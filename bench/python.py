"""Measures what a Python start asks of a shared filesystem, and how long it waits, by cure.

Prints Markdown tables: the start under each cure on rehearsed filesystems of 0.5 and 5 ms a
question, on a cold node; eight ranks of a node; the same where nothing can be mounted; what
`becalm run --image` adds to a start; the import through FUSE beside squashfuse_ll; and building the
image beside mksquashfs. Ways are measured in rounds of random order; a cell is the median over the
rounds.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import paired

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
SCI = "import numpy, scipy, pandas, matplotlib.pyplot, sklearn"
RANKS = 8
JOBS = 30
# A user namespace in which none can be made and nothing mounted.
NOWHERE = ["unshare", "-U", "-c", "--keep-caps", "sh", "-c",
           "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --ambient-caps=-all "
           '--inh-caps=-all --bounding-set=-all "$@"', "sh"]


def run(*words, **more):
    words = [str(word) for word in words]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(words)}: status {done.returncode}: {done.stderr}")
    return done.stdout


def profile(directory, name, question_us):
    """A filesystem whose server is quick and far away; a node keeps what it is told."""
    path = directory / f"{name}.toml"
    path.write_text(
        f'name = "{name}"\n[mds]\nround_trip = "{question_us - 20}us"\nservice = "20us"\n'
        f'[data]\nround_trip = "{question_us}us"\n'
        '[cache]\nentries = "forever"\nnegatives = "forever"\nopen = "revalidated"\nlist = "cached"\n')
    return path


class Scene:
    """An environment and its images, on what is to be the shared filesystem."""

    def __init__(self, given, directory):
        self.becalm, self.directory, self.share = given.becalm.resolve(), directory, directory / "share"
        self.env, self.python = self.share / "env", self.share / "env/bin/python3"
        self.image, self.tar = self.share / "env.sqsh", self.share / "env.tar.zst"
        self.share.mkdir()
        run("cp", "-a", given.environment, self.env)
        config = self.env / "pyvenv.cfg"
        config.write_text(config.read_text().replace(str(given.environment), str(self.env)))
        run("chmod", "-R", "a+rX", directory)
        cache = directory / "matplotlib"
        cache.mkdir()
        cache.chmod(0o777)
        os.environ["MPLCONFIGDIR"] = str(cache)
        run(self.python, "-c", SCI)
        run(self.becalm, "image", "build", "-o", self.image, self.env, "--", self.python, "-c", SCI)
        run("tar", "-C", self.share, "-I", "zstd -3", "-cf", self.tar, "env")
        self.by_path = self.share / "by-path.sqsh"
        run("mksquashfs", self.env, self.by_path, "-comp", "zstd", "-Xcompression-level", "3",
            "-no-progress")
        self.first = [self.python, "-c", SCI]

    def rehearsed(self, profile, words, user=False):
        """What `becalm rehearse` says of a command on a cold node."""
        told = self.directory / "told.json"
        told.unlink(missing_ok=True)
        told.touch()
        told.chmod(0o666)
        run(*(NOBODY if user else []), self.becalm, "rehearse", "--profile", profile,
            f"--json={told}", self.share, "--", *words)
        told = json.loads(told.read_text())
        reads = [kind["rpcs"] for kind in told["kinds"] if kind["kind"] == "read"]
        return told["rpcs"], sum(reads), told["wall_ns"] / 1e9

    def inside(self, *options):
        return [self.becalm, "run", *options, "--image", self.image, "--", *self.first]

    def script(self, text):
        """A script of sh that knows $env, $image, $by_path, $tar and the command as "$@"."""
        values = f"env={self.env} image={self.image} by_path={self.by_path} tar={self.tar}\n"
        return ["sh", "-ec", values + text, "sh", *self.first]

    def ways(self):
        """Name → (command, whether an ordinary user runs it)."""
        memory = f"/dev/shm/becalm-bench-{os.getpid()}"
        return {
            "plain": (self.first, False),
            "tar.zst to /dev/shm": (self.script(
                f"mkdir {memory}; trap 'rm -r {memory}' EXIT\n"
                f'tar -C {memory} -I zstd -xf $tar; shift; {memory}/env/bin/python3 "$@"'), False),
            "mksquashfs, squashfuse_ll": (self.script(
                'squashfuse_ll $by_path $env; "$@"; umount $env'), False),
            "mksquashfs, kernel": (self.script('mount -o loop,ro $by_path $env; "$@"'), False),
            "becalm's image, squashfuse_ll": (self.script(
                'squashfuse_ll $image $env; "$@"; umount $env'), False),
            "becalm's image, kernel": (self.script('mount -o loop,ro $image $env; "$@"'), False),
            "becalm run, as a user": (self.inside(), True),
            "becalm run, as root, --by fuse": (self.inside("--by", "fuse"), False),
            "becalm run, as root, --by kernel": (self.inside("--by", "kernel"), False),
        }


def rounds_of(ways, rounds, act):
    """What each way's act returned, by round; in each round in a new order."""
    results = {name: [] for name in ways}
    for _ in range(rounds):
        for name in random.sample(list(ways), len(ways)):
            results[name].append(act(ways[name]))
    return results


def median(numbers):
    return statistics.median(numbers)


def table(heads, rows):
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def starts(scene, profiles, rounds):
    ways = scene.ways()
    seen = {ms: rounds_of(ways, rounds, lambda way: scene.rehearsed(path, *way))
            for ms, path in profiles.items()}
    some = next(iter(profiles))
    rows = []
    for name in ways:
        middle = lambda ms, at: median([one[at] for one in seen[ms][name]])
        cells = [name, f"{middle(some, 0):,.0f}", f"{middle(some, 1):,.0f}"]
        for ms in profiles:
            ratios = [plain[2] / one[2] for plain, one in zip(seen[ms]["plain"], seen[ms][name])]
            cells.append(f"{middle(ms, 2):.2f} s ({median(ratios):.1f})")
        rows.append(cells)
    table(["a start on a cold node", "metadata", "reads",
           *[f"{ms} ms a question (times faster)" for ms in profiles]], rows)


def at_once(words):
    one = shlex.join(str(word) for word in words)
    return ["sh", "-c", f"for rank in $(seq {RANKS}); do {one} & done; wait"]


def as_jobs(words):
    """At once, and each a job of its own: with a mount and a holder of its own."""
    one = shlex.join(str(word) for word in words)
    rank = "SLURM_JOB_ID=$job SLURM_STEP_ID=0 SLURM_PROCID=0"
    return ["sh", "-c", f"for job in $(seq {JOBS}); do {rank} {one} & done; wait"]


def staged(scene, profile, rounds):
    """Where nothing can be mounted; one rank after the other, and all at once."""
    image = [*NOWHERE, scene.becalm, "run", "--stage", "--image", scene.image, "--"]
    stays = [*image, "sh", "-ec", f'$rank_env/bin/python3 -c "{SCI}"; touch $0; '
             "while [ -e $0 ]; do sleep 0.02; done", "/dev/shm/becalm-bench-stays"]
    def after_another(words):
        first, later = (shlex.join(str(word) for word in one) for one in (stays, words))
        return ["sh", "-c", f"rank_env={scene.env}; export rank_env; {first} & "
                f"while ! [ -e {stays[-1]} ]; do sleep 0.02; done; {later}; rm {stays[-1]}; wait"]
    first = [*image, *scene.first]
    ways = {
        "plain": (scene.first, True), f"plain, {RANKS} ranks": (at_once(scene.first), True),
        "--stage": (first, True), f"--stage, {RANKS} ranks": (at_once(first), True),
        "--stage, and one after it": (after_another(first), True),
        "mounted": (scene.inside(), True),
        f"mounted, {RANKS} ranks": (at_once(scene.inside()), True),
    }
    counted(ways, profile, rounds, scene, "where nothing can be mounted, 0.5 ms of metadata latency")


def ranks(scene, profile, rounds):
    inside = scene.inside
    true = [*inside()[:-len(scene.first)], "/bin/true"]
    ways = {
        "plain": (scene.first, False), f"plain, {RANKS} ranks": (at_once(scene.first), False),
        "becalm run --check no": (inside("--check", "no"), True),
        f"becalm run --check no, {RANKS} ranks": (at_once(inside("--check", "no")), True),
        "becalm run": (inside(), True),
        f"becalm run, {RANKS} ranks": (at_once(inside()), True),
        f"becalm run, {RANKS} ranks, as root": (at_once(inside()), False),
        f"becalm run --by kernel, {RANKS} ranks, as root": (at_once(inside("--by", "kernel")), False),
        "becalm run -- /bin/true": (true, True),
        f"becalm run -- /bin/true, {JOBS} jobs": (as_jobs(true), True),
    }
    counted(ways, profile, rounds, scene, "on one node, 0.5 ms of metadata latency")


def counted(ways, profile, rounds, scene, head):
    seen = rounds_of(ways, rounds, lambda way: scene.rehearsed(profile, *way))
    rows = [[name, *[f"{median([one[at] for one in seen[name]]):,.{digits}f}"
                     for at, digits in ((0, 0), (1, 0), (2, 2))]] for name in ways]
    table([head, "metadata", "reads", "seconds"], rows)


@contextlib.contextmanager
def held(words):
    """A rank that stays."""
    rank = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    rank.stdout.readline()
    try:
        yield
    finally:
        rank.communicate()


def overhead(scene, rounds):
    """What becalm run adds to /bin/true, on the local disk, warm."""
    start = lambda *words: paired.seconds([str(word) for word in words])
    ways = {"user": (NOBODY, []), "root, kernel": ([], ["--by", "kernel"]), "root, FUSE": ([], ["--by", "fuse"])}
    rows = []
    for name, (who, options) in ways.items():
        line = [*who, scene.becalm, "run", *options, "--image", scene.image, "--"]
        plain, first, later = [], [], []
        for _ in range(rounds):
            plain.append(start(*who, "/bin/true"))
            first.append(start(*line, "/bin/true"))
            with held([*line, "sh", "-c", "echo here; read line || :"]):
                later.append(start(*line, "/bin/true"))
        more = lambda times: f"{median([a - b for a, b in zip(times, plain)]) * 1000:.1f}"
        rows.append([name, f"{median(plain) * 1000:.1f}", more(first), more(later)])
    table(["ms", "/bin/true", "first rank: more", "later rank: more"], rows)


def imports(scene, rounds):
    """The import from a fresh mount, and from one that is warm, on the local disk."""
    once = lambda *words: paired.seconds([str(word) for word in words])

    def squashfuse():
        run("squashfuse_ll", scene.image, scene.env)
        try:
            return once(*scene.first), once(*scene.first)
        finally:
            run("umount", scene.env)

    def becalm(*options):
        line = [scene.becalm, "run", *options, "--image", scene.image, "--"]
        fresh = once(*line, *scene.first)
        with held([*line, "sh", "-c", "echo here; read line || :"]):
            once(*line, *scene.first)
            return fresh, once(*line, *scene.first)

    plain = lambda: (once(*scene.first),) * 2
    ways = {"plain": plain, "squashfuse_ll": squashfuse,
            "becalm run --by fuse": lambda: becalm("--by", "fuse"),
            "becalm run --by kernel": lambda: becalm("--by", "kernel")}
    seen = rounds_of(ways, rounds, lambda way: way())
    rows = []
    for name in ways:
        cells = [name]
        for at in (0, 1):
            against = [mine[at] / other[at]
                       for mine, other in zip(seen[name], seen["squashfuse_ll"])]
            mine = median([one[at] for one in seen[name]])
            cells.append(f"{mine:.2f} s ({median(against):.2f})")
        rows.append(cells)
    table(["import, local disk (of squashfuse_ll's)", "fresh mount", "warm mount"], rows)


def builds(scene, profile, rounds):
    out = scene.directory / "built.sqsh"
    ways = {
        "mksquashfs": ["mksquashfs", scene.env, out, "-comp", "zstd", "-Xcompression-level", "3",
                       "-no-progress", "-noappend"],
        "becalm image build": [scene.becalm, "image", "build", "-o", out, scene.env],
    }
    def both(words):
        took = []
        for act in (lambda: scene.rehearsed(profile, words)[2],
                    lambda: paired.seconds([str(word) for word in words])):
            out.unlink(missing_ok=True)
            took.append(act())
        return took
    seen = rounds_of(ways, rounds, both)
    rows = []
    for name in ways:
        cells = [name]
        for at in (0, 1):
            faster = [other[at] / mine[at] for mine, other in zip(seen[name], seen["mksquashfs"])]
            mine = median([one[at] for one in seen[name]])
            cells.append(f"{mine:.2f} s ({median(faster):.1f})")
        rows.append(cells)
    files = sum(len(names) for _, _, names in os.walk(scene.env))
    table([f"packing {files:,} files (times faster)", "0.5 ms of metadata latency", "local disk"], rows)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--becalm", type=pathlib.Path, required=True)
    parser.add_argument("--environment", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def main():
    given = arguments()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="becalm-bench-"))
    try:
        directory.chmod(0o755)
        profiles = {"0.5": profile(directory, "near", 500), "5": profile(directory, "far", 5000)}
        scene = Scene(given, directory)
        starts(scene, profiles, given.rounds)
        ranks(scene, profiles["0.5"], given.rounds)
        staged(scene, profiles["0.5"], given.rounds)
        overhead(scene, given.rounds * 5)
        imports(scene, given.rounds * 3)
        builds(scene, profiles["0.5"], given.rounds)
        print(f"Medians of {given.rounds} rounds or more, {paired.machine()}.")
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
