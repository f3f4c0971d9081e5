"""Schedules, prices of kernels and times of collectives of one's own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping as AnyMapping
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Optional, Sequence, Union

from ._arguments import Path, Settings, Source, plain, setting_texts, wrong
from ._commands import inspect
from ._files import show

#: Passes of one rank in their order: ``"F0 F1 B0 B1"``, or a list of them.
Passes = Union[str, Sequence[str]]
#: The passes of all ranks: a list, or by number.
Orders = Union[Sequence[Passes], Mapping[Any, Any]]
#: An order, or a function of the number of stages and of micro-batches.
Order = Union[Orders, Callable[[int, int], Orders]]

#: Rows with seconds (``time_s``) and what they are of, a ``pandas.DataFrame`` too.
Rows = Union[Iterable[Mapping[str, Any]], Any]
#: Seconds of a kernel: a function that is asked once for each distinct one (nothing: as the program has it), rows, or what
#: :func:`learn` found, or its path.
Prices = Union[Callable[[Mapping[str, Any]], Optional[float]], Rows, Path, Mapping[str, Any]]


class Group(NamedTuple):
    """Who communicates."""

    #: How many ranks.
    ranks: int
    #: On how many nodes.
    nodes: int


#: Seconds of a collective: a function of operation, bytes and group (nothing: as the program has it), or rows.
Collectives = Union[Callable[[str, int, Group], Optional[float]], Rows]

#: What the compiled half asks: what takes time, as JSON.
Asked = Callable[[str], Optional[float]]


def order_settings(order: Order, workload: Source, topology: Optional[Source], settings: Settings) -> dict[str, Any]:
    """The settings that put an order in the place of the workload's schedule."""
    if callable(order):
        order = order(*_shape(workload, topology, settings))
    content = {"ranks": [], **order} if isinstance(order, AnyMapping) and "ranks" in order else {"ranks": order}
    ranks = content["ranks"]
    if isinstance(ranks, AnyMapping):
        by_number = {int(rank): passes for rank, passes in ranks.items()}
        if sorted(by_number) != list(range(len(by_number))):
            raise wrong("order", list(ranks), f"a list of passes for each rank from 0 to {len(ranks) - 1}")
        ranks = [by_number[rank] for rank in range(len(by_number))]
    content["ranks"] = [passes if isinstance(passes, str) else " ".join(map(str, passes)) for passes in ranks]
    pipeline = "parallelism.pipeline"
    return {f"{pipeline}.schedule": "file", f"{pipeline}.chunks": None, f"{pipeline}.order_file": content}


def _shape(workload: Source, topology: Optional[Source], settings: Settings) -> tuple[int, int]:
    """Stages and micro-batches of a step."""
    own = [text for text in setting_texts(settings) if not text.startswith("topology.")]
    pipeline = show(workload, kind="workload", settings=own)["parallelism"]["pipeline"]
    step = inspect(workload, topology, settings=settings)["step"]
    return int(pipeline["size"]), int(step["micro_batches"])


def price_function(prices: Optional[Prices]) -> tuple[list[str], Optional[Asked]]:
    """The settings of prices that were found, and the function of others."""
    if prices is None:
        return [], None
    if isinstance(prices, (str, os.PathLike)):
        return [f"prices={os.fspath(prices)}"], None
    if isinstance(prices, AnyMapping):
        if "set" not in prices:
            raise wrong("prices", prices, "what learn gives, rows with `time_s`, or a function of a kernel")
        return list(prices["set"]), None
    if callable(prices):
        function = prices
        return [], lambda text: _seconds("prices", function(json.loads(text)))
    return [], TimesOfRows("prices", prices)


def collective_function(collectives: Optional[Collectives]) -> Optional[Asked]:
    """The function of times of collectives."""
    if collectives is None or not callable(collectives):
        return None if collectives is None else TimesOfRows("collectives", collectives)

    def ask(text: str) -> Optional[float]:
        of = json.loads(text)
        return _seconds("collectives", collectives(of["op"], of["bytes"], Group(of["ranks"], of["nodes"])))

    return ask


def _seconds(argument: str, value: Any) -> Optional[float]:
    """What a function has answered."""
    if value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        raise wrong(argument, value, "a function that gives seconds, or None") from None


class TimesOfRows:
    """The function that rows are: what a row says must be so, the first that fits counts. Empty cells say nothing."""

    def __init__(self, argument: str, rows: Rows) -> None:
        if hasattr(rows, "to_dict"):
            rows = rows.to_dict("records")
        self._argument = argument
        self._rows = [_said(dict(plain(argument, row))) for row in rows]
        self._columns: set[str] = set()
        self._fits = False
        for row in self._rows:
            if not isinstance(row.get("time_s"), (int, float)):
                raise wrong(argument, row, "rows with `time_s`, in seconds, and what they are of")

    def __call__(self, text: str) -> Optional[float]:
        of = json.loads(text)
        self._columns.update(of)
        fits = (row for row in self._rows if all(of.get(name) == value for name, value in row.items() if name != "time_s"))
        row = next(fits, None)
        self._fits = self._fits or row is not None
        return None if row is None else float(row["time_s"])

    def check(self) -> None:
        """Refuses rows of which none is of anything that the step has."""
        if self._rows and not self._fits:
            columns = ", ".join(sorted(self._columns)) or "none: the step asks for nothing here"
            hint = f"a row holds where all its columns do; what is asked for has {columns}"
            raise wrong(self._argument, self._rows, "rows of which at least one is of this step", hint)


def _said(row: dict[str, Any]) -> dict[str, Any]:
    """The cells of a row that are not empty; pandas has NaN for those that are."""
    return {name: cell for name, cell in row.items() if cell is not None and cell == cell}


def check_rows(*asked: Optional[Asked]) -> None:
    """Refuses, after a run, rows that were of nothing in it."""
    for function in asked:
        if isinstance(function, TimesOfRows):
            function.check()
