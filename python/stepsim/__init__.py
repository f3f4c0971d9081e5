"""stepsim: one step of distributed LLM training, simulated event by event.

>>> import stepsim
>>> step = stepsim.run("tiny-4", settings={"batch.global": 8})
>>> round(step.report["mfu"], 3) > 0
True

Workloads and machines are names of shipped files (:func:`list`), paths of your own (they contain ``/`` or end in
``.json``), or dictionaries with the content of such a file (:func:`show`). ``settings`` change any field by its dotted path
(``{"parallelism.tensor": 8, "topology.nodes": 16}``). What is wrong raises :class:`InputError`, what does not fit
:class:`OutOfMemoryError`; both tell file or argument, path, value, what is allowed and what to do.
"""

from __future__ import annotations

try:
    from . import _native
except ImportError as error:
    raise ImportError(
        "stepsim is not built here: this is the folder of its sources. "
        "Install it (`pip install ./python` in the repository, or `maturin develop` in this folder), or start elsewhere"
    ) from error

import importlib.util
import sys
from typing import List



def _when_needed(name: str) -> None:
    """Has a module executed with the first use of what is in it."""
    spec = importlib.util.find_spec(f"{__name__}.{name}")
    assert spec is not None and spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = globals()[name] = module
    spec.loader.exec_module(module)


# Hundreds of classes that only annotations name: a third of what an import costs.
_when_needed("types")

from . import types
from ._command import command
from ._commands import (
    analyze,
    collective,
    compare,
    diff,
    estimate,
    fill,
    goodput,
    inspect,
    kernels,
    knee,
    learn,
    normal,
    schedule,
    score,
    share,
    whatif,
)
from ._estimate import Estimate
from ._files import Plan, import_, list, plan, schema, show
from ._native import __version__
from ._own import Group
from ._run import Run, run
from .errors import DeadlockError, InputError, OutOfMemoryError, RunError, StepsimError
from .study import Search, Sweep, search, sweep
from .table import Table

#: What `from stepsim import *` gives: all but `list`, which Python has too.
__all__ = [
    "DeadlockError",
    "Estimate",
    "Group",
    "InputError",
    "OutOfMemoryError",
    "Plan",
    "Run",
    "RunError",
    "Search",
    "StepsimError",
    "Sweep",
    "Table",
    "__version__",
    "analyze",
    "collective",
    "command",
    "compare",
    "diff",
    "estimate",
    "fill",
    "goodput",
    "import_",
    "inspect",
    "kernels",
    "knee",
    "learn",
    "normal",
    "plan",
    "run",
    "schedule",
    "schema",
    "score",
    "search",
    "share",
    "show",
    "sweep",
    "types",
    "whatif",
]


def __dir__() -> List[str]:
    return sorted([*__all__, "list"])
