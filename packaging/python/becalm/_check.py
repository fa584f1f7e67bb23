"""``becalm.check``: the storms of a command's start."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from ._program import StrPath, failure, option, run_command


@dataclass(frozen=True)
class Wait:
    """What a start waits for a shared filesystem, in seconds."""

    one_rank: float
    all_ranks: float

    @staticmethod
    def of(answer: Optional[Mapping[str, Any]]) -> Optional[Wait]:
        """None where no wait is predicted."""
        return None if answer is None else Wait(answer["one_rank"], answer["all_ranks"])


@dataclass(frozen=True)
class Totals:
    """All of the start, in numbers."""

    metadata_ops: int
    #: Of these, failed lookups (ENOENT, ENOTDIR).
    enoent: int
    #: Distinct paths that they named.
    distinct: int
    processes: int
    #: From the start to the end of the recording, as traced.
    wall_seconds: float


@dataclass(frozen=True)
class Storm:
    """One storm."""

    #: ``loader``, ``python``, ``fork`` …
    name: str
    title: str
    cause: str
    metadata_ops: int
    enoent: int
    wait: Optional[Wait]
    json: Dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Cure:
    """What would calm a storm."""

    storm: str
    text: str
    #: What to paste into a shell; None where it is an edit.
    command: Optional[str]
    #: ``you``, ``owner``, ``root`` or ``author``.
    actor: str
    json: Dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Check:
    """What becalm says of a start. ``json`` has all of it, as docs/schema/becalm.check.md describes."""

    #: ``slow_start``, ``no_storm``, ``calm`` or ``not_known``.
    verdict: str
    headline: str
    totals: Totals
    #: The longest predicted wait first.
    storms: Tuple[Storm, ...]
    cures: Tuple[Cure, ...]
    wait: Optional[Wait]
    warnings: Tuple[str, ...]
    #: The command's exit status; -N if signal N killed it.
    status: int
    #: What the command wrote to standard output.
    output: str = field(repr=False)
    json: Dict[str, Any] = field(repr=False)

    @staticmethod
    def of(answer: Dict[str, Any], status: int, output: str) -> Check:
        """The view over an answer of ``becalm check --json``."""
        totals = answer["totals"]
        return Check(
            verdict=answer["verdict"],
            headline=answer["headline"],
            totals=Totals(
                metadata_ops=totals["metadata_ops"],
                enoent=totals["enoent"],
                distinct=totals["distinct"],
                processes=totals["processes"],
                wall_seconds=totals["wall_ns"] / 1e9,
            ),
            storms=tuple(_storm(storm) for storm in answer["storms"]),
            cures=tuple(_cure(cure) for cure in answer["cures"]),
            wait=Wait.of(answer["predicted_wait"]),
            warnings=tuple(warning["text"] for warning in answer["warnings"]),
            status=status,
            output=output,
            json=answer,
        )


def _storm(answer: Dict[str, Any]) -> Storm:
    return Storm(
        name=answer["storm"],
        title=answer["title"],
        cause=answer["cause"],
        metadata_ops=answer["metadata_ops"],
        enoent=answer["enoent"],
        wait=Wait.of(answer["predicted_wait"]),
        json=answer,
    )


def _cure(answer: Dict[str, Any]) -> Cure:
    return Cure(answer["storm"], answer["text"], answer["command"], answer["actor"], answer)


def check(
    command: Sequence[str],
    *,
    output: Optional[StrPath] = None,
    until: Optional[str] = None,
    profile: Optional[str] = None,
    ranks: Optional[int] = None,
    nodes: Optional[int] = None,
    below: Sequence[StrPath] = (),
    options: Sequence[str] = (),
    cwd: Optional[StrPath] = None,
    env: Optional[Mapping[str, str]] = None,
) -> Check:
    """Run a command, and say which storms of file operations hit its start.

    It reads nothing, and what it writes to standard error is dropped. ``output`` keeps the recording;
    the others are the options of ``becalm check``, and ``options`` are more of them.

    Raises `CommandNotFound`, `CannotExecute`, `UsageError` or another `BecalmError`. That the command
    itself fails is no error: see ``status``.
    """
    words = [
        # cwd is the command's alone.
        *option("--output", output and os.path.abspath(output)),
        *option("--until", until),
        *option("--profile", profile),
        *option("--ranks", ranks),
        *option("--nodes", nodes),
    ]
    for directory in [below] if isinstance(below, (str, os.PathLike)) else below:
        words += option("--below", directory)
    with tempfile.TemporaryDirectory(prefix="becalm-") as directory:
        answer = os.path.join(directory, "answer.json")
        ran = run_command("check", [*words, *options, f"--json={answer}"], command, cwd, env)
        # The status is the command's: what tells that becalm failed is that there is no answer.
        if not os.path.exists(answer):
            raise failure(ran.stderr, ran.returncode)
        with open(answer, encoding="utf-8") as file:
            return Check.of(json.load(file), ran.returncode, ran.stdout.decode(errors="replace"))
