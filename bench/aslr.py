"""Checks that all ranks of a job have one layout, on four nodes, and another in the next job; and
measures what that costs at a start, what a campaign costs beside its kernel, and how long an
analysis of a published campaign's size takes. Prints a Markdown table; fails where a layout is not
what it should be.
"""

import argparse
import json
import os
import pathlib
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

RANKS = 16
PUBLISHED = 38016


def output(command, **options):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, check=False, text=True, **options)
    return done.stdout


def layouts(becalm, environment, directory, options):
    """The distinct layouts of a job's ranks, by becalm lab aslr verify."""
    lines = output(["srun", "-N4", f"-n{RANKS}", becalm, "lab", "aslr", "verify", *options, "--",
                    "/bin/true"], env=environment)
    (directory / "ranks").write_text(lines)
    verdict = json.loads(output([becalm, "lab", "aslr", "verify", "--json", directory / "ranks"]))
    if verdict["ranks"] != RANKS or verdict["unreadable"]:
        sys.exit(f"{verdict['ranks']} of {RANKS} ranks have told, {verdict['unreadable']} cut")
    return [group["layout"] for group in verdict["groups"]]


def on_a_cluster(becalm, cluster, directory):
    """Layouts of two jobs under each means."""
    slurm = directory / "slurm"
    said = output([cluster, "start", "--until", os.getpid(), slurm])
    words = [word.rstrip(";") for word in shlex.split(said)]
    environment = dict(os.environ) | dict(word.split("=", 1) for word in words if "=" in word)
    try:
        means = {"as it is": [], "--aslr off": ["--aslr", "off"], "--aslr job": ["--aslr", "job"]}
        return {name: [layouts(becalm, environment, directory, options) for _ in range(2)]
                for name, options in means.items()}
    finally:
        output([cluster, "stop", slurm])


def start_cost(becalm, directory, starts):
    """Milliseconds that `becalm run --aslr` adds to a start, each right beside a plain one."""
    source, program = directory / "empty.c", directory / "empty"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-O2", source, "-o", program], check=True)
    run = lambda *means: [becalm, "run", *means, "--", program]
    ways = {"--aslr off": run("--aslr", "off"), "--aslr job": run("--aslr", "job", "--seed", "1"),
            "setarch -R": ["setarch", "-R", program]}
    environment = dict(os.environ, SLURM_JOB_ID="1")

    def took(command):
        begun = time.perf_counter()
        subprocess.run([str(word) for word in command], check=True, env=environment)
        return (time.perf_counter() - begun) * 1000

    added = {name: [] for name in ways}
    for _ in range(starts):
        for name in random.sample(list(ways), len(ways)):
            plain, changed = took([program]), took(ways[name])
            added[name].append(changed - plain)
    return {name: statistics.median(all) for name, all in added.items()}


def analysis(becalm, directory):
    """Seconds for two published logs with 38,016 ranks each."""
    for arm, slow in (("on", 3), ("off", 0)):
        lines = []
        for number in range(PUBLISHED):
            took = random.gauss(1, 0.003) * (1.4 if number % (PUBLISHED // 3) < 1 and slow else 1)
            lines.append(f"CT: {number % 192} {took - .001:.6f} {took + .001:.6f} {took:.6f} "
                         f"{.0005:.6f} : node{number // 192}\n")
        (directory / f"{arm}.log").write_text("".join(lines))
    took = []
    for _ in range(9):
        begun = time.perf_counter()
        answer = json.loads(output([becalm, "lab", "aslr", "analyze", "--json", directory / "on.log",
                                    directory / "off.log"], stderr=subprocess.DEVNULL))
        took.append(time.perf_counter() - begun)
    return statistics.median(took), answer["headline"]


def campaign(becalm, directory):
    """Milliseconds that a process of a campaign takes beside those in its kernel's steps."""
    answer = json.loads(output([becalm, "lab", "aslr", "campaign", "-o", directory / "campaign", "--blocks",
                                "100", "--json"], stderr=subprocess.DEVNULL))
    log = (directory / "campaign" / "campaign.jsonl").read_text().splitlines()[1:]
    steps = int(answer["command"][answer["command"].index("--nbStep") + 1])
    inside = statistics.median(json.loads(line)["avg"] * steps for line in log)
    return (answer["seconds"] / answer["processes"] - inside) * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--becalm", type=pathlib.Path, required=True)
    parser.add_argument("--cluster", type=pathlib.Path, required=True)
    parser.add_argument("--starts", type=int, default=300)
    given = parser.parse_args()
    becalm = given.becalm.resolve()
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        os.environ["XDG_STATE_HOME"] = str(directory / "state")
        seen = on_a_cluster(becalm, given.cluster.resolve(), directory)
        added = start_cost(becalm, directory, given.starts)
        beside = campaign(becalm, directory)
        seconds, headline = analysis(becalm, directory)
    print(f"| {RANKS} ranks on 4 nodes | layouts in a job | the next job's are others |")
    print("|---|---|---|")
    for name, (one, other) in seen.items():
        print(f"| {name} | {len(one)} | {'no' if set(one) & set(other) else 'yes'} |")
    print("\n| added to a start | ms |\n|---|---|")
    for name, milliseconds in added.items():
        print(f"| {name} | {milliseconds:.2f} |")
    print(f"| a process of a campaign, beside its steps | {beside:.2f} |")
    print(f"\nAnalysis of {PUBLISHED:,} ranks of each of two arms: {seconds:.2f} s. {headline}")
    one, other = seen["--aslr job"]
    sys.exit(not (len(one) == len(other) == 1 and one != other))


if __name__ == "__main__":
    main()
