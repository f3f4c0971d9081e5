"""Parts of a sweep on other processes and machines."""

from __future__ import annotations

import json
import os
import tempfile
from concurrent.futures import Executor, as_completed
from typing import Any, Callable, Iterator, Mapping, Optional, Union

from . import _native
from ._arguments import whole, wrong
from .errors import InputError, RunError, StepsimError

#: ``"ray"``, or anything with ``submit``: a process pool, Dask's ``client.get_executor()``, ``mpi4py.futures``.
Engine = Union[str, Executor]

#: How often a part is done again when the process or machine that had it is lost.
RETRIES = 10


def sweep(
    study: Mapping[str, Any],
    engine: Engine,
    *,
    closed_form: bool,
    output: Optional[str],
    resume: bool,
    parts: Optional[int],
    progress: Optional[Callable[[int], object]],
) -> str:
    """The rows of a study as JSON lines, its parts done by ``engine``.

    Rows of a part are kept in the result file when it ends, so that a driver that is killed loses the parts in flight.
    Points that are missing at the end (none, unless the file was changed) are done here.
    """
    text = json.dumps(study)
    count = _native.count(text)
    with tempfile.TemporaryDirectory() as folder:
        path = output or os.path.join(folder, "rows.jsonl")
        if os.path.exists(path) and not resume:
            raise InputError(f"{path} is there already: resume=True goes on with it", file=path)
        missing = set(_native.missing(text, closed_form, path if resume else None))
        of = min(count, 8 * _width(engine) if parts is None else whole("parts", parts, least=1))
        todo = [number for number in range(1, of + 1) if not missing.isdisjoint(range(number - 1, count, of))]
        done = count - len(missing)
        with open(path, "ab") as journal:
            for version, rows in _alive(_results(engine, text, closed_form, todo, of), output):
                if version != _native.__version__:
                    raise RunError(f"a worker has stepsim {version}, this is {_native.__version__}: install one version")
                journal.write(rows.encode())
                journal.flush()
                os.fsync(journal.fileno())
                done += sum(json.loads(row)["point"] in missing for row in rows.splitlines())
                if progress is not None:
                    progress(done)
        return _native.sweep(text, closed_form, (1, 1), None, path, True, None)


def part(study: str, closed_form: bool, number: int, of: int) -> tuple[str, str]:
    """What a worker does: its version, and the rows of one part."""
    return _native.__version__, _native.sweep(study, closed_form, (number, of), 1, None, False, None)


def _alive(results: Iterator[tuple[str, str]], output: Optional[str]) -> Iterator[tuple[str, str]]:
    """The same results; an engine that dies raises an error of ours, which says how to go on."""
    try:
        yield from results
    except StepsimError:
        raise
    except Exception as error:
        hint = "rows were kept nowhere: give output= so that they are"
        if output is not None:
            hint = f"the rows of parts that had ended are in {output}: the same sweep with resume=True goes on"
        raise RunError(f"the engine has failed: {error or type(error).__name__}\n  hint: {hint}", file=output or "", hint=hint) from error


def _results(
    engine: Engine, study: str, closed_form: bool, todo: list[int], of: int
) -> Iterator[tuple[str, str]]:
    if isinstance(engine, str):
        yield from _on_ray(engine, study, closed_form, todo, of)
        return
    futures = [engine.submit(part, study, closed_form, number, of) for number in todo]
    for future in as_completed(futures):
        yield future.result()


def _on_ray(name: str, study: str, closed_form: bool, todo: list[int], of: int) -> Iterator[tuple[str, str]]:
    ray = _ray(name)
    remote = ray.remote(max_retries=RETRIES)(part)
    left = [remote.remote(study, closed_form, number, of) for number in todo]
    while left:
        ended, left = ray.wait(left)
        yield from ray.get(ended)


def _ray(name: str) -> Any:
    if name != "ray":
        raise wrong("engine", name, "'ray', or an executor (anything with `submit`)")
    import ray

    if not ray.is_initialized():
        ray.init()
    return ray


def _width(engine: Engine) -> int:
    """How many parts are done at a time, as far as it can be known."""
    if isinstance(engine, str):
        return max(1, int(_ray(engine).cluster_resources().get("CPU", 1)))
    return int(getattr(engine, "_max_workers", None) or os.cpu_count() or 1)
