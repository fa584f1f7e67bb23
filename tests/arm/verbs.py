#!/usr/bin/env python3
"""What becalm does for a user on a 64-bit Arm machine: tests/arm/smoke runs this there.

    tests/arm/verbs.py BECALM

Each test is a program's whole way: what is said is compared with strace's, with the programs' own words,
with the bytes before. As root and as an ordinary user.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import traceback

sys.dont_write_bytecode = True
from cross import contain

WORK = pathlib.Path("/tmp/verbs")
BECALM = WORK / "bin/becalm"
TESTS = pathlib.Path(__file__).resolve().parents[1]
USER = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "env", "HOME=/home/user"]


def run(*words, user=False, status=0):
    """What a command says on standard output; its status must be this."""
    command = [*(USER if user else []), *map(str, words)]
    ran = subprocess.run(command, cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == status, f"{command}: {ran.returncode}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def becalm(*words, **how):
    return run(BECALM, *words, **how)


def totals(*command):
    """What check counts of a command, whose own output goes to standard error."""
    return json.loads(becalm("check", "--until", "exit", "--json", "--", *command))["totals"]


def store(name, libraries=40):
    """A program with libraries that are searched over long lists, and what it says."""
    program = run(TESTS / "store/make", "--libs", libraries, WORK / name).strip()
    run("chmod", "-R", "a+rX", WORK / name)
    return program, run(program)


def content(directory):
    files = [file for file in sorted(directory.rglob("*")) if file.is_file() and not file.is_symlink()]
    return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


def differing(before, after):
    return [file for file in before.keys() | after.keys() if before.get(file) != after.get(file)]


def counts_are_straces():
    program, _ = store("counted")
    for command in ([program], ["bash", "-c", "for i in 1 2 3; do dirname /a/$i; done; test -e /nowhere || cat /dev/null"],
                    ["/usr/bin/python3", "-c", "import json"], ["emacs", "--version"], ["git", "--version"],
                    ["perl", "-MPOSIX", "-e", "1"], ["ls", "-lR", "/usr/share/perl5/Debconf", "/usr/share/misc"]):
        # A file for each process: no call is told in two lines.
        shutil.rmtree(WORK / "log", ignore_errors=True)
        (WORK / "log").mkdir()
        subprocess.run(["strace", "-ff", "-qq", "-e", "trace=%file,%process", "-o", WORK / "log/of", *command],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        strace = {}
        for line in (line for log in (WORK / "log").iterdir() for line in log.read_text().splitlines()):
            call = re.match(r"(\w+)\(", line)
            if call and call[1] in ("openat", "newfstatat", "faccessat", "execve", "clone"):
                counted = strace.setdefault(call[1], [0, 0])
                counted[0] += 1
                counted[1] += " = -1 " in line
        for user in (False, True):
            file = WORK / "home" / f"{user}.rec"
            file.unlink(missing_ok=True)
            subprocess.run([*(USER if user else []), BECALM, "record", "--until", "exit", "-o", file, "--", *command], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False)
            rows = json.loads(becalm("report", file, "--by", "syscall", "--json", user=user))["rows"]
            said = {row["key"]: [row["calls"], row["errors"]] for row in rows}
            for call, counted in strace.items():
                assert said.get(call) == counted, f"{command} user {user} {call}: strace {counted}, becalm {said.get(call)}"


def programs_of_32_bits_are_counted_too():
    narrow = "/opt/32-bit/busybox"
    if subprocess.run(["bash", "-c", f"{narrow} true"], stderr=subprocess.DEVNULL, check=False).returncode:
        print("        (this processor runs no programs of 32 bits)")
        return
    for command in ([narrow, "ls", "-l", "/etc/hosts", "/nowhere"], [narrow, "find", "/usr/share/misc"],
                    ["sh", "-c", f"{narrow} cat /etc/hosts /nowhere; {narrow} readlink /bin; exec {narrow} ls -d /bin"]):
        for user, more in ((False, []), (True, []), (False, ["--no-ebpf"]), (False, ["--no-ebpf", "--old-kernel"])):
            log = WORK / "home" / f"narrow{user}"
            traced = subprocess.run([*(USER if user else []), "strace", "-f", "-c", "-e", "trace=%file,%desc,%process", "-o", log,
                                     *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
            of_32_bits = log.read_text().split("32 bit mode:")[1]
            strace = {line.split()[-1]: int(line.split()[3]) for line in of_32_bits.splitlines() if re.match(r"\s*[\d.]+\s", line)}
            # This strace takes the end of an execve, 221 of the 64-bit table, for 221 of the other.
            del strace["total"], strace["fcntl64"]
            assert len(strace) > 2, strace
            file = WORK / "home" / f"narrow{user}.rec"
            file.unlink(missing_ok=True)
            ran = subprocess.run([*(USER if user else []), BECALM, "record", *more, "--until", "exit", "-o", file, "--", *command],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
            assert (ran.returncode, ran.stdout) == (traced.returncode, traced.stdout), f"{command} user {user} {more}"
            rows = json.loads(becalm("report", file, "--by", "syscall", "--json", user=user))["rows"]
            said = {row["key"].removesuffix(" (32 bit)"): row["calls"] for row in rows if "32 bit" in row["key"]}
            said.pop("fcntl64", None)
            assert said == strace, f"{command} user {user} {more}: strace {strace}, becalm {said}"


def a_store_is_explained_bound_and_undone():
    program, says = store("bound")
    before = content(WORK / "bound")
    assert totals(program)["enoent"] > 100
    for words in (["elf", "bind"], ["elf", "bind", "--mode", "farm"], ["elf", "bind", "--mode", "closure"],
                  ["elf", "bind", "--grow"]):
        becalm(*words, WORK / "bound/store")
        assert run(program) == says, words
        assert content(WORK / "bound") != before, words
        assert not re.search("(?i)warning", run("readelf", "-lW", program)), words
        becalm("undo")
        assert differing(before, content(WORK / "bound")) == [], words
    becalm("fix", "--apply", "--", program)
    assert run(program) == says
    assert totals(program)["enoent"] < 10
    becalm("undo")
    assert differing(before, content(WORK / "bound")) == []


def the_tree_is_the_loaders():
    program, _ = store("tree")
    for each in (program, "/usr/bin/emacs", "/usr/bin/git", "/usr/bin/python3"):
        traced = subprocess.run(["env", "LD_TRACE_LOADED_OBJECTS=1", each], stdout=subprocess.PIPE, text=True, check=True)
        loaders = set(re.findall(r"=> (/\S+)", traced.stdout))
        tree = becalm("elf", "tree", "--json", each)
        missing = [path for path in loaders if path not in tree]
        assert loaders and not missing, f"{each}: {missing}"


def an_image_shows_what_was_packed():
    shutil.copytree("/usr/lib/python3.11/json", WORK / "env/json")
    run("chmod", "-R", "a+rX", WORK / "env")
    becalm("image", "build", "-o", WORK / "env.sqsh", WORK / "env")
    shown = sorted(path.name for path in (WORK / "env/json").iterdir())
    (WORK / "env/json/only_outside").touch()
    shows = ["run", "--check", "no", "--image", WORK / "env.sqsh", "--", "ls", WORK / "env/json"]
    becalm("run", "--image", WORK / "env.sqsh", "--", "true", status=125)
    for user in (False, True):
        assert becalm(*shows, user=user).split() == shown, user
    becalm("image", "extract", WORK / "env.sqsh", WORK / "extracted")
    assert run("diff", "-r", WORK / "extracted", WORK / "env", status=1).count("\n") == 1


def a_container_is_run():
    (WORK / "container").mkdir()
    sif = contain(WORK / "container", BECALM)
    assert "arm64" in becalm("image", "inspect", sif)
    for user in (False, True):
        assert becalm("run", sif, "sh", "-c", "echo here", user=user) == "here\n", user
        assert becalm("run", "--image", sif, "--", "sh", "-c", "echo *", user=user) != run("sh", "-c", "cd /; echo *"), user


def a_launch_is_calmed():
    for user in (False, True):
        places = {becalm("run", "--aslr", "off", "--", "sh", "-c", "grep stack /proc/self/maps", user=user) for _ in range(3)}
        assert len(places) == 1, places
        becalm("lab", "aslr", "verify", "--", "true", user=user)
        assert becalm("run", "--hugepages", "--", "echo", "x", user=user) == "x\n"
    (WORK / "dirs.sh").write_text("i=0; while [ $i -lt 50 ]; do dirname /a/b$i/c; basename /x/$i; i=$((i + 1)); done; (exit 3); echo $?\n")
    for shell in ("bash", "dash"):
        assert becalm("run", "--builtins", "--", shell, "dirs.sh") == run(shell, "dirs.sh")
        counted = totals(BECALM, "run", "--builtins", "--", shell, "dirs.sh")
        assert counted["processes"] < 5, (shell, counted)


def slow_filesystems_are_rehearsed_and_gains_proven():
    program, says = store("slow")
    before = time.monotonic()
    assert becalm("rehearse", "--profile", "nfs", WORK / "slow", "--", program).startswith(says)
    assert time.monotonic() - before > 0.3
    becalm("prove", "--runs", "6", "--before", program, "--after", "true", status=1)


def processes_are_watched():
    sleeper = subprocess.Popen(["bash", "-c", "for i in 1 2 3 4 5 6; do sleep 0.5; /bin/true; done"])
    assert "process" in becalm("attach", sleeper.pid)
    sleeper.wait()


def what_is_not_here_is_said():
    said = " ".join(becalm("doctor").split())
    for verb in ("elf pack", "run --pack", "lab fork collapse without root", "lab aslr explain"):
        assert verb in said, said
    refused = subprocess.run([BECALM, "elf", "pack", "/bin/true", "-o", WORK / "x.pack"], capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1, refused


def main():
    (WORK / "bin").mkdir(parents=True)
    (WORK / "home").mkdir(mode=0o777)
    (WORK / "home").chmod(0o777)
    shutil.copy(sys.argv[1], BECALM)
    failed = []
    for test in (counts_are_straces, programs_of_32_bits_are_counted_too, a_store_is_explained_bound_and_undone, the_tree_is_the_loaders,
                 an_image_shows_what_was_packed, a_container_is_run, a_launch_is_calmed, slow_filesystems_are_rehearsed_and_gains_proven,
                 processes_are_watched, what_is_not_here_is_said):
        began = time.monotonic()
        try:
            test()
            print(f"ok      {test.__name__} ({time.monotonic() - began:.0f} s)", flush=True)
        except Exception:
            failed.append(test.__name__)
            print(f"FAILED  {test.__name__}", flush=True)
            traceback.print_exc()
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    os.umask(0o022)
    main()
