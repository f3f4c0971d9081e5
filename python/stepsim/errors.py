"""What goes wrong, as exceptions whose parts can be read."""

from __future__ import annotations

import json
from typing import Any, Optional


class StepsimError(Exception):
    """Something went wrong; ``str(error)`` is the message that the command line shows."""

    def __init__(self, message: str, **parts: Any) -> None:
        super().__init__(message)
        self.message: str = message
        #: The wrong file or argument; empty where none is to blame.
        self.file: str = parts.get("file", "")
        #: JSON path inside it.
        self.path: str = parts.get("path", "")
        #: The offending value.
        self.value: str = parts.get("value", "")
        #: What is allowed there.
        self.allowed: str = parts.get("allowed", "")
        #: What to do.
        self.hint: str = parts.get("hint", "")
        #: For a step that does not fit: the tier, its capacity, what holds it, what was asked for.
        self.out_of_memory: Optional[dict[str, Any]] = parts.get("out_of_memory")

    @property
    def argument(self) -> str:
        """The wrong argument by its name here; empty where a file is to blame."""
        name = self.file.removeprefix("--").split(" ")[0].split("=")[0].split("[")[0].replace("-", "_")
        return ("settings" if name == "set" else name) if name.isidentifier() else ""

    def __reduce__(self) -> Any:
        return (_again, (type(self), self.message, {k: v for k, v in vars(self).items() if k != "message"}))


class InputError(StepsimError, ValueError):
    """A file, a setting or an argument is wrong."""


class OutOfMemoryError(StepsimError, MemoryError):
    """The simulated step does not fit in the memory of its devices."""


class DeadlockError(StepsimError, RuntimeError):
    """Ops remained of which none could start."""


class RunError(StepsimError, RuntimeError):
    """The run failed for another reason: a file that cannot be written, a limit, a defect."""


_BY_STATUS = {"invalid": InputError, "out_of_memory": OutOfMemoryError, "deadlock": DeadlockError}


def of_fault(status: str, fault: str) -> StepsimError:
    """The exception for a fault that the compiled half describes."""
    parts = json.loads(fault)
    return _BY_STATUS.get(status, RunError)(parts.pop("message"), **parts)


def _again(kind: type[StepsimError], message: str, parts: dict[str, Any]) -> StepsimError:
    return kind(message, **parts)
