"""Many steps from one: sweeps, and the search for the best layout."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional, Sequence, Union

from . import _html, _native, types
from ._arguments import Settings, Source, json_text, number, path_text, plain, setting_texts, source_text, texts, whole, wrong

if TYPE_CHECKING:
    from . import cluster

#: A list of values, or a range as text: ``1:8:x2``, ``64:256:+64``.
Values = Union[Sequence[Any], str]
Vary = Mapping[str, Values]
_Path = Union[str, "os.PathLike[str]"]


class Sweep(Sequence["types.Row"]):
    """Rows of a sweep in the order of its points: each with ``settings``, ``status`` and, if it ran, the columns."""

    def __init__(self, rows: list[types.Row]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def ok(self) -> list[types.Row]:
        """The rows that have a result."""
        return [row for row in self._rows if row["status"] == "ok"]

    def best(self, column: str = "step_time_s", *, most: Optional[bool] = None) -> types.Row:
        """The row with the least of a column (the most of ``mfu`` and ``tokens_per_s_per_device``)."""
        rows = [row for row in self._rows if column in row]
        if not rows:
            raise LookupError(f"no row has a `{column}`")
        upwards = column in ("mfu", "tokens_per_s_per_device") if most is None else most
        return (max if upwards else min)(rows, key=lambda row: row[column])  # type: ignore[literal-required]

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

    def to_parquet(self, path: _Path) -> None:
        """Writes the flat rows as a Parquet file (needs pyarrow); a column of values of several kinds is written as JSON texts."""
        import pyarrow
        import pyarrow.parquet

        records = self.records()
        names = dict.fromkeys(name for record in records for name in record)
        columns = {name: _alike([record.get(name) for record in records]) for name in names}
        pyarrow.parquet.write_table(pyarrow.table(columns), os.fspath(path))

    def __repr__(self) -> str:
        return f"<stepsim.Sweep {len(self)} points, {len(self.ok())} ok>"

    def _repr_html_(self) -> str:
        return _html.sweep(self._rows)


def _alike(values: list[Any]) -> list[Any]:
    """The values of a column if they are of one kind that tables have, else as JSON texts."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} or kinds in ({str}, {bool}):
        return values
    return [None if value is None else json.dumps(value) for value in values]


class Search:
    """What a search found: ``report`` (counts, ``pruned`` by reason, ``ranking``) and ``best``, a workload to run."""

    def __init__(self, report: types.SearchReport, best: Optional[dict[str, Any]]) -> None:
        #: Everything, as ``stepsim search --report`` writes it.
        self.report = report
        #: The best workload, for :func:`stepsim.run`; nothing where no layout fits.
        self.best = best

    @property
    def ranking(self) -> list[types.SearchRankedLayout]:
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
    path = None if output is None else path_text("output", output)
    part, of = _pair("shard", shard)
    if engine is None:
        threads = None if threads is None else whole("threads", threads, least=1)
        text = _native.sweep(json.dumps(study), closed_form, (part, of), threads, path, resume, progress)
    elif (part, of) != (1, 1):
        raise wrong("shard", shard, "(1, 1) beside engine: they are two ways to take parts")
    else:
        from . import cluster

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
        study["topology"] = source_text(topology, "topology")
    pairs = (text.partition("=") for text in setting_texts(settings))
    study["set"] = {path: _value(text) for path, _, text in pairs}
    study["vary"], study["zip"] = _axes("vary", vary), _axes("zip", zip)
    study["where"], study["columns"] = texts("where", where), texts("columns", columns)
    study["sample"] = None if sample is None else whole("sample", sample, least=1)
    study["seed"] = whole("seed", seed, least=0)
    return study


def search(
    workload: Source,
    topology: Optional[Source] = None,
    *,
    fix: Settings = None,
    vary: Optional[Vary] = None,
    max_memory_gib: Optional[float] = None,
    objective: str = "time",
    deadline_s: Optional[float] = None,
    devices: Optional[tuple[int, int]] = None,
    top: int = 10,
    most_simulated: int = 400,
    margin: float = 0.05,
    prove: bool = False,
    budget_s: Optional[float] = None,
    placement: bool = False,
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
    ``placement`` also tries where encoders run.

    After ``budget_s`` seconds no further layout is simulated. ``offload`` chooses too whether activations and optimizer state live on another tier,
    and how many layers ahead they are fetched.
    """
    options = {
        "max_memory_bytes": None if max_memory_gib is None else number("max_memory_gib", max_memory_gib) * 2**30,
        "objective": objective,
        "deadline_s": None if deadline_s is None else number("deadline_s", deadline_s),
        "devices": None if devices is None else _pair("devices", devices),
        "top": whole("top", top, least=1),
        "most_simulated": whole("most_simulated", most_simulated, least=1),
        "margin": number("margin", margin),
        "prove": bool(prove),
        "budget_s": None if budget_s is None else number("budget_s", budget_s),
        "placement": bool(placement),
        "offload": bool(offload),
        "threads": None if threads is None else whole("threads", threads, least=1),
    }
    machine = None if topology is None else source_text(topology, "topology")
    axes = _axes("vary", vary).items()
    tried = [(path, [json_text("vary", value) for value in _listed("vary", values)]) for path, values in axes]
    report, best = _native.search(
        source_text(workload), machine, setting_texts(fix, "fix"), tried, json.dumps(options), progress
    )
    return Search(json.loads(report), None if best is None else json.loads(best))


def _pair(argument: str, pair: Any) -> tuple[int, int]:
    """Two whole numbers."""
    if not isinstance(pair, Iterable) or len(both := list(pair)) != 2:
        raise wrong(argument, pair, "two whole numbers")
    return whole(argument, both[0]), whole(argument, both[1])


def _axes(argument: str, axes: Optional[Vary]) -> dict[str, Any]:
    """Values by path: lists, or ranges as texts."""
    if axes is None:
        return {}
    if not isinstance(axes, Mapping):
        raise wrong(argument, axes, "a dictionary of lists of values by path")
    return {path: values if isinstance(values, str) else _listed(argument, values) for path, values in axes.items()}


def _listed(argument: str, values: Any) -> list[Any]:
    found = plain(argument, values)
    if not isinstance(found, list):
        raise wrong(argument, values, "a list of values", "[value]")
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
