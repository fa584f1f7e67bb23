"""Measures trees, starts and binding, on a synthetic store and on emacs spread over prefixes.

Prints Markdown tables: how long a tree takes beside other tools, what a start asks under each
cure and how long it waits on slow filesystems, and how long binding takes beside one patchelf a file.
Counts are strace's, waits those of `becalm rehearse`; times are medians of paired ratios, as paired.py
says.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import paired

TESTS = pathlib.Path(__file__).resolve().parent.parent / "tests"
LATENCY_US = 100
PROFILES = ("nfs", "lustre")
# Operations on a path: glibc's fstat is newfstatat with an empty one.
PATHS = re.compile(r'\b(?:open|openat|stat|lstat|newfstatat|access|faccessat2?|readlink|readlinkat|execve)\((?!\d+, "")')


PARTS = ["trees", "store", "emacs", "binding", "site"]


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def calls(command):
    """What strace counts of a start: all calls, and calls and errors by name."""
    with tempfile.NamedTemporaryFile("r") as log:
        subprocess.run(["strace", "-f", "-c", "-U", "calls,errors,name", "-o", log.name, *map(str, command)],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        rows = [line.split() for line in log if re.match(r"\s*\d", line)]
    table = {row[-1]: (int(row[0]), int(row[1]) if len(row) == 3 else 0) for row in rows if row[-1] != "total"}
    return table


def path_operations(command):
    """How many operations of a start name a path."""
    with tempfile.NamedTemporaryFile("r") as log:
        subprocess.run(["strace", "-f", "-e", "trace=file,desc", "-o", log.name, *map(str, command)],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        return sum(1 for line in log if PATHS.search(line))


def waited(becalm, profile, directory, command):
    """Seconds that a start waits for a filesystem of this profile, on a cold node."""
    with tempfile.NamedTemporaryFile("r") as report:
        subprocess.run([becalm, "rehearse", "--profile", profile, f"--json={report.name}", str(directory), "--",
                        *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        return json.load(report)["waited_ns"] / 1e9


def cell(table, *names):
    return "/".join(str(sum(table.get(name, (0, 0))[at] for name in names)) for at in (0, 1))


def is_elf(path):
    return path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF"


def objects(store):
    return sorted(path for path in store.rglob("*") if is_elf(path))


def loaded(program):
    """The libraries that a program loads, by name, in the loader's order."""
    found = (re.match(r"\s*(\S+) => (/\S+) \(", line) for line in run("ldd", program).splitlines())
    return [(each[1], each[2]) for each in found if each]


def needed(file):
    return run("patchelf", "--print-needed", file).split()


def flatten(program, _store):
    """As Shrinkwrap does: the program alone names all, by absolute paths."""
    paths = [path for _, path in loaded(program)]
    for name in needed(program):
        run("patchelf", "--remove-needed", name, program)
    for path in reversed(paths):
        run("patchelf", "--add-needed", path, program)


def farm(program, store):
    """One directory of links, in the program's RPATH alone."""
    directory = store / "farm"
    directory.mkdir()
    for name, path in loaded(program):
        if path.startswith(str(store)):
            (directory / name).symlink_to(path)
    for file in objects(store):
        if file != program:
            run("patchelf", "--remove-rpath", file)
    run("patchelf", "--force-rpath", "--set-rpath", directory, program)


def patchelf_all(program, store):
    """Absolute DT_NEEDED in each file, one patchelf process a file."""
    paths = dict(loaded(program))
    for file in objects(store):
        words = [word for name in needed(file) if name in paths for word in ("--replace-needed", name, paths[name])]
        run("patchelf", *words, file)
        run("patchelf", "--remove-rpath", file)


def spack_bind(program, store):
    """As Spack's `shared_linking: bind: true`: each library's SONAME is its path, which the linker then puts
    into what is linked against it. Here, after the fact, that is a second step. RPATHs stay."""
    paths = dict(loaded(program))
    for file in objects(store):
        if file != program:
            run("patchelf", "--set-soname", file, file)
    for file in objects(store):
        inside = [name for name in needed(file) if paths.get(name, "").startswith(str(store))]
        words = [word for name in inside for word in ("--replace-needed", name, paths[name])]
        if words:
            run("patchelf", *words, file)


def private_cache(program, store):
    """As Guix does: a loader of its own, whose cache lists the closure. Guix's glibc looks for the cache beside
    the program; an unchanged one is told where by its one path, and started by a wrapper."""
    paths = loaded(program)
    interpreter = run("patchelf", "--print-interpreter", program).strip()
    usual = b"/etc/ld.so.cache"
    cache = pathlib.Path(tempfile.mktemp(prefix="", dir="/tmp"))
    cache = cache.with_name(f"{cache.name[:6]}.so.c")
    assert len(str(cache)) <= len(usual)
    content = pathlib.Path(interpreter).read_bytes()
    assert content.count(usual + b"\0") == 1
    loader = store.parent / "ld.so"
    loader.write_bytes(content.replace(usual + b"\0", str(cache).encode().ljust(len(usual) + 1, b"\0")))
    loader.chmod(0o755)
    directories = dict.fromkeys(str(pathlib.Path(path).parent) for _, path in paths)
    listed = store.parent / "ld.so.conf"
    listed.write_text("".join(f"{directory}\n" for directory in directories))
    run("/sbin/ldconfig", "-X", "-f", listed, "-C", cache)
    CACHES.append(cache)
    for file in objects(store):
        run("patchelf", "--remove-rpath", file)
    real = program.with_name(f".{program.name}-real")
    program.rename(real)
    program.write_text(f'#!/bin/sh\nexec {loader} {real} "$@"\n')
    program.chmod(0o755)


# Caches of private loaders: a path of theirs is no longer than the usual one, so they are in /tmp.
CACHES = []


def becalm_mode(becalm, mode):
    def bind(_program, store):
        environment = {**os.environ, "XDG_STATE_HOME": str(store.parent / "state")}
        run(becalm, "elf", "bind", "--mode", mode, store, env=environment)

    return bind


def packed(becalm, *options):
    def pack(program, store):
        file = store.parent / "app.pack"
        run(becalm, "elf", "pack", *(word or store for word in options), program, "-o", file)
        return [becalm, "run", "--pack", file, "--", program]

    return pack


def variants(becalm):
    """What each does to a store; where the program is then started by another command, it returns that."""
    return {
        "untouched": lambda program, store: None,
        "flattened by patchelf (as Shrinkwrap)": flatten,
        "symlink farm by patchelf": farm,
        "absolute names by patchelf": patchelf_all,
        "absolute names and SONAMEs (as Spack's bind)": spack_bind,
        "private ld.so.cache by a wrapper (as Guix)": private_cache,
        "becalm elf bind": becalm_mode(becalm, "needed"),
        "becalm elf bind --mode closure": becalm_mode(becalm, "closure"),
        "becalm elf bind --mode farm": becalm_mode(becalm, "farm"),
        "becalm run --pack": packed(becalm),
        "becalm run --pack, --immutable": packed(becalm, "--immutable", None),
    }


def make_variants(becalm, scratch, label, build):
    """Each variant in a directory of its own, with the same length of path."""
    made = {}
    for number, (name, change) in enumerate(variants(becalm).items()):
        out = scratch / f"{label}{number}"
        program = pathlib.Path(build(out))
        command = change(program, out / "store") or [program]
        made[name] = program, [str(word) for word in command]
    return made


def fails(command, arguments, reference):
    """Why a variant does not do what the untouched program does, if it does not."""
    done = subprocess.run([*command, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        return "does not start: " + " ".join(done.stderr.split())[:120]
    return None if done.stdout == reference else "says something else"


def starts(becalm, made, arguments, rounds):
    """The table of starts."""
    reference = run(made["untouched"][0], *arguments)
    heads = ["variant", "openat", "failed", "stat", "failed", "mmap", "all calls", "path operations",
             *(f"waits on {profile}, cold" for profile in PROFILES), "warm", f"+{LATENCY_US} us a path operation"]
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    broken = {name: why for name, (_, command) in made.items() if (why := fails(command, arguments, reference))}
    works = {name: [*command, *arguments] for name, (_, command) in made.items() if name not in broken}
    times = {name: took for (name, _), took in paired.measure({"": []}, works, rounds)[0].items()}
    paths = {name: path_operations(command) for name, command in works.items()}
    latency = lambda name: [took + paths[name] * LATENCY_US / 1e6 for took in times[name]]
    for name, (program, _) in made.items():
        if name in broken:
            print(f"| {name} | {broken[name]} |" + " |" * (len(heads) - 2))
            continue
        table = calls(works[name])
        opens, stats = (cell(table, *names).split("/") for names in (("openat", "open"), ("newfstatat", "stat")))
        cells = [name, *opens, *stats, cell(table, "mmap").split("/")[0],
                 f"{sum(count for count, _ in table.values()):,}", f"{paths[name]:,}"]
        root = program.parents[3] if "store" in program.parts else program.parent
        cells += [f"{waited(becalm, profile, root, works[name]):.3f} s" for profile in PROFILES]
        cells += [paired.ratio(times["untouched"], times[name]), paired.ratio(latency("untouched"), latency(name))]
        print("| " + " | ".join(cells) + " |")
    print("\nCounts are strace's of the whole start; waits as `becalm rehearse` has them, below the store; times "
          f"how many times faster than untouched, the median of {rounds} paired ratios (quartiles in brackets). "
          f"The last column adds {LATENCY_US} us for each operation on a path to the times that were measured.\n",
          flush=True)


def trees(becalm, works, rounds):
    tools = {
        "becalm elf tree": [becalm, "elf", "tree"],
        "libtree": ["libtree"],
        "libtree -vv": ["libtree", "-vv"],
        # Its library is the distribution's Python's, whichever comes first in PATH.
        "lddtree": ["/usr/bin/python3", shutil.which("lddtree")],
        "ldd": ["ldd"],
    }
    times = {}
    for name, path in works.items():
        commands = {tool: [*words, str(path)] for tool, words in tools.items()}
        for (tool, _), took in paired.measure({"": []}, commands, rounds)[0].items():
            times[name, tool] = took
    first = next(iter(tools))
    print("| tree of | " + " | ".join(f"{tool}: ms, calls" for tool in tools) + " |")
    print("|---" * (len(tools) + 1) + "|")
    for name, path in works.items():
        cells = [name]
        for tool, words in tools.items():
            count = sum(count for count, _ in calls([*words, path]).values())
            mine = times[name, tool]
            ms = f"{sorted(mine)[len(mine) // 2] * 1000:.1f}"
            more = "" if tool == first else f", {paired.ratio(mine, times[name, first])}"
            cells.append(f"{ms}{more}, {count} calls")
        print("| " + " | ".join(cells) + " |")
    print("\nMedian ms of the whole process; behind it, how many times as long as becalm (paired).\n", flush=True)


def many(scratch, count):
    """So many objects: closures of 100, each in a store of its own, as packages of a site are."""
    source = scratch / f"many{count}"
    for number in range(count // 100):
        run(TESTS / "store/make", "--libs", 100, source / f"s{number}")
    return source


def spent(*words, **more):
    """Seconds, processor seconds and most MiB of a command."""
    begun = time.perf_counter()
    started = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, **more)
    _, status, used = os.wait4(started.pid, 0)
    assert status == 0, (words, status)
    return time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def binding(becalm, scratch, rounds, count=1000):
    """1,000 objects: becalm once, patchelf once a file."""
    source = many(scratch, count)
    ratios, mine, other = [], [], []
    # The store's paths are in its files: it is changed in place, and put back.
    backup = scratch / "many.keep"
    shutil.copytree(source, backup, symlinks=True)
    middle = lambda values: sorted(values)[len(values) // 2]
    for number in range(rounds):
        state = {**os.environ, "XDG_STATE_HOME": str(scratch / f"state{number}")}
        mine.append(spent(becalm, "elf", "bind", source, env=state)[:2])
        shutil.rmtree(source)
        shutil.copytree(backup, source, symlinks=True)
        files = objects(source)
        words = {file: [word for name in needed(file) if name.startswith("libpart")
                        for word in ("--replace-needed", name, f"/opt/spack/opt/{name}")] for file in files}
        before = os.times()
        begun = time.perf_counter()
        for file in files:
            subprocess.run(["patchelf", *words[file], str(file)], check=True)
        after = os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        other.append((time.perf_counter() - begun, cpu))
        shutil.rmtree(source)
        shutil.copytree(backup, source, symlinks=True)
        ratios.append([theirs / ours for theirs, ours in zip(other[-1], mine[-1])])
    print(f"| binding {len(files):,} objects | seconds | CPU |\n|---|---|---|")
    row = lambda name, of, show: print(f"| {name} | " + " | ".join(show % middle(column) for column in zip(*of)) + " |")
    row("becalm elf bind, all of it: simulate, edit, verify, journal, fsync", mine, "%.2f")
    row("patchelf --replace-needed, one process a file, no fsync", other, "%.2f")
    row(f"ratio, median of {rounds} rounds", ratios, "%.1f")
    made = sum(count for count, _ in calls([becalm, "elf", "bind", str(source)]).values())
    print(f"\nbecalm makes {made / len(files):.0f} system calls a file.\n", flush=True)


def site(becalm, scratch, count=10000):
    """10,000 objects: binding all, then planning again, and again with one package more."""
    source = many(scratch, count)
    state = {**os.environ, "XDG_STATE_HOME": str(scratch / "state.site")}
    print(f"| {len(objects(source)):,} objects | seconds | CPU | MiB |\n|---|---|---|---|")
    row = lambda name, *words: print("| %s | %.2f | %.2f | %.0f |" % (name, *spent(*words, env=state)), flush=True)
    row("becalm elf bind", becalm, "elf", "bind", source)
    # Its status is 1 where nothing is to be bound.
    plan = ["sh", "-c", '"$0" elf bind --dry-run "$1" || test $? = 1', becalm, source]
    row("a second plan", *plan)
    run(TESTS / "store/make", "--libs", 100, source / "more")
    row("becalm elf bind, with 100 objects more", becalm, "elf", "bind", source)
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--becalm", required=True)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--libs", type=int, default=150)
    parser.add_argument("--only", choices=PARTS, action="append",
                        help="all but site, which builds 10,000 libraries first")
    given = parser.parse_args()
    becalm = str(pathlib.Path(shutil.which(given.becalm)).resolve())
    wanted = collections.Counter(given.only or PARTS[:-1])
    with tempfile.TemporaryDirectory(prefix="becalm-bench-") as scratch:
        scratch = pathlib.Path(scratch)
        emacs = pathlib.Path(shutil.which("emacs")).resolve()
        lisp = next(pathlib.Path("/usr/lib/emacs").glob("*/native-lisp"), None)
        beside = ["--with", lisp] if lisp else []
        make = lambda out: run(TESTS / "store/make", "--libs", given.libs, out).strip()
        spread = lambda out: run(TESTS / "store/spread", *beside, emacs, out).strip()
        if wanted["trees"]:
            trees(becalm, {f"a store of {given.libs}": make(scratch / "tree"), "emacs": emacs}, given.rounds)
        if wanted["store"]:
            print(f"### A store of {given.libs} libraries, an RPATH of its whole closure in each\n")
            starts(becalm, make_variants(becalm, scratch, "store", make), [], given.rounds)
        if wanted["emacs"]:
            print("### emacs --version, each library in a prefix of its own\n")
            starts(becalm, make_variants(becalm, scratch, "emacs", spread), ["--version"], given.rounds)
        if wanted["binding"]:
            binding(becalm, scratch, max(3, given.rounds // 4))
        if wanted["site"]:
            site(becalm, scratch)
        print(paired.machine() + ", on " + filesystem(scratch))
        [cache.unlink() for cache in CACHES]


def filesystem(directory):
    return run("stat", "--file-system", "--format", "%T", directory).strip()


if __name__ == "__main__":
    main()
