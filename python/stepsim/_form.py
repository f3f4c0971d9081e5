"""A formula as a function: of the named quantities of a step, the seconds of its terms."""

from __future__ import annotations

from typing import Any, Mapping

from ._arguments import wrong

#: Arguments that say which step it is.
_STEP = ("workload", "topology", "settings")


def brought(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same arguments; a function as ``form`` has been called, and stands as the content of a file.

    It takes the quantities of the step by name (``estimate(...)["quantities"]``) and returns seconds by term.
    """
    form = given.get("form")
    if not callable(form):
        return given
    from ._command import answer

    quantities = answer("estimate", {name: given[name] for name in _STEP if name in given})["quantities"]
    terms = form(quantities)
    if not isinstance(terms, Mapping):
        raise wrong("form", terms, "a function that returns seconds by term: {'bubble': 0.1}")
    name, about = getattr(form, "__name__", "formula"), getattr(form, "__doc__", None) or ""
    return {**given, "form": {"name": name, "source": about, "terms": {term: float(s) for term, s in terms.items()}}}
