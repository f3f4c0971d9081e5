"""Many steps from one: sweeps, and the search for the best layout."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from . import _html, _native, cluster
from ._texts import Settings, Source, setting_texts, source_text
from .errors import InputError

#: A list of values, or a range as text: ``1:8:x2``, ``64:256:+64``.
Values = Union[Sequence[Any], str]
Vary = Mapping[str, Values]
_Path = Union[str, "os.PathLike[str]"]


class Sweep(Sequence[Mapping[str, Any]]):
    """Rows of a sweep in the order of its points: each with ``settings``, ``status`` and, if it ran, the columns."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def ok(self) -> list[dict[str, Any]]:
        """The rows that have a result."""
        return [row for row in self._rows if row["status"] == "ok"]

    def best(self, column: str = "step_time_s", *, most: Optional[bool] = None) -> dict[str, Any]:
        """The row with the least of a column (the most of ``mfu`` and ``tokens_per_s_per_device``)."""
        rows = [row for row in self._rows if column in row]
        if not rows:
            raise LookupError(f"no row has a `{column}`")
        upwards = column in ("mfu", "tokens_per_s_per_device") if most is None else most
        return (max if upwards else min)(rows, key=lambda row: row[column])

    def records(self) -> list[dict[str, Any]]:
        """Flat rows, a key for each setting and column: ``pandas.DataFrame(sweep.records())``."""

        def flat(row: Mapping[str, Any]) -> dict[str, Any]:
            exposed = {f"exposed_{kind}_s": s for kind, s in row.get("exposed_s", {}).items()}
            rest = {k: v for k, v in row.items() if k not in ("settings", "exposed_s", "columns", "key")}
            return {**row["settings"], **rest, **exposed, **row.get("columns", {})}

        return [flat(row) for row in self._rows]

    def to_pandas(self) -> Any:
        """As a ``pandas.DataFrame``."""
        import pandas

        return pandas.DataFrame(self.records())

    def to_polars(self) -> Any:
        """As a ``polars.DataFrame``."""
        import polars

        return polars.DataFrame(self.records(), infer_schema_length=None)

    def __repr__(self) -> str:
        return f"<stepsim.Sweep {len(self)} points, {len(self.ok())} ok>"

    def _repr_html_(self) -> str:
        return _html.sweep(self._rows)


class Search:
    """What a search found: ``report`` (counts, ``pruned`` by reason, ``ranking``) and ``best``, a workload to run."""

    def __init__(self, report: dict[str, Any], best: Optional[dict[str, Any]]) -> None:
        #: Everything, as ``stepsim search --report`` writes it.
        self.report = report
        #: The best workload, for :func:`stepsim.run`; nothing where no layout fits.
        self.best = best

    @property
    def ranking(self) -> list[dict[str, Any]]:
        """The best layouts, best first: ``settings``, ``step_time_s``, ``mfu``, ``memory_peak_bytes``, ``sets``."""
        return list(self.report["ranking"])

    def __repr__(self) -> str:
        r = self.report
        return f"<stepsim.Search {r['points']} layouts, {r['simulated']} simulated, {len(self.ranking)} ranked>"

    def _repr_html_(self) -> str:
        return _html.search(self.report)


def sweep(
    workload: Source,
    topology: Optional[Source] = None,
    *,
    vary: Optional[Vary] = None,
    zip: Optional[Vary] = None,
    where: Union[str, Sequence[str]] = (),
    sample: Optional[int] = None,
    seed: int = 0,
    settings: Settings = None,
    columns: Sequence[str] = (),
    closed_form: bool = False,
    output: Optional[_Path] = None,
    resume: bool = False,
    shard: tuple[int, int] = (1, 1),
    threads: Optional[int] = None,
    progress: Optional[Callable[[int], object]] = None,
    engine: Optional[cluster.Engine] = None,
    parts: Optional[int] = None,
) -> Sweep:
    """Runs every combination of the values of ``vary`` (and ``zip``, whose fields change together).

    ``where`` keeps the points for which it holds (``"parallelism.tensor * parallelism.pipeline.size <= 16"``), ``sample``
    draws so many of them. A point that cannot run is a row too: see its ``status`` and ``message``. ``output`` keeps rows while the sweep runs,
    so that ``resume=True`` goes on after a crash. ``columns`` are paths in the report of a step (``"mean.stalls_s.pipeline_bubble"``) that rows
    have beside their own. ``progress`` is called with the number of points that are done.

    ``engine="ray"``, or any executor (``concurrent.futures``, Dask's ``client.get_executor()``), does the points in ``parts`` parts
    on other processes and machines, which have this version of stepsim and the files that are named; what a lost worker
    had is done again, and the rows are those of a sweep here.
    """
    study = study_of(
        workload, topology, vary=vary, zip=zip, where=where, sample=sample, seed=seed, settings=settings, columns=columns
    )
    path = None if output is None else os.fspath(output)
    if engine is None:
        text = _native.sweep(json.dumps(study), closed_form, shard, threads, path, resume, progress)
    elif shard != (1, 1):
        raise InputError("shard and engine are two ways to take parts: give one")
    else:
        text = cluster.sweep(
            study, engine, closed_form=closed_form, output=path, resume=resume, parts=parts, progress=progress
        )
    return Sweep([json.loads(line) for line in text.splitlines()])


def study_of(
    workload: Source,
    topology: Optional[Source] = None,
    *,
    vary: Optional[Vary] = None,
    zip: Optional[Vary] = None,
    where: Union[str, Sequence[str]] = (),
    sample: Optional[int] = None,
    seed: int = 0,
    settings: Settings = None,
    columns: Sequence[str] = (),
) -> dict[str, Any]:
    """The study file that says the same."""
    study: dict[str, Any] = {"workload": source_text(workload)}
    if topology is not None:
        study["topology"] = source_text(topology)
    pairs = (text.partition("=") for text in setting_texts(settings))
    study["set"] = {path: _value(text) for path, _, text in pairs}
    study["vary"] = {path: _values(values) for path, values in (vary or {}).items()}
    study["zip"] = {path: _values(values) for path, values in (zip or {}).items()}
    study["where"] = [where] if isinstance(where, str) else list(where)
    study["sample"], study["seed"], study["columns"] = sample, seed, list(columns)
    return study


def search(
    workload: Source,
    topology: Optional[Source] = None,
    *,
    fix: Settings = None,
    vary: Optional[Mapping[str, Sequence[Any]]] = None,
    max_memory_gib: Optional[float] = None,
    objective: str = "time",
    deadline_s: Optional[float] = None,
    devices: Optional[tuple[int, int]] = None,
    top: int = 10,
    most_simulated: int = 400,
    margin: float = 0.15,
    prove: bool = False,
    refine: bool = False,
    offload: bool = False,
    threads: Optional[int] = None,
    progress: Optional[Callable[[int], object]] = None,
) -> Search:
    """Finds the best layout of a model on a machine.

    The workload's own layout does not count, all else of it does. ``fix`` holds fields at a value, ``vary`` names the
    values to try of a field; the rest is chosen among what model and machine allow. ``objective`` is ``time``,
    ``tokens_per_device``, ``cost`` (needs ``topology.device.price_USD_per_h``), ``energy``, ``devices`` or ``memory``; a step longer
    than ``deadline_s`` does not count; ``devices=(64, 4096)`` tries machines of these sizes, doubling. ``prove`` simulates
    every layout that the memory does not refute, and ``report["proof"]`` says what the search would have missed.
    ``refine`` then tries fields beside the layout on the best one (``report["refined"]``): layers of the first and last stage, overlap of
    collectives, expert-tensor degree, prefetch. ``offload`` chooses too whether activations and optimizer state live on another tier,
    and how many layers ahead they are fetched.
    """
    options = {
        "max_memory_bytes": None if max_memory_gib is None else max_memory_gib * 2**30,
        "objective": objective,
        "deadline_s": deadline_s,
        "devices": devices,
        "top": top,
        "most_simulated": most_simulated,
        "margin": margin,
        "prove": prove,
        "refine": refine,
        "offload": offload,
        "threads": threads,
    }
    machine = None if topology is None else source_text(topology)
    values = [(path, [json.dumps(value) for value in list(values)]) for path, values in (vary or {}).items()]
    report, best = _native.search(
        source_text(workload), machine, setting_texts(fix), values, json.dumps(options), progress
    )
    return Search(json.loads(report), None if best is None else json.loads(best))


def _values(values: Values) -> Any:
    return values if isinstance(values, str) else list(values)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
