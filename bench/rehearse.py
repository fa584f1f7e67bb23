"""Measures what a rehearsed filesystem costs, and how well it keeps to the delay asked for.

Prints Markdown tables: a call's time under each way of slowing a tree down, as the caller sees it
(bench/probe.c: each name is asked for once); what four callers at once see of one server; what the
rehearsal itself costs without any delay; and reading a large file. Ways are measured in rounds of
random order; a cell is the median over the rounds.
"""

import argparse
import contextlib
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import paired

HERE = pathlib.Path(__file__).resolve().parent
ASKED_US = 200
FILE_BYTES = 1 << 30
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def run(*words, **more):
    words = [str(word) for word in words]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: status {done.returncode}: {done.stderr}")
    return done.stdout


def profile(directory, name, service_us):
    path = directory / f"{name}.toml"
    path.write_text(
        f'name = "{name}"\n[mds]\nround_trip = "0"\nservice = "{service_us}us"\n'
        '[cache]\nentries = "forever"\nnegatives = "0"\nopen = "revalidated"\nlist = "revalidated"\n')
    path.chmod(0o644)
    return path


@contextlib.contextmanager
def sshfs(directory, tree):
    """The tree through sshfs and an sshd of our own, without sshfs's caches."""
    port, point = 22300 + os.getpid() % 1000, directory / "sshfs"
    point.mkdir()
    for name in ("host", "user"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name)
    config = directory / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\nPidFile none\n"
        f"AuthorizedKeysFile {directory}/user.pub\nStrictModes no\nUsePAM no\n"
        "PermitRootLogin yes\nSubsystem sftp internal-sftp\n")
    os.makedirs("/run/sshd", exist_ok=True)
    server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", config], stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        run("sshfs", f"127.0.0.1:{tree}", point, "-o",
            f"port={port},IdentityFile={directory}/user,StrictHostKeyChecking=no,"
            "UserKnownHostsFile=/dev/null,dcache_timeout=0,dir_cache=no", stdin=subprocess.DEVNULL)
        try:
            yield point
        finally:
            run("fusermount3", "-u", point)
    finally:
        server.kill()
        server.wait()


def probe(prefix, program, tree, first, count):
    """What a probe under a prefix says: call → (p50, p95) in microseconds."""
    lines = run(*prefix, program, tree, first, count).splitlines()
    return {word[0]: (int(word[1]) / 1000, int(word[2]) / 1000) for word in map(str.split, lines)}


def at_once(prefix, program, tree, count, callers=4):
    """The median time of a stat that each of several callers sees at the same time."""
    words = [str(word) for word in [*prefix, program, tree]]
    each = count // callers
    started = [subprocess.Popen([*words, str(number * each), str(each)], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True) for number in range(callers)]
    lines = [caller.communicate()[0].splitlines()[0].split() for caller in started]
    return [int(line[1]) / 1000 for line in lines]


def rounds_of(ways, rounds, act):
    """What each way's act returned, by round; in each round in a new order."""
    results = {name: [] for name in ways}
    for _ in range(rounds):
        for name in random.sample(list(ways), len(ways)):
            results[name].append(act(ways[name]))
    return results


def median_of(results, call, at):
    return statistics.median(result[call][at] for result in results)


def table(heads, rows):
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def delays(given, ways, program):
    """Ways: name → (prefix, tree)."""
    act = lambda way: probe(*way[:1], program, way[1], 0, given.calls)
    results = rounds_of(ways, given.rounds, act)
    cell = lambda name, call: "/".join(f"{median_of(results[name], call, at):.0f}" for at in (0, 1))
    table([f"{ASKED_US} us asked for, p50/p95 in us", "stat", "stat, not there", "open"],
          [[name, cell(name, "stat"), cell(name, "missing"), cell(name, "open")] for name in ways])


def queue(given, ways, program):
    act = lambda way: at_once(way[0], program, way[1], given.calls)
    results = rounds_of(ways, min(given.rounds, 3), act)
    rows = []
    for name in ways:
        seen = [time for each in results[name] for time in each]
        rows.append([name, f"{min(seen):.0f}–{max(seen):.0f}"])
    table([f"four callers at once, {ASKED_US} us of service: median stat each sees, us", ""], rows)


def overhead(given, ways, program):
    act = lambda way: probe(*way[:1], program, way[1], 0, given.calls)
    results = rounds_of(ways, given.rounds, act)
    plain = results.pop("native")
    rows = [["native"] + [f"{median_of(plain, call, 0):.1f}" for call in ("stat", "missing", "open")]]
    for name, seen in results.items():
        cells = []
        for call in ("stat", "missing", "open"):
            over = statistics.median(mine[call][0] - other[call][0] for mine, other in zip(seen, plain))
            cells.append(f"+{over:.1f}")
        rows.append([name, *cells])
    table(["no delay, median us a call (+: over the native call)", "stat", "stat, not there", "open"], rows)


def reading(given, ways, name):
    def act(way):
        prefix, tree = way
        words = [*prefix, "python3", "-c", READ, tree / name]
        return float(run(*words))
    results = rounds_of(ways, given.rounds, act)
    plain = results["native"]
    rows = []
    for way, seen in results.items():
        share = statistics.median(mine / other for mine, other in zip(seen, plain))
        rows.append([way, f"{statistics.median(seen):.1f}", f"{share * 100:.0f} %"])
    table(["reading a file of 1 GiB, in the page cache", "GB/s", "of native"], rows)


READ = """
import sys, time, os
size, start = 1 << 20, time.perf_counter()
file = os.open(sys.argv[1], os.O_RDONLY)
buffer, total = bytearray(size), 0
while got := os.readv(file, [buffer]):
    total += got
print(total / (time.perf_counter() - start) / 1e9)
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--becalm", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--user", action="store_true", help="as an ordinary user as well")
    return parser.parse_args()


def ways_of(given, profile, tree):
    """becalm's ways to rehearse a profile on a tree: name → (prefix, tree)."""
    becalm = [given.becalm.resolve(), "rehearse", "--profile", profile]
    ways = {"becalm": ([*becalm, tree, "--"], tree)}
    if given.user:
        ways["becalm, as a user"] = ([*NOBODY, *becalm, tree, "--"], tree)
    return ways


def main():
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="becalm-bench-") as directory:
        directory = pathlib.Path(directory)
        directory.chmod(0o755)
        tree, program = directory / "tree", directory / "probe"
        tree.mkdir()
        run("gcc", "-O2", "-Wall", "-o", program, HERE / "probe.c")
        for number in range(given.calls):
            (tree / f"file-{number:06d}").touch()
        with open(tree / "large", "wb") as large:
            for _ in range(FILE_BYTES >> 20):
                large.write(os.urandom(1 << 20))
        slow, none = profile(directory, "slow", ASKED_US), "local"
        inject = ["strace", "-f", "-o", "/dev/null", "-e", "trace=newfstatat,openat",
                  "-e", f"inject=newfstatat,openat:delay_exit={ASKED_US}"]
        by_tracer = [given.becalm.resolve(), "rehearse", "--by", "tracer",
                     "--profile", slow, tree, "--"]
        with sshfs(directory, tree) as remote:
            slow_ways = ways_of(given, slow, tree)
            slow_ways |= {"becalm --by tracer": (by_tracer, tree), "strace --inject": (inject, tree),
                          "sshfs on loopback (no delay added)": ([], remote)}
            delays(given, slow_ways, program)
            queue(given, slow_ways, program)
            plain_ways = {"native": ([], tree)} | ways_of(given, none, tree)
            plain_ways["sshfs on loopback"] = ([], remote)
            overhead(given, plain_ways, program)
            reading(given, plain_ways, "large")
        print(f"Medians of {given.rounds} rounds, {given.calls} calls each, {paired.machine()}.")


if __name__ == "__main__":
    main()
