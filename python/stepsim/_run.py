"""One simulated step."""

from __future__ import annotations

import json
import os
import pathlib
import warnings
from contextlib import ExitStack
from typing import Any, Iterable, Optional, Union

from . import _html, _native, _plot, types
from ._arguments import Path, Settings, Source, setting_texts, whole, wrong
from ._command import options
from ._own import Collectives, Order, Prices, TimesOfRows, check_rows, collective_function, order_settings, price_function
from .errors import InputError
from .table import Table

#: Ranks: numbers, ``"0,8,16-31"``, ``"all"``, or ``"stages"`` for the first of each pipeline stage.
Ranks = Union[str, Iterable[int]]


class Run:
    """A simulated step.

    Its time, utilisation and memory are there at once. ``report`` is the whole report as a dictionary (``stepsim run --report``).
    Tables, timelines and pages need the ops of the step, which are played when the first of them is asked for. Tables have a row
    for each simulated rank, op or moment; ranks that behave alike are simulated once, and ``ranks`` says how many each stands for.

    A run can be pickled: what it has found out goes with it. What is asked of it later is played anew, there, from the
    files that it names.
    """

    def __init__(self, words: list[str], native: _native.Run) -> None:
        self._words = words
        self._native: Optional[_native.Run] = native
        self._asked: tuple[Any, Any] = (None, None)
        self._figures: dict[str, Any] = json.loads(native.figures())
        self._hashes = native.hashes()
        self._report: Optional[types.Report] = None

    @property
    def report(self) -> types.Report:
        """All readings: where the time went, communication, memory, links, critical path."""
        if self._report is None:
            self._report = json.loads(self._step.report(False))
        return self._report

    @property
    def step_time_s(self) -> float:
        """Seconds of a step."""
        return float(self._figures["step_time_s"])

    @property
    def range_s(self) -> Optional[list[float]]:
        """Four in five steps like it lie between these two."""
        return self.report["answer"].get("range_s")

    @property
    def mfu(self) -> float:
        """Model FLOP utilisation, 0 to 1."""
        return float(self._figures["mfu"])

    @property
    def tokens_per_s(self) -> float:
        """Tokens in a second, of all devices together."""
        return float(self._figures["tokens_per_s"])

    @property
    def memory_peak_bytes(self) -> Optional[int]:
        """Bytes in the fullest device memory."""
        return self._figures["memory_peak_bytes"]  # type: ignore[no-any-return]

    @property
    def samples(self) -> Optional[types.SamplesReport]:
        """How the times of the steps spread that ``run(samples=)`` asked for."""
        return self.report.get("samples")

    def waterfall(self) -> list[types.BarReport]:
        """From the peak of the devices to MFU, bar by bar, mean of all ranks."""
        waterfall = self.report.get("waterfall")
        return waterfall["mean"]["bars"] if waterfall else []

    def candidates(self) -> list[types.Candidate]:
        """What could be otherwise, dearest first: the step is played once with each otherwise."""
        return json.loads(self._step.report(True)).get("candidates", [])  # type: ignore[no-any-return]

    def ranks(self) -> Table:
        """Simulated ranks: rank, name, stage, count (how many it stands for), busy_s, stalled_s."""
        return Table(self._step.ranks())

    def stalls(self) -> Table:
        """Every moment in which a compute stream stood still: rank, start_s, time_s, cause, waited_for."""
        return Table(self._step.stalls())

    def kernels(self) -> Table:
        """Ops summed by name: rank, stream, phase, name, count, time_s, flops, bytes."""
        return Table(self._step.kernels())

    def slices(self, ranks: Optional[Iterable[int]] = None) -> Table:
        """Every op of the simulated ranks, or of those that stand for ``ranks``.

        When it ran (``start_ps``, ``end_ps``), what it is (``stream``, ``name``, ``kind``, ``phase``, ``layer``, ``micro_batch``,
        ``flops``, ``bytes``), with whom it communicates (``group``, where ``0-56:8`` is every eighth of these ranks, and ``peer``)
        over which narrowest ``link``, and of a kernel why (``cause``) and how long (``waited_s``) it was held up.
        """
        chosen = None if ranks is None else [whole("ranks", rank, least=0) for rank in ranks]
        return Table(self._step.slices(chosen))

    def memory(self) -> Table:
        """How full each tier was over time, by class of what it holds."""
        return Table(self._step.memory())

    def links(self) -> Table:
        """Links, ports and tier bandwidths, busiest first: name, count, bytes, capacity_GBps, utilisation."""
        return Table(self._step.links())

    def trace(
        self,
        path: Path,
        *,
        ranks: Optional[Ranks] = None,
        detail: Optional[str] = None,
        format: Optional[str] = None,
        window_ms: Optional[tuple[float, float]] = None,
        links: int = 0,
    ) -> pathlib.Path:
        """Writes the timeline, for ui.perfetto.dev, and returns where.

        Without ``ranks`` one of those that behave alike is shown. The name says how: ``.json``, ``.json.gz``, ``.pftrace`` or ``.pftrace.gz``; with ``format`` it is a folder with a file a
        rank, ``kineto`` as PyTorch's profiler writes. ``detail`` is what one slice stands for: ``op``, ``layer``, ``pass`` or
        ``phase``; ``window_ms`` shows a stretch of time alone, ``links`` the use of so many of the busiest links.
        """
        window = None if window_ms is None else ":".join(str(float(ms)) for ms in window_ms)
        shown = {"output": path, "trace_ranks": _ranks(ranks), "detail": detail, "format": format, "window_ms": window}
        note = self._step.trace(self._with(**shown, trace_links=links))
        if note:
            warnings.warn(note, stacklevel=2)
        return pathlib.Path(path)

    def html(self, *, ranks: Optional[Ranks] = None) -> str:
        """A page about the run, as ``stepsim run --html`` writes it: one text that needs no network."""
        return self._step.html(self._with(trace_ranks=_ranks(ranks)))

    def plot(self, ranks: Optional[Iterable[int]] = None, *, ax: Any = None) -> Any:
        """Draws the passes of each simulated rank over time with matplotlib, and returns the axes."""
        return _plot.run(self, self.slices(ranks), ax)

    def __repr__(self) -> str:
        named = next((word for word in reversed(self._words) if word != "--"), "")
        name = "workload" if named.startswith("{") else named
        return f"<stepsim.Run {name}: {self.step_time_s:.4g} s, MFU {100 * self.mfu:.1f} %>"

    def _repr_html_(self) -> str:
        return _html.run(self.report)

    def _with(self, **more: Any) -> list[str]:
        """The words of the run with more options."""
        with ExitStack() as none:
            added = options("run", more, none)[:-1]
        return ["run", *added, *self._words[1:]]

    @property
    def _step(self) -> _native.Run:
        """The step, loaded again where the run has come from another process."""
        if self._native is None:
            prices, collectives = (None if rows is None else TimesOfRows("rows", rows) for rows in self._asked)
            native = _native.run(self._words, prices, collectives)
            if native.hashes() != self._hashes:
                raise InputError(
                    "the files of this run are not those that it was made of\n  hint: run it again",
                    hint="run it again",
                )
            self._native = native
        return self._native

    def __getstate__(self) -> dict[str, Any]:
        asked = self._asked
        if self._native is not None:
            known = self._native.asked()
            asked = (known[0] and json.loads(known[0]), known[1] and json.loads(known[1]))
        return {**self.__dict__, "_native": None, "_asked": asked}


def run(
    workload: Source = "gpt3-175b",
    topology: Optional[Source] = None,
    *,
    settings: Settings = None,
    seed: int = 0,
    samples: Optional[int] = None,
    fold: bool = True,
    order: Optional[Order] = None,
    prices: Optional[Prices] = None,
    collectives: Optional[Collectives] = None,
) -> Run:
    """Simulates a step.

    ``topology`` takes the place of the machine that the workload names. ``seed`` is that of the workload's noise,
    ``samples`` how many are played with seeds from ``seed`` on, for
    ``Run.samples``. Without ``fold`` every rank is simulated, also those that must behave alike; the result is the same.

    ``order`` is a schedule of one's own: the passes of each rank (``{"0": ["F0", "F1", "B0", "B1"], ...}``; ``F``, ``B``, or ``I`` and
    ``W`` for the halves of a backward pass, the micro-batch, and ``.1`` for the second chunk), with ``paths`` beside ``ranks`` for
    stages that sit elsewhere, or a function of the number of stages and micro-batches that gives them.

    ``prices`` are seconds of kernels: a function of a kernel (``class``, ``m``, ``n``, ``k``, ``flops``, ``bytes``, ``dtype``,
    ``device``, ...), asked once for each distinct one, rows with the same columns and ``time_s``, or what :func:`learn`
    gives. ``collectives`` are seconds of collectives: a function of operation, bytes and group (``ranks``, ``nodes``), or
    such rows. Where a function gives None, the program's own time holds.
    """
    found, price = price_function(prices)
    sets = found + setting_texts(settings)
    if order is not None:
        sets += setting_texts(order_settings(order, workload, topology, sets))
    if not isinstance(fold, bool):
        raise wrong("fold", fold, "True or False")
    given = {"topology": topology, "settings": sets, "seed": seed, "samples": samples}
    with ExitStack() as none:
        words = ["run", *options("run", {**given, "no_fold": not fold, "workload": workload}, none)]
    time = collective_function(collectives)
    played = Run(words, _native.run(words, price, time))
    check_rows(price, time)
    return played


def _ranks(ranks: Optional[Ranks]) -> Optional[str]:
    """Ranks as the command line has them."""
    if ranks is None or isinstance(ranks, str):
        return ranks
    if not isinstance(ranks, Iterable):
        raise wrong("ranks", ranks, "numbers of ranks, 'all' or 'stages'")
    return ",".join(str(whole("ranks", rank, least=0)) for rank in ranks)
