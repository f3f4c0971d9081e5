"""Tables that pyarrow, pandas and polars take without copying."""

from __future__ import annotations

import html
from typing import Any, Iterator

from . import _native


class Table:
    """Columns of equal length.

    Any library that knows the Arrow PyCapsule interface takes it as it is: ``pyarrow.table(t)``, ``polars.DataFrame(t)``,
    ``duckdb.sql("select * from t")``.
    """

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return self._native.column_names

    def __len__(self) -> int:
        return len(self._native)

    def __getitem__(self, name: str) -> list[Any]:
        """One column as a list."""
        return self._native.column(name)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows as dictionaries."""
        names = self.column_names
        for values in zip(*(self[name] for name in names)):
            yield dict(zip(names, values))

    def to_pyarrow(self) -> Any:
        """As a ``pyarrow.Table``."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> Any:
        """As a ``pandas.DataFrame`` (needs pyarrow). Whole numbers stay whole where some are absent."""
        import pandas
        import pyarrow

        return self.to_pyarrow().to_pandas(types_mapper={pyarrow.uint32(): pandas.UInt32Dtype()}.get)

    def to_polars(self) -> Any:
        """As a ``polars.DataFrame``."""
        import polars

        return polars.DataFrame(self)

    def __repr__(self) -> str:
        return f"<stepsim.Table {len(self)} rows: {', '.join(self.column_names)}>"

    def _repr_html_(self) -> str:
        shown = 20
        names = self.column_names
        columns = [self[name][:shown] for name in names]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_short(value))}</td>" for value in row) + "</tr>" for row in zip(*columns)
        )
        more = f"<p>{len(self) - shown} rows more</p>" if len(self) > shown else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
