"""What the program carries, and what it makes of the files of others."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from html import escape
from typing import Any, Iterable, List, Mapping, Optional, Union

from . import _command, _native
from ._arguments import Settings, Source


def list(kind: str = "workloads") -> List[str]:
    """Names of what is shipped: ``workloads``, ``topologies``, ``devices``, ``models``, ``stacks``, ``recipes``, ``collectives``,
    ``rules``, ``reliability`` or ``schedules``."""
    return _native.answer(["list", "--names", "--", str(kind)]).split()


def show(name: Source, *, kind: Optional[str] = None, resolved: bool = True, settings: Settings = None) -> dict[str, Any]:
    """A workload, machine, device, model or stack as a dictionary that may be changed, and given to :func:`run`.

    ``resolved`` puts its base, the files that it refers to, defaults and ``settings`` in place; without, it is the shipped file
    as it stands. ``kind`` says what is meant where several have the name (``workload``, ``topology``, ``model``, ``device``, ...).
    """
    shown = {"name": name, "kind": kind, "resolved": resolved, "settings": settings}
    return dict(_command.answer("show", shown, document=""))


def schema(of: str) -> dict[str, Any]:
    """The JSON Schema of a kind of file: ``workload``, ``topology``, ``device``, ``model``, ``report`` and others."""
    return dict(json.loads(_native.answer(["schema", "--", str(of)])))


def import_(
    files: "Union[_command.Document, Iterable[_command.Document]]", *, kind: Optional[str] = None, **more: Any
) -> dict[str, Any]:
    """Files of other tools as a workload, a model or a table of collectives, as a dictionary.

    What the files are is told by their content, or by ``kind`` (``hf``, ``megatron``, ``nemo``, ``torchtitan``, ``deepspeed``,
    ``nanotron``, ``maxtext``, ``nccl-tests``, ``nvidia-smi``); ``more`` are the options of
    ``stepsim import KIND``: ``model``, ``devices``, ``topology``, ``settings`` and others.
    """
    several = not isinstance(files, (str, os.PathLike, Mapping))
    if kind is None:
        return dict(_command.answer("import", {"files": files, **more}, "--output=-"))
    positional = next(name for name, of in _command.arguments(f"import {kind}").items() if of["option"] is None)
    if several and positional in ("file", "config"):
        (files,) = files  # type: ignore[misc, str-unpack]
    return dict(_command.answer(f"import {kind}", {positional: files, **more}, "--output=-"))


class Plan(dict[str, Any]):
    """A workload on its machine, for :func:`run`.

    ``answer`` is the step with its range, what it hangs on and what is doubted, as :attr:`Report.answer` of the same step;
    ``text`` says that in words, and where each part of the workload comes from.
    """

    text: str = ""
    answer: dict[str, Any] = {}

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"


def plan(
    *words: "_command.Document",
    on: Optional[Source] = None,
    batch: Optional[int] = None,
    sequence: Optional[int] = None,
    stack: Optional[str] = None,
    settings: Settings = None,
    search: bool = False,
) -> Plan:
    """How long a step takes, of a model, a script or a recipe of any software, on a machine.

    ``words`` are files and shipped names that describe the run: a model's ``config.json``, a script, a recipe, a workload. ``on`` is
    the machine (``64xh100``, ``512 of b200``, a shipped one, a path), ``batch`` the sequences of a step, ``sequence`` the tokens of
    one, ``stack`` the training software. A layout that is stated stays, unless ``search`` is asked for; of a model alone the
    fastest is searched.
    """
    given = {"words": words, "on": on, "batch": batch, "sequence": sequence, "stack": stack, "settings": settings}
    with ExitStack() as files:
        import tempfile

        folder = files.enter_context(tempfile.TemporaryDirectory(prefix="stepsim-"))
        path = os.path.join(folder, "plan.json")
        report = os.path.join(folder, "report.json")
        options = _command.options("plan", {**given, "search": search, "output": path, "report": report}, files)
        said = _native.answer(["plan", *options])
        with open(path) as file:
            plan = Plan(json.load(file))
        with open(report) as file:
            plan.answer = json.load(file)["answer"]
    # The next commands are those of the command line, on a file that is gone.
    plan.text = said.split("wrote ")[0]
    return plan
