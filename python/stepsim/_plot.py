"""Drawings with matplotlib, where that is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .table import Table

if TYPE_CHECKING:
    from ._run import Run

_COLOURS = {"forward": "#4c78a8", "backward": "#54a24b", "weight grad": "#b279a2", "recompute": "#eeca3b", "optimizer": "#e45756"}
_OTHER = "#bab0ac"


def run(step: "Run", slices: Table, ax: Any = None) -> Any:
    """The passes of each rank over time, a row a rank."""
    if ax is None:
        try:
            import matplotlib.pyplot as pyplot
        except ImportError:
            raise ImportError("Run.plot needs matplotlib: pip install matplotlib") from None
        ax = pyplot.subplots(figsize=(10, 0.6 + 0.35 * len(set(slices["rank"]))))[1]
    passes = _passes(slices)
    ranks = sorted({rank for rank, _ in passes})
    drawn = set()
    for (rank, phase), spans in passes.items():
        label = None if phase in drawn else phase
        drawn.add(phase)
        at = (ranks.index(rank) - 0.4, 0.8)
        ax.broken_barh(spans, at, facecolors=_COLOURS.get(phase, _OTHER), edgecolors="white", linewidth=0.3, label=label)
    ax.set_yticks(range(len(ranks)), [f"rank {rank}" for rank in ranks])
    ax.invert_yaxis()
    ax.set_xlabel("ms")
    ax.set_title(f"{1e3 * step.step_time_s:.4g} ms, MFU {100 * step.mfu:.1f} %", fontsize="medium")
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return ax


def _passes(slices: Table) -> dict[tuple[int, str], list[tuple[float, float]]]:
    """By rank and phase: start and length in milliseconds of kernels in a row of one micro-batch."""
    found: dict[tuple[int, str], list[tuple[float, float]]] = {}
    names = ("rank", "stream", "phase", "micro_batch", "start_ps", "end_ps")
    before: Any = None
    for rank, stream, phase, micro_batch, start, end in zip(*(slices[name] for name in names)):
        if stream != "compute" or end == start:
            continue
        spans = found.setdefault((rank, phase), [])
        if before == (rank, phase, micro_batch):
            spans[-1] = (spans[-1][0], end / 1e9 - spans[-1][0])
        else:
            spans.append((start / 1e9, (end - start) / 1e9))
        before = (rank, phase, micro_batch)
    return found
