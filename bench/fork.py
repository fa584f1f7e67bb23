"""Measures an unpack script under becalm's cures, untouched, and beside scripts that were edited.

The script reads a list of 71,000 paths and, for each, asks dirname for the directory, makes it, and
moves a file there, as a published one does. Prints a Markdown table: seconds, how many times
faster, and whether the resulting tree is the same, byte and mode.
"""

import argparse
import hashlib
import os
import pathlib
import random
import shutil
import statistics
import sys
import tempfile

import paired

LISTED = 71_000
A_DIRECTORY = 25  # files

START = """#!/bin/bash
# list, directory of packed files, directory to unpack into, how many
list=$1 packed=$2 into=$3 count=$4
"""

ORIGINAL = START + """
for path in $(< "$list"); do
    (( count-- > 0 )) || break
    directory=$(dirname "$into/$path")
    mkdir -p "$directory"
    mv "$packed/${path##*/}" "$into/$path"
done
"""

FUNCTION = ORIGINAL.replace("\nfor", "\ndirname() { echo \"${1%/*}\"; }\n\nfor", 1)

EXPANSION = ORIGINAL.replace('$(dirname "$into/$path")', '$into/${path%/*}').replace(
    "mkdir -p", '[[ -d $directory ]] || mkdir -p').replace(
    'for path in $(< "$list"); do', 'while read -r path; do').replace("done\n", 'done < "$list"\n')

ONE_MV = START + """
declare -A files
while read -r path; do
    (( count-- > 0 )) || break
    files[${path%/*}]+=" $packed/${path##*/}"
done < "$list"
for directory in "${!files[@]}"; do
    mkdir -p "$into/$directory"
    mv ${files[$directory]} "$into/$directory"
done
"""

PERL = """#!/usr/bin/perl
use File::Path 'make_path';
my ($list, $packed, $into, $count) = @ARGV;
open my $paths, '<', $list or die "$list: $!";
while ($count-- > 0 and defined(my $path = <$paths>)) {
    chomp $path;
    my ($directory, $name) = $path =~ m{(.*)/(.*)};
    make_path("$into/$directory");
    rename "$packed/$name", "$into/$path" or die "$path: $!";
}
"""


def path_of(number):
    directory = number // A_DIRECTORY
    return (f"environment/lib/python3.11/site-packages/package{directory // 40:03d}/"
            f"module{directory % 40:02d}/file{number:05d}.py")


def tree(directory):
    """A digest of all paths, modes and bytes."""
    digest = hashlib.sha256()
    for at, directories, files in os.walk(directory):
        directories.sort()
        for name in sorted(files) + directories:
            path = pathlib.Path(at, name)
            about = path.lstat()
            digest.update(f"{path.relative_to(directory)} {about.st_mode:o}\0".encode())
            if name in files:
                digest.update(path.read_bytes())
    return digest.hexdigest()


class Scene:
    """The list, the scripts, and the packed files, new for each run."""

    def __init__(self, directory, becalm, count):
        self.directory, self.becalm, self.count = directory, becalm, count
        (directory / "list").write_text("".join(path_of(i) + "\n" for i in range(LISTED)))
        scripts = {"original": ORIGINAL, "function": FUNCTION, "expansion": EXPANSION,
                   "one_mv": ONE_MV, "perl": PERL}
        for name, text in scripts.items():
            (directory / name).write_text(text)
            (directory / name).chmod(0o755)

    def ways(self):
        run = lambda *means: [self.becalm, "run", *means, "--", self.directory / "original"]
        return {
            "the script": [self.directory / "original"],
            "run --hugepages": run("--hugepages"),
            "run --builtins": run("--builtins"),
            "run --builtins --hugepages": run("--builtins", "--hugepages"),
            "edited: dirname as a function": [self.directory / "function"],
            "edited: a read loop, expansions, mkdir once": [self.directory / "expansion"],
            "edited: one mv a directory": [self.directory / "one_mv"],
            "rewritten in perl": [self.directory / "perl"],
        }

    def run(self, words):
        """Seconds, and the tree that came of it."""
        packed, into = self.directory / "packed", self.directory / "into"
        for directory in (packed, into):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
        for number in range(self.count):
            file = packed / pathlib.Path(path_of(number)).name
            file.write_text(f"# file {number}\n")
            file.chmod(0o755 if number % 7 == 0 else 0o640)
        words = [*words, self.directory / "list", packed, into, self.count]
        seconds = paired.seconds([str(word) for word in words])
        left = len(os.listdir(packed))
        return seconds, tree(into) if not left else f"{left} files left"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--becalm", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        scene = Scene(pathlib.Path(directory), given.becalm.resolve(), given.count)
        ways = scene.ways()
        seen = {name: [] for name in ways}
        for _ in range(given.rounds):
            for name in random.sample(list(ways), len(ways)):
                seen[name].append(scene.run(ways[name]))
    print(f"| {given.count} of {LISTED:,} paths | seconds | times faster | tree |")
    print("|---|---|---|---|")
    plain, same = seen["the script"], True
    for name, runs in seen.items():
        ratios = [one[0] / other[0] for one, other in zip(plain, runs)]
        same_here = all(one[1] == other[1] for one, other in zip(plain, runs))
        same = same and same_here
        print(f"| {name} | {statistics.median(one[0] for one in runs):.2f} | "
              f"{statistics.median(ratios):.1f} | {'the same' if same_here else 'ANOTHER'} |")
    sys.exit(not same)


if __name__ == "__main__":
    main()
