"""See, explain, calm and prove what a command's start costs.

A thin layer over the program ``becalm``, which the wheel installs: it is called, and answers in JSON.
"""

from ._check import Check, Cure, Storm, Totals, Wait, check
from ._program import BecalmError, BecalmWarning, CannotExecute, CommandNotFound, ProgramMissing, UsageError, executable
from ._recording import Recording, record

__all__ = [
    "BecalmError",
    "BecalmWarning",
    "CannotExecute",
    "Check",
    "CommandNotFound",
    "Cure",
    "ProgramMissing",
    "Recording",
    "Storm",
    "Totals",
    "UsageError",
    "Wait",
    "check",
    "executable",
    "record",
]

# Messages name them as they are imported.
for _name in __all__:
    globals()[_name].__module__ = __name__
