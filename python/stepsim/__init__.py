"""stepsim: one step of distributed LLM training, simulated event by event.

>>> import stepsim
>>> step = stepsim.run("tiny-4", settings={"batch.global": 8})
>>> round(step.report["mfu"], 3) > 0
True

Workloads and machines are names of shipped files (:func:`names`), paths of your own (they contain ``/`` or end in
``.json``), or dictionaries with the content of such a file. ``settings`` change any field by its dotted path
(``{"parallelism.tensor": 8, "topology.nodes": 16}``). What is wrong raises :class:`InputError`, what does not fit
:class:`OutOfMemoryError`; both tell file, path, value, what is allowed and what to do.
"""

from __future__ import annotations

import json
import os
from typing import Any, Iterable, Optional, Sequence, Union

from . import _html, _native
from ._native import __version__
from .errors import DeadlockError, InputError, OutOfMemoryError, RunError, StepsimError
from .study import Search, Sweep, search, sweep
from .table import Table
from ._texts import Settings, Source, setting_texts, source_text

__all__ = [
    "DeadlockError",
    "Estimate",
    "InputError",
    "OutOfMemoryError",
    "Run",
    "RunError",
    "Search",
    "StepsimError",
    "Sweep",
    "Table",
    "__version__",
    "analyze",
    "compare",
    "estimate",
    "names",
    "run",
    "search",
    "sweep",
]


class Run:
    """A simulated step.

    ``report`` is the whole report as a dictionary (``stepsim run --report``). The tables have a row for each simulated
    rank, op or moment; ranks that behave alike are simulated once, and ``ranks`` says how many each stands for.
    """

    def __init__(self, native: _native.Run) -> None:
        self._native = native
        self._report: Optional[dict[str, Any]] = None

    @property
    def report(self) -> dict[str, Any]:
        """All readings: where the time went, communication, memory, links, critical path."""
        if self._report is None:
            self._report = json.loads(self._native.report(False))
        return self._report

    @property
    def step_time_s(self) -> float:
        """Seconds of the step."""
        return self._native.step_time_s

    @property
    def mfu(self) -> float:
        """Model FLOP utilisation, 0 to 1."""
        return float(self.report["mfu"])

    def ranks(self) -> Table:
        """Simulated ranks: rank, name, stage, count (how many it stands for), busy_s, stalled_s."""
        return Table(self._native.ranks())

    def stalls(self) -> Table:
        """Every moment in which a compute stream stood still: rank, start_s, time_s, cause, waited_for."""
        return Table(self._native.stalls())

    def kernels(self) -> Table:
        """Ops summed by name: rank, stream, phase, name, count, time_s, flops, bytes."""
        return Table(self._native.kernels())

    def slices(self, ranks: Optional[Sequence[int]] = None) -> Table:
        """Every op of the simulated ranks, or of those that stand for ``ranks``: when it ran, in picoseconds."""
        return Table(self._native.slices(None if ranks is None else list(ranks)))

    def memory(self) -> Table:
        """How full each tier was over time, by class of what it holds."""
        return Table(self._native.memory())

    def links(self) -> Table:
        """Links, ports and tier bandwidths, busiest first: name, count, bytes, capacity_GBps, utilisation."""
        return Table(self._native.links())

    def html(self) -> str:
        """A page about the run, as ``stepsim run --html`` writes it: one text that needs no network."""
        return self._native.html()

    def __repr__(self) -> str:
        r = self.report
        return f"<stepsim.Run {r['workload']} on {r['topology']}: {self.step_time_s:.4g} s, MFU {100 * self.mfu:.1f} %>"

    def _repr_html_(self) -> str:
        return _html.framed(self.html())


class Estimate(dict):  # type: ignore[type-arg]
    """The closed form of a step: ``total_s``, ``terms``, ``model_flop_utilisation``, ``device_memory`` and more."""

    @property
    def total_s(self) -> float:
        """Seconds of the step."""
        return float(self["total_s"])

    def _repr_html_(self) -> str:
        return _html.estimate(self)


def run(
    workload: Source,
    topology: Optional[Source] = None,
    *,
    settings: Settings = None,
    seed: int = 0,
    steps: int = 1,
    fold: bool = True,
) -> Run:
    """Simulates a step.

    ``topology`` takes the place of the machine that the workload names. ``seed`` is that of the workload's noise,
    ``steps`` how many steps are simulated one after the other. Without ``fold`` every rank is simulated, also those
    that must behave alike; the result is the same.
    """
    return Run(
        _native.run(source_text(workload), _maybe(topology), setting_texts(settings), seed, steps, fold)
    )


def estimate(workload: Source, topology: Optional[Source] = None, *, settings: Settings = None) -> Estimate:
    """Estimates a step in closed form, without simulating it."""
    return Estimate(
        json.loads(_native.estimate(source_text(workload), _maybe(topology), setting_texts(settings)))
    )


def compare(
    workload: Source, topology: Optional[Source] = None, *, settings: Settings = None
) -> dict[str, Any]:
    """Closed form beside simulation: both term by term, and the difference cut into named effects."""
    return json.loads(_native.compare(source_text(workload), _maybe(topology), setting_texts(settings)))


def analyze(
    traces: Union[str, os.PathLike[str], Iterable[Union[str, os.PathLike[str]]]], *, linked: bool = False
) -> dict[str, Any]:
    """Where the time went in profiles of real steps (what ``torch.profiler`` exports), of one rank or several.

    With ``linked`` only device events count whose launch is in the file.
    """
    paths = [traces] if isinstance(traces, (str, os.PathLike)) else list(traces)
    return json.loads(_native.analyze([os.fspath(path) for path in paths], linked))


def names(kind: str = "workloads") -> list[str]:
    """Names of what is shipped: ``workloads``, ``topologies``, ``devices``, ``models`` or ``stacks``."""
    return _native.names(kind)


def _maybe(source: Optional[Source]) -> Optional[str]:
    return None if source is None else source_text(source)
