"""What callers may write, as the texts that the compiled half takes."""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Mapping as AnyMapping
from typing import Any, Iterable, Mapping, Optional, Union

from .errors import InputError

#: The path of a file.
Path = Union[str, "os.PathLike[str]"]
#: A name, a path, or the content of a file.
Source = Union[str, "os.PathLike[str]", Mapping[str, Any]]
#: Fields by dotted path (a dictionary, a row of a ``pandas.DataFrame``), or ``path=value`` texts.
Settings = Optional[Union[Mapping[str, Any], Iterable[str], Any]]
#: A text or a number, several, or a dictionary, whose entries are ``name=value``.
Texts = Union[str, float, Iterable[Any], Mapping[str, Any]]


def wrong(argument: str, value: Any, allowed: str, hint: str = "") -> InputError:
    """The error for an argument that cannot be what it is."""
    said = repr(value)
    said = said if len(said) <= 80 else said[:79] + "…"
    message = f"{argument}={said} is not allowed\n  allowed: {allowed}" + (f"\n  hint: {hint}" if hint else "")
    return InputError(message, file=argument, value=said, allowed=allowed, hint=hint)


def plain(argument: str, value: Any) -> Any:
    """A value as JSON has it: numbers and arrays of numpy, rows and columns of pandas, and paths become plain ones."""
    if value is None or isinstance(value, (bool, str)) or type(value) in (int, float):
        return value
    if isinstance(value, os.PathLike):
        return source_text(value)
    if isinstance(value, AnyMapping):
        return {str(name): plain(argument, item) for name, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(argument, value.tolist())
    if isinstance(value, (int, float)):
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, Iterable):
        return [plain(argument, item) for item in value]
    raise wrong(argument, value, "what JSON has: numbers, texts, truth values, lists and dictionaries; paths too")


def json_text(argument: str, value: Any) -> str:
    """A value as the text of its JSON."""
    value = plain(argument, value)
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        raise wrong(argument, value, "finite numbers") from None


def source_text(source: Source, argument: str = "workload") -> str:
    """A name, a path, or the JSON of a content."""
    if isinstance(source, AnyMapping):
        return json_text(argument, source)
    if isinstance(source, os.PathLike):
        path = os.fspath(source)
        # A path is a path even where it looks like a name.
        return path if os.sep in path or path.endswith(".json") else os.path.join(".", path)
    if isinstance(source, str):
        return source
    raise wrong(argument, source, "a name, a path, or a dictionary with the content of a file")


def setting_texts(settings: Settings, argument: str = "settings") -> list[str]:
    """Settings as ``path=value`` texts."""
    if settings is None:
        return []
    allowed = "a dictionary of fields by dotted path, a row of a table, or a list of `path=value` texts"
    if isinstance(settings, (str, bytes)):
        raise wrong(argument, settings, allowed, f"[{settings!r}]")
    if isinstance(settings, AnyMapping):
        return [f"{path}={json_text(f'{argument}[{path!r}]', value)}" for path, value in settings.items()]
    if hasattr(settings, "to_dict"):
        cells = {path: _cell(value) for path, value in settings.to_dict().items()}
        return setting_texts({path: value for path, value in cells.items() if value is not None}, argument)
    if not isinstance(settings, Iterable):
        raise wrong(argument, settings, allowed)
    texts = list(settings)
    for text in texts:
        if not isinstance(text, str):
            raise wrong(argument, text, allowed)
    return texts


def _cell(value: Any) -> Any:
    """A cell of a table, whose columns make integers floats and what is absent not a number."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else value
    return value


def texts(argument: str, value: Texts) -> list[str]:
    """One text or several."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, AnyMapping):
        return [f"{name}={item if isinstance(item, str) else json_text(argument, item)}" for name, item in value.items()]
    value = plain(argument, value)
    return [str(item) for item in (value if isinstance(value, list) else [value])]


def whole(argument: str, value: Any, least: Optional[int] = None) -> int:
    """A whole number, of numpy too."""
    try:
        number = operator.index(value)
    except TypeError:
        raise wrong(argument, value, "a whole number") from None
    if isinstance(value, bool) or (least is not None and number < least):
        raise wrong(argument, value, "a whole number" if least is None else f"a whole number from {least} up")
    return number


def number(argument: str, value: Any) -> float:
    """A number, of numpy too."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise wrong(argument, value, "a number") from None


def path_text(argument: str, value: Path) -> str:
    """The path of a file."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    raise wrong(argument, value, "a path")
