"""Times commands under several tools, round by round, and compares them pairwise.

In each round every workload runs once under every tool, all in a new random order, so that what
else happens on the machine hits all of them alike. A tool is compared with another within each
round, and the median of those ratios is the answer: it holds on a machine whose speed drifts.
The first tool is what the others are compared with. Prints a Markdown table.
"""

import argparse
import os
import platform
import random
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import time


# Before each run, in seconds: runs of one tool must not pay for the one before. (The kernel makes
# an eBPF program wait some 30 ms where another has just gone.)
PAUSE = 0.06


def named(text):
    """NAME=COMMAND, where the command may be empty."""
    name, _, command = text.partition("=")
    return name, shlex.split(command)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tool", type=named, action="append", required=True,
                        metavar="NAME=PREFIX")
    parser.add_argument("--work", type=named, action="append", required=True,
                        metavar="NAME=COMMAND")
    parser.add_argument("--versus", action="append", default=[], metavar="TOOL / TOOL")
    parser.add_argument("--processor-time", action="store_true",
                        help="print a second table: the least processor time of each")
    return parser.parse_args()


def processor_time():
    """What children that have ended used, with theirs: in seconds, user and system."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(command, times=1):
    """How long a command takes, the mean of so many runs; it must succeed."""
    took = 0
    for _ in range(times):
        time.sleep(PAUSE)
        begun = time.perf_counter()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE)
        if done.returncode != 0:
            sys.exit(f"{shlex.join(command)}: status {done.returncode}: {done.stderr.decode()}")
        took += time.perf_counter() - begun
    return took / times


def warm(tools, works):
    """Fills caches: every tool once, every workload once. Says how often in a row a workload
    is run in a round: one that is over in no time is mostly noise."""
    for tool in tools.values():
        seconds(tool + [shutil.which("true")])
    for work in works.values():
        seconds(work)
    return {name: max(1, int(0.06 / seconds(work))) for name, work in works.items()}


def measure(tools, works, rounds):
    """The times of every (work, tool), by round; and the least processor time of each."""
    pairs = [(work, tool) for work in works for tool in tools]
    times = {pair: [] for pair in pairs}
    least = {}
    in_a_row = warm(tools, works)
    for number in range(rounds):
        random.shuffle(pairs)
        for work, tool in pairs:
            before = processor_time()
            took = seconds(tools[tool] + works[work], in_a_row[work])
            used = (processor_time() - before) / in_a_row[work]
            least[work, tool] = min(used, least.get((work, tool), used))
            times[work, tool].append(took)
        if sys.stderr.isatty():
            print(f"\rround {number + 1} of {rounds}", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return times, least


def ratio(times, others):
    """The median of the rounds' ratios, and the quartiles."""
    ratios = [mine / other for mine, other in zip(times, others)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    load = os.getloadavg()[0]
    return (f"{model}, {len(os.sched_getaffinity(0))} CPUs, Linux {platform.release()}, "
            f"load {load:.1f} at the end")


def main():
    given = arguments()
    tools, works = dict(given.tool), dict(given.work)
    base = next(iter(tools))
    versus = [text.split(" / ") for text in given.versus]
    times, least = measure(tools, works, given.rounds)
    heads = ["", f"{base}, ms", *list(tools)[1:], *given.versus]
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    for work in works:
        plain = times[work, base]
        cells = [work, f"{statistics.median(plain) * 1000:.0f}"]
        cells += [ratio(times[work, tool], plain) for tool in list(tools)[1:]]
        cells += [ratio(times[work, mine], times[work, other]) for mine, other in versus]
        print("| " + " | ".join(cells) + " |")
    if given.processor_time:
        print("\n| least processor time | " + " | ".join(tools) + " |")
        print("|---" * (len(tools) + 1) + "|")
        for work in works:
            cells = [f"{least[work, base] * 1000:.0f} ms"]
            cells += [f"{least[work, tool] / least[work, base]:.2f}" for tool in list(tools)[1:]]
            print(f"| {work} | " + " | ".join(cells) + " |")
    print(f"\nMedians of {given.rounds} paired ratios (quartiles in brackets), {machine()}.")


if __name__ == "__main__":
    main()
