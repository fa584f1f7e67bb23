"""Recordings: made, read as events, reported on, as tables."""

from __future__ import annotations

import json
import os
import warnings
from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping, Optional, Sequence

from ._program import BecalmWarning, Reading, StrPath, ask, failure, option, run_command

if TYPE_CHECKING:
    import pandas
    import pyarrow


#: Of the columns of the table, those that are no text: a column that begins empty tells no type.
_COLUMN_TYPES = {
    "at_ns": "uint64",
    "took_ns": "uint64",
    "process": "int64",
    "pid": "int64",
    "thread": "int64",
    "metadata_op": "bool",
    "result": "int64",
    "fd": "int64",
    "flags": "uint64",
    "in_loader": "bool",
    "by_descriptor": "bool",
    "inferred": "bool",
}
_TEXTS = ("program", "call", "abi", "error", "path", "other_path", "site", "phase", "cause")


class Recording:
    """A recording that ``becalm record`` made."""

    def __init__(self, path: StrPath) -> None:
        self.path = os.fspath(path)

    def __repr__(self) -> str:
        return f"Recording({self.path!r})"

    def events(self, type: Optional[str] = None) -> Iterator[Dict[str, Any]]:
        """Each event as ``becalm export --format jsonl`` has it (docs/schema/becalm.export.md).

        They are read while they are written: a large recording takes no memory. With ``type``, those of
        this type alone: ``call``, ``exec``, ``start``, ``end`` …
        """
        with self._export("jsonl") as reading:
            for line in reading.lines():
                event: Dict[str, Any] = json.loads(line)
                if event["type"] == "header" and event["cut"]:
                    self._warn(event["cut"])
                if type is None or event["type"] == type:
                    yield event

    def report(self, by: str = "cause", below: Optional[StrPath] = None, options: Sequence[str] = ()) -> Dict[str, Any]:
        """``becalm report --by BY --json``: docs/schema/becalm.report.md."""
        words = [*option("--by", by), *option("--below", below), *options]
        return ask(["report", self.path, *words, "--json"])

    def to_arrow(self) -> pyarrow.Table:
        """Its calls as a table, a row each, with the columns of ``becalm export --format csv``."""
        from pyarrow import csv

        # An empty word is no number and no path, and a path "NaN" is a path.
        types = {**_COLUMN_TYPES, **dict.fromkeys(_TEXTS, "string")}
        convert = csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True)
        parse = csv.ParseOptions(newlines_in_values=True)
        with self._export("jsonl") as head:
            cut = json.loads(next(head.lines()))["cut"]
            head.stop()
        if cut:
            self._warn(cut)
        with self._export("csv") as reading:
            return csv.read_csv(reading.stream, parse_options=parse, convert_options=convert)

    def to_pandas(self) -> pandas.DataFrame:
        """The same for pandas."""
        return self.to_arrow().to_pandas()

    def _warn(self, why: str) -> None:
        warnings.warn(f"{self.path} is cut ({why}): there is more than it shows", BecalmWarning, stacklevel=3)

    def _export(self, format: str) -> Reading:
        return Reading(["export", self.path, "--format", format])


def record(
    command: Sequence[str],
    output: StrPath,
    *,
    until: Optional[str] = None,
    metadata_only: bool = False,
    options: Sequence[str] = (),
    cwd: Optional[StrPath] = None,
    env: Optional[Mapping[str, str]] = None,
) -> Recording:
    """Run a command, and keep what it does in the file ``output``: as `becalm.check`."""
    output = os.path.abspath(output)
    words = [
        *option("--output", output),
        *option("--until", until),
        *option("--metadata-only", metadata_only),
        *options,
    ]
    ran = run_command("record", [*words, "--json"], command, cwd, env)
    # The status is the command's: what tells that becalm failed is that it says nothing of a recording.
    # What the command said last need not end with a line feed.
    if b'{"schema":"becalm.record/' not in ran.stderr:
        raise failure(ran.stderr, ran.returncode)
    return Recording(output)
