"""The closed form of a step."""

from __future__ import annotations

from typing import Any

from . import _html


class Estimate(dict[str, Any]):
    """The closed form of a step: ``total_s``, ``terms``, ``model_flop_utilisation``, ``device_memory`` and more."""

    @property
    def total_s(self) -> float:
        """Seconds of the step."""
        return float(self["total_s"])

    def _repr_html_(self) -> str:
        return _html.estimate(self)
