"""What callers may write, as the texts that the compiled half takes."""

from __future__ import annotations

import json
import os
from typing import Any, Iterable, Mapping, Optional, Union

#: A name, a path, or the content of a file.
Source = Union[str, "os.PathLike[str]", Mapping[str, Any]]
#: Fields by dotted path, or ``path=value`` texts.
Settings = Optional[Union[Mapping[str, Any], Iterable[str]]]


def source_text(source: Source) -> str:
    if isinstance(source, Mapping):
        return json.dumps(source)
    if isinstance(source, os.PathLike):
        path = os.fspath(source)
        # A path is a path even where it looks like a name.
        return path if os.sep in path or path.endswith(".json") else os.path.join(".", path)
    return source


def setting_texts(settings: Settings) -> list[str]:
    if settings is None:
        return []
    if isinstance(settings, str):
        raise TypeError("settings take a dictionary or a list of texts, not one text")
    if isinstance(settings, Mapping):
        return [f"{path}={json.dumps(value)}" for path, value in settings.items()]
    return list(settings)
