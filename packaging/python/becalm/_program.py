"""Where the program is, how it is called, and what becomes of its failures."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

StrPath = Union[str, "os.PathLike[str]"]


class BecalmError(RuntimeError):
    """becalm failed. The text is the line that it said; ``status`` is its exit status."""

    def __init__(self, line: str, status: int) -> None:
        super().__init__(line)
        self.status = status


class BecalmWarning(UserWarning):
    """What must be known before the numbers are believed."""


class UsageError(BecalmError):
    """becalm was called in a way that it does not know (status 2)."""


class CannotExecute(BecalmError):
    """The command was found and cannot be executed (status 126)."""


class CommandNotFound(BecalmError):
    """The command, or the interpreter that it names, was not found (status 127)."""


class ProgramMissing(BecalmError):
    """The program becalm is neither where this package's wheel puts it nor in PATH."""


_BY_STATUS = {2: UsageError, 126: CannotExecute, 127: CommandNotFound}


def executable() -> str:
    """The program's path: the one that was installed with this package, else the one in PATH."""
    schemes = [sysconfig.get_path("scripts")]
    if "posix_user" in sysconfig.get_scheme_names():
        schemes.append(sysconfig.get_path("scripts", "posix_user"))
    # pip install --target DIR
    schemes.append(str(Path(__file__).resolve().parent.parent / "bin"))
    for directory in schemes:
        program = os.path.join(directory, "becalm")
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    found = shutil.which("becalm")
    if found is None:
        raise ProgramMissing("the program becalm is not installed", 127)
    return found


def failure(said: bytes, status: int) -> BecalmError:
    """The exception for a status, with the last line that becalm itself said."""
    lines = said.decode(errors="replace").splitlines()
    own = [line for line in lines if line.startswith("becalm: ")]
    line = own[-1][len("becalm: ") :] if own else "\n".join(lines) or f"becalm ended with status {status}"
    return _BY_STATUS.get(status, BecalmError)(line, status)


def run_command(
    verb: str,
    options: Sequence[str],
    command: Sequence[str],
    cwd: Optional[StrPath],
    env: Optional[Mapping[str, str]],
) -> subprocess.CompletedProcess[bytes]:
    """``becalm VERB OPTIONS -- COMMAND``, with nothing to read. Its status is the command's."""
    if isinstance(command, (str, bytes)):
        raise TypeError("a command is a list of words, not one text")
    words = [executable(), verb, *options, "--", *command]
    _needs_children()
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, env=env
    ) as process:
        try:
            out, err = process.communicate()
        except BaseException:
            # A notebook's interrupt reaches Python alone: the command is not left behind.
            process.send_signal(signal.SIGINT)
            process.communicate()
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def _needs_children() -> None:
    """Where SIGCHLD is ignored, the kernel keeps no status, and Python takes each for 0."""
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        raise BecalmError("SIGCHLD is ignored, so no status can be known: signal.signal(SIGCHLD, SIG_DFL)", 1)


def ask(words: Sequence[str]) -> Dict[str, Any]:
    """The JSON object that a verb without a command answers with."""
    _needs_children()
    ran = subprocess.run([executable(), *words], stdin=subprocess.DEVNULL, capture_output=True)
    if ran.returncode != 0:
        raise failure(ran.stderr, ran.returncode)
    answer: Dict[str, Any] = json.loads(ran.stdout)
    return answer


class Reading:
    """A verb's standard output, read while it is written. Whoever stops early ends the verb."""

    def __init__(self, words: Sequence[str]) -> None:
        _needs_children()
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [executable(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._said
        )
        assert self._process.stdout is not None
        self._stopped = False
        self.stream = self._process.stdout

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.stream.close()
        if kind is not None or self._stopped:
            self._process.kill()
        status = self._process.wait()
        self._said.seek(0)
        said = self._said.read()
        self._said.close()
        if kind is None and status != 0 and not self._stopped:
            raise failure(said, status)

    def stop(self) -> None:
        """No more is read."""
        self._stopped = True

    def lines(self) -> Iterator[bytes]:
        """Its lines."""
        yield from self.stream


def option(name: str, value: object) -> List[str]:
    """An option as it is typed; nothing for None and False."""
    if value is None or value is False:
        return []
    return [name] if value is True else [name, str(value)]
