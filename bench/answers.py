"""Measures `module` commands as the site's own tool answers them, and as becalm gives its answers again.

Prints one Markdown table a tree: for each tool and question the tool's calls and processor time, those of
becalm from memory, alone and where `becalm modules watch` watches the tree, and how many times faster that is;
then what the first time costs, when becalm follows the tool, in processor time and as it passes on the wall.
Another table says what it costs to ask what cannot be remembered. Times are medians, ratios medians of those
within a round. Answers are compared byte for byte on the way. Counts are strace's, of all calls with a
file name or a descriptor. Processor time is that of all processes of a command.
"""

import argparse
import contextlib
import os
import pathlib
import random
import shlex
import shutil
import statistics
import subprocess
import tempfile

import paired
from modules import MAKE, Way, ratio, table

# Files that have just been made are not relied on.
SETTLE = 2.5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--becalm", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--pairs", type=int, default=60, help="of what cannot be remembered")
    parser.add_argument("--large", type=int, default=20000)
    parser.add_argument("--large-rounds", type=int, default=3)
    parser.add_argument("--large-lmod", type=int, default=1000, help="Lmod takes milliseconds for each")
    parser.add_argument("--old", type=pathlib.Path, required=True, help="modulecmd.tcl of 5.2")
    parser.add_argument("--modules", type=pathlib.Path, required=True, help="where newer tools are")
    given = parser.parse_args()
    if min(given.rounds, given.large_rounds, given.pairs) < 2:
        parser.error("--rounds, --large-rounds, --pairs: at least 2: quartiles are shown")
    if 0 < given.large < 10:
        parser.error("--large: 0, or at least 10: the versions of one name")
    return given


class Forgetful(Way):
    """A command whose answers are forgotten before each run."""

    def forget(self):
        shutil.rmtree(self.environment["XDG_STATE_HOME"], ignore_errors=True)

    def run(self, *before):
        self.forget()
        return super().run(*before)


def rounds_of(ways, rounds):
    """The milliseconds of each way by round, in each in a new order: of the processor, and on the wall."""
    processor, wall = ({name: [] for name in ways} for _ in range(2))
    for way in ways.values():
        way.run()
    for _ in range(rounds):
        for name in random.sample(list(ways), len(ways)):
            if isinstance(ways[name], Forgetful):
                ways[name].forget()
            begun, before = paired.time.perf_counter(), paired.processor_time()
            Way.run(ways[name])
            processor[name].append((paired.processor_time() - before) * 1000)
            wall[name].append((paired.time.perf_counter() - begun) * 1000)
    return processor, wall


class Tool:
    def __init__(self, name, script, home, **environment):
        self.name, self.script = name, script.resolve()
        self.environment = {"HOME": home, **environment}
        self.is_lmod = name.startswith("Lmod")

    def ways(self, becalm, tree, state, words, **environment):
        """The tool; becalm for the first time; becalm again."""
        more = {**self.environment, **environment}
        ask = [becalm, "modules", "answer", "--tool", self.script, "bash", *words]
        return (Way([self.script, "bash", *words], tree, **more),
                Forgetful(ask, tree, XDG_STATE_HOME=state / "first", **more),
                Way(ask, tree, XDG_STATE_HOME=state / "again", **more))

    def told(self, answer):
        """An answer without what is otherwise each time: how long Lmod took, in its table of modules."""
        lines = answer[0].splitlines()
        return [line for line in lines if not (self.is_lmod and b"_ModuleTable" in line)], answer[1]

    def loaded(self, tree, words):
        """The variables that a shell has once it has loaded something."""
        script, _ = Way([self.script, "bash", "load", *words], tree, **self.environment).run()
        shell = f"{script.decode()}\nenv -0"
        environment = {"PATH": "/usr/bin:/bin", "MODULEPATH": tree, **self.environment}
        got = subprocess.run(["bash", "--norc", "-c", shell], env={k: str(v) for k, v in environment.items()},
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
        pairs = (entry.split("=", 1) for entry in got.decode().split("\0") if "=" in entry)
        own = {"PATH", "HOME", "_", "SHLVL", "PWD", "OLDPWD", "MODULEPATH"}
        return {name: value for name, value in pairs if name not in own and not name.startswith("BASH_FUNC")}


def with_spider_cache(tool, tree, directory):
    """Lmod with the cache of this tree that a site makes."""
    cache, rc = directory / "spider-cache", directory / "lmodrc.lua"
    cache.mkdir()
    make = tool.script.parent / "update_lmod_system_cache_files"
    Way([make, "-d", cache, "-t", cache / "stamp", tree], tree, **tool.environment).run()
    rc.write_text(f'scDescriptT = {{ {{ ["dir"] = "{cache}", ["timestamp"] = "{cache}/stamp" }} }}\n')
    environment = {name: value for name, value in tool.environment.items() if name != "HOME"}
    return Tool(f"{tool.name}, spider cache", tool.script, tool.environment["HOME"], LMOD_RC=rc, **environment)


@contextlib.contextmanager
def watched(becalm, modulecmd, tree, state):
    """The tree has an index, which some Modules has to be there for, and somebody says that it is true."""
    environment = {"XDG_STATE_HOME": state / "again", "MODULES_CMD": modulecmd}
    Way([becalm, "modules", "index"], tree, **environment).run()
    watch = Way([becalm, "modules", "watch"], tree, **environment)
    process = subprocess.Popen(watch.words, env=watch.environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        paired.time.sleep(SETTLE)
        yield
    finally:
        process.terminate()
        process.wait()


def finely(times, others):
    """As `ratio`, of what is near to one."""
    low, middle, high = statistics.quantiles([mine / other for mine, other in zip(times, others)], n=4,
                                             method="inclusive")
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def calls_of(way):
    return sum(way.calls()[0].values())


def questions(tool, tree, names, home):
    """Name, words and variables of what a user asks all day."""
    loaded = tool.loaded(tree, names)
    Way([tool.script, "bash", "save", "mine"], tree, **{**tool.environment, **loaded}).run()
    if not tool.is_lmod:
        yield "the shell's init", ["autoinit"], {}
    yield f"load of {len(names)}", ["load", *names], {}
    yield "purge", ["purge"], loaded
    yield "restore", ["restore", "mine"], {}
    yield "list", ["list"], loaded
    yield "avail", ["-t", "avail"], {}
    yield "whatis", ["whatis"], {}
    if tool.is_lmod:
        yield "spider", ["spider"], {}


def measure(tools, becalm, modulecmd, tree, names, rounds, state):
    # Row by row: a large tree takes its time.
    table(["", "asked", "calls", "becalm's", "watched", "ms", "becalm's", "times faster", "first time / tool",
           "on the wall", "remembered"], [], end="")
    for tool in tools:
        for question, words, environment in questions(tool, tree, names, tool.environment["HOME"]):
            shutil.rmtree(state, ignore_errors=True)
            paired.time.sleep(SETTLE)
            real, first, again = tool.ways(becalm, tree, state, words, **environment)
            answers = [tool.told(way.run()) for way in (real, first, again, again)]
            if any(answer != answers[0] for answer in answers):
                raise SystemExit(f"{tool.name}, {words}: not the tool's answer")
            why = Way([*again.words[:3], "--why", *again.words[3:]], tree, **{
                name: value for name, value in again.environment.items() if name not in ("PATH", "MODULEPATH")})
            done = subprocess.run(why.words, env=why.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            times, wall = rounds_of({"real": real, "first": first, "again": again}, rounds)
            calls, calls_again = calls_of(real), calls_of(again)
            with watched(becalm, modulecmd, tree, state):
                # The first one is kept while it is watched.
                shutil.rmtree(state / "again/becalm/answers")
                watched_answers = [tool.told(again.run()) for _ in range(3)]
                if any(answer != answers[0] for answer in watched_answers):
                    raise SystemExit(f"{tool.name}, {words}: not the tool's answer, where it is watched")
                calls_watched = calls_of(again)
            middle = lambda name: f"{statistics.median(times[name]):,.1f}"
            row = [tool.name, question, f"{calls:,}", f"{calls_again:,}", f"{calls_watched:,}", middle("real"),
                   middle("again"), ratio(times["real"], times["again"]), finely(times["first"], times["real"]),
                   finely(wall["first"], wall["real"]), "yes" if done.returncode == 0 else done.stdout.decode().strip()[:60]]
            print("| " + " | ".join(row) + " |", flush=True)
    print()


def not_remembered(tools, becalm, directory, pairs):
    """What it costs that becalm is asked first, of a modulefile that reads the clock."""
    rows = []
    for tool in tools:
        tree = directory / f"clock-{tool.is_lmod}"
        tree.mkdir(exist_ok=True)
        (tree / "clock").mkdir(exist_ok=True)
        file, text = ("1.lua", 'setenv("NOW", os.time())') if tool.is_lmod else ("1", "#%Module\nsetenv NOW [clock seconds]")
        (tree / "clock" / file).write_text(text + "\n")
        paired.time.sleep(SETTLE)
        real, _, again = tool.ways(becalm, tree, directory / "state-clock", ["load", "clock"])
        times, wall = rounds_of({"real": real, "asked": again}, pairs)
        middle = lambda name: f"{statistics.median(times[name]):,.2f}"
        rows.append([tool.name, middle("real"), middle("asked"), finely(times["asked"], times["real"]),
                     finely(wall["asked"], wall["real"])])
    table(["load of what reads the clock", "ms", "with becalm", "becalm / tool", "on the wall"], rows)


def main():
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="becalm-answers-") as directory:
        os.chmod(directory, 0o755)
        directory = pathlib.Path(directory)
        homes = [directory / f"home{number}" for number in range(4)]
        [home.mkdir() for home in homes]
        modules = given.modules
        tools = [Tool("Modules 5.2", given.old, homes[0]),
                 Tool("Modules 5.5", modules / "5.5/modulecmd.tcl", homes[1]),
                 Tool("Modules newest", modules / "newest/modulecmd.tcl", homes[2])]
        lmod = modules / "lmod-8.7/lmod"
        if lmod.exists():
            tools.append(Tool("Lmod 8.7", lmod, homes[3], LMOD_CMD=lmod, SHELL="/bin/bash", USER="you"))
        made = lambda *words: subprocess.run([MAKE, *map(str, words)], check=True, text=True,
                                             stdout=subprocess.PIPE).stdout.strip()
        cookbook = made("plain", directory / "cookbook")
        print("## The cookbook's tree\n")
        ten = [f"app{letter}/3.0" for letter in "abcdef"] + [f"lib{letter}/2.0" for letter in "abcd"]
        measure(tools, given.becalm.resolve(), given.old, cookbook, ten, given.rounds, directory / "state")
        for some, count in (([tool for tool in tools if not tool.is_lmod], given.large),
                            ([tool for tool in tools if tool.is_lmod], min(given.large, given.large_lmod))):
            if not some or not count:
                continue
            large = made("scale", count, directory / f"large{count}-{some[0].is_lmod}")
            print(f"## {count:,} modulefiles\n")
            # Ten versions of each name.
            ten = [f"name{number:05}/1.3" for number in range(min(10, count // 10))]
            some = some + [with_spider_cache(tool, large, directory) for tool in some if tool.is_lmod]
            measure(some, given.becalm.resolve(), given.old, large, ten, given.large_rounds, directory / "state")
        print("## Not remembered\n")
        not_remembered(tools, given.becalm.resolve(), directory, given.pairs)
        print(f"Medians of {given.rounds} rounds, of {given.large_rounds} for large trees and of {given.pairs} for "
              f"what is not remembered (quartiles in brackets), {paired.machine()}.")


if __name__ == "__main__":
    main()
