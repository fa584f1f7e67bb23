"""Measures what `module avail` and `module load` ask and how long they take, by cure.

Prints Markdown tables: the tree of Modules' cookbook 'Reduce I/O load' in its states, with the
calls by name side by side; times of `avail` there and on a large tree; and `load`. Counts are
strace's, of all calls with a file name or a descriptor, and of those on the tree alone. Times are
medians of rounds in random order, ratios medians of the ratios within a round.
"""

import argparse
import collections
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import paired

MAKE = pathlib.Path(__file__).resolve().parent.parent / "tests/modules/make"
CALL = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--becalm", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--large", type=int, default=20000)
    parser.add_argument("--old", type=pathlib.Path, required=True, help="modulecmd.tcl of 5.2")
    parser.add_argument("--new", type=pathlib.Path, required=True, help="a newer Modules, relocated")
    return parser.parse_args()


class Way:
    """A command in an environment, and the tree that it asks about."""

    def __init__(self, words, tree, **environment):
        self.words = [str(word) for word in words]
        self.tree = tree
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "MODULEPATH": tree,
                            **{name: str(value) for name, value in environment.items()}}

    def run(self, *before):
        done = subprocess.run([*before, *self.words], env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 0:
            sys.exit(f"{self.words}: status {done.returncode}: {done.stderr.decode()[-500:]}")
        return done.stdout, done.stderr

    def calls(self):
        """Calls by name, and how many of them are on the tree."""
        with tempfile.NamedTemporaryFile("r") as log:
            self.run("strace", "-f", "-qq", "-y", "-s", "1", "-e", "trace=%file,%desc",
                     "-e", "signal=none", "-o", log.name)
            lines = [line for line in log if "resumed>" not in line and CALL.match(line)]
        roots = [f"{root}{end}" for root in self.tree.split(":") for end in ('/', '"', ">")]
        on_tree = [line for line in lines if "execve(" not in line and any(r in line for r in roots)]
        return collections.Counter(CALL.match(line)[1] for line in lines), len(on_tree)

    def milliseconds(self):
        begun = time.perf_counter()
        self.run()
        return (time.perf_counter() - begun) * 1000


def rounds_of(ways, rounds):
    """The times of each way, by round; in each round in a new order."""
    times = {name: [] for name in ways}
    for way in ways.values():
        way.run()
    for _ in range(rounds):
        for name in random.sample(list(ways), len(ways)):
            times[name].append(ways[name].milliseconds())
    return times


def ratio(times, others):
    """The median of the rounds' ratios, and the quartiles."""
    ratios = [mine / other for mine, other in zip(times, others)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return f"{middle:,.1f} ({low:,.1f}–{high:,.1f})"


def table(heads, rows, end="\n"):
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(end=end, flush=True)


class Bench:
    def __init__(self, given, directory):
        self.directory = directory
        self.becalm = given.becalm.resolve()
        self.old, self.new = given.old, (given.new / "modulecmd.tcl").resolve()
        self.trees = 0

    def tree(self, *words):
        """A new tree, as tests/modules/make builds it: its modulepath."""
        self.trees += 1
        words = [str(MAKE), *map(str, words), str(self.directory / f"tree{self.trees}")]
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def real(self, command, tree, *words, **environment):
        return Way([command, "bash", *words], tree, **environment)

    def cached(self, *words):
        """A new tree with the stock cache."""
        tree = self.tree(*words)
        self.real(self.new, tree, "cachebuild").run()
        return tree

    def native(self, command, tree, *words, lease=0):
        """becalm, from an index that it has made."""
        more = {"MODULES_CMD": command, "BECALM_MODULES_INDEX": self.directory / f"index{lease}"}
        Way([self.becalm, "modules", "index", "--lease", lease], tree, **more).run()
        native = Way([self.becalm, "modules", *words], tree, **more)
        if native.run() != self.real(command, tree, *words).run():
            sys.exit(f"{words}: not the real command's answer")
        return native

    def cookbook(self):
        """Each state of the cookbook's tree, asked about by each Modules, and by becalm."""
        plain, rc = self.tree("plain"), self.tree("rc")
        evaluated, virtual = self.tree("eval"), self.tree("virtual")
        cached, release = self.cached("plain"), {"5.2": self.old, "new": self.new}
        ways = {}
        for name, command in release.items():
            ways[f"{name}, plain"] = self.real(command, plain, "avail")
            ways[f"{name}, rc"] = self.real(command, rc, "avail")
            ways[f"{name}, mcookie"] = self.real(command, evaluated, "avail", MODULES_MCOOKIE_CHECK="eval")
            ways[f"{name}, virtual"] = self.real(command, virtual, "avail", MODULES_MCOOKIE_CHECK="eval")
        ways["new, cache"] = self.real(self.new, cached, "avail")
        ways["becalm, plain"] = self.native(self.new, plain, "avail")
        ways["becalm, rc"] = self.native(self.new, rc, "avail")
        ways["becalm, plain, lease"] = self.native(self.new, plain, "avail", lease=3600)
        return ways

    def large(self, number):
        """The same of a large tree, `avail -t`."""
        plain, cached = self.tree("scale", number), self.cached("scale", number)
        return {
            "5.2, plain": self.real(self.old, plain, "avail", "-t"),
            "new, plain": self.real(self.new, plain, "avail", "-t"),
            "new, cache": self.real(self.new, cached, "avail", "-t"),
            "becalm": self.native(self.new, plain, "avail", "-t"),
            "becalm, lease": self.native(self.new, plain, "avail", "-t", lease=3600),
        }

    def load(self, number):
        """`load` of one module in a shell with `module`, without and with becalm's hook."""
        plain, cached = self.tree("scale", number), self.cached("scale", number)
        hook = self.directory / "hook"
        hook.write_text(subprocess.run([self.becalm, "modules", "hook", "bash"], check=True, text=True,
                                       stdout=subprocess.PIPE).stdout)
        self.native(self.new, plain, "avail", "-t")
        init = f"eval \"$({self.new} bash autoinit)\"; MODULEPATH=$TREE; module() {{ _module_raw \"$@\"; }}"
        shell = lambda tree, start, load, **more: Way(
            ["bash", "--norc", "-c", f"{init}; {start}\n{load}"], tree, TREE=tree, **more)
        module = "module load name00007/1.3"
        kinds = {
            "plain": (plain, ":", {}),
            "plain, becalm's hook and index": (plain, f". {hook}", {}),
            "stock cache": (cached, ":", {}),
            "stock cache, ignore_cache_subcmds load": (cached, ":", {"MODULES_IGNORE_CACHE_SUBCMDS": "load"}),
        }
        return {name: (shell(tree, start, ":", **more), shell(tree, start, module, **more))
                for name, (tree, start, more) in kinds.items()}


def print_calls(ways):
    counts = {name: way.calls() for name, way in ways.items()}
    names = collections.Counter()
    for calls, _ in counts.values():
        names.update(calls)
    kept = [name for name, _ in names.most_common(8)]
    rows = []
    for name, (calls, on_tree) in counts.items():
        others = sum(calls.values()) - sum(calls[kind] for kind in kept)
        rows.append([name, sum(calls.values()), on_tree, *(calls[kind] for kind in kept), others])
    table(["`avail`", "calls", "on the tree", *kept, "others"], rows)


def print_times(ways, rounds, mine):
    ways = {**ways, "a program that does nothing": Way(["/bin/true"], "")}
    times = rounds_of(ways, rounds)
    rows = [[name, f"{statistics.median(times[name]):,.1f}", ratio(times[name], times[mine])] for name in ways]
    table(["", "ms", f"times {mine}"], rows)


def print_load(pairs, rounds):
    """What `load` adds to the shell that it is run in."""
    flat = {(name, at): pair[at] for name, pair in pairs.items() for at in (0, 1)}
    times = rounds_of(flat, rounds)
    rows = []
    for name, pair in pairs.items():
        (before, tree_before), (after, tree_after) = (way.calls() for way in pair)
        more = [with_load - without for without, with_load in zip(times[name, 0], times[name, 1])]
        rows.append([name, sum(after.values()) - sum(before.values()), tree_after - tree_before,
                     f"{statistics.median(more):,.1f}"])
    table(["`load`", "calls", "on the tree", "ms"], rows)


def main():
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="becalm-modules-") as directory:
        os.chmod(directory, 0o755)
        bench = Bench(given, pathlib.Path(directory))
        print("## The cookbook's tree\n")
        ways = bench.cookbook()
        print_calls(ways)
        print_times(ways, given.rounds, "becalm, plain")
        print(f"## {given.large:,} modulefiles, `avail -t`\n")
        ways = bench.large(given.large)
        print_calls(ways)
        print_times(ways, given.rounds, "becalm")
        print(f"## `load` of one of {given.large:,}\n")
        print_load(bench.load(given.large), given.rounds)
        new = bench.real(bench.new, "", "--version").run()[1].decode().split()[2]
        print(f"new: Modules {new}. Medians of {given.rounds} rounds (quartiles in brackets), {paired.machine()}.")


if __name__ == "__main__":
    main()
