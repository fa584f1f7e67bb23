"""./configure of packages, as it is and under becalm run --builtins: processes, time, what is different."""

import argparse
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

CALLS = "trace=clone,clone3,fork,vfork"
# What differs between two runs without becalm: names of temporary files, the host's up time, and the
# time that a file was made at, in ticks of a faster or slower run.
NOISE = [
    (r"/tmp/cc\w+", "/tmp/cc"),
    (r"conf\w*-\d+|conf\d+subs|conf\w{6}/", "conf"),
    (r"(?m)^.*filesystem_timestamp_resolution.*$|result: 0\.\d$", ""),
    (r"(timestamp resolution\.\.\.) 0\.\d", r"\1"),
    (r"(?m)^.*(BASH_ENV|BECALM_BUILTINS_COUNT|LD_PRELOAD).*$", "BECALM"),
]


def run(words, directory):
    """Runs it in a new directory of always the same name; returns seconds, status."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    begin = time.perf_counter()
    with open(directory / "stdout", "wb") as out, open(directory / "stderr", "wb") as err:
        ended = subprocess.run(words, cwd=directory, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
    return time.perf_counter() - begin, ended.returncode


def processes(words, directory):
    """Processes that are made, as strace counts them."""
    trace = directory.parent / "trace"
    run(["strace", "-f", "-o", trace, "-e", CALLS, *words], directory)
    made = re.compile(r"(?:clone3?|v?fork)(?:\(.*| resumed.*)= \d+$", re.M)
    return len(made.findall(trace.read_text(errors="replace")))


def tree(directory):
    """Every file's type, mode and content, without noise."""
    files = {}
    for path in sorted(directory.rglob("*")):
        about = path.lstat()
        content = b""
        if path.is_symlink():
            content = str(path.readlink()).encode()
        elif path.is_file():
            text = path.read_bytes().decode("latin-1")
            for pattern, by in NOISE:
                text = re.sub(pattern, by, text)
            content = text.encode("latin-1")
        files[str(path.relative_to(directory))] = (about.st_mode, content)
    return files


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--becalm", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--configure", default="", metavar="WORDS", help="options of each configure")
    parser.add_argument("sources", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    becalm = [args.becalm, "run", "--builtins", "--"]
    different = 0
    print(f"{'package':<14} {'processes':>9} {'builtins':>9} {'fewer':>6} {'s':>7} {'builtins':>9} {'faster':>6}  same")
    for source in args.sources:
        configure = [str(source.resolve() / "configure"), *args.configure.split()]
        with tempfile.TemporaryDirectory(prefix="becalm-bench-") as work:
            directory = pathlib.Path(work) / "build"
            kept, times = [], ([], [])
            for number in range(args.rounds):
                for which, words in enumerate([configure, becalm + configure]):
                    seconds, status = run(words, directory)
                    times[which].append(seconds)
                    if number == 0:
                        kept.append((status, tree(directory)))
            before, after = processes(configure, directory), processes(becalm + configure, directory)
        (status, files), (other_status, other_files) = kept
        names = set(files) | set(other_files)
        differ = sorted(name for name in names if files.get(name) != other_files.get(name))
        same = status == other_status and not differ
        different += not same
        plain, calmed = (statistics.median(each) for each in times)
        ratio = statistics.median(a / b for a, b in zip(*times))
        print(f"{source.name:<14} {before:>9} {after:>9} {before / after:>6.2f} {plain:>7.2f} {calmed:>9.2f} "
              f"{ratio:>6.2f}  {'yes' if same else 'no: ' + ' '.join(differ)}", flush=True)
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
