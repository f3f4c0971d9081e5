"""Commands of the program from arguments of Python: what they take is told by the program itself."""

from __future__ import annotations

import functools
import json
import os
from contextlib import ExitStack
from typing import Any, Iterable, Mapping, Union

from . import _native
from ._arguments import Path, number, path_text, plain, setting_texts, source_text, texts, whole, wrong

#: A path or a name, a dictionary with the content of a file, or a run, whose report it is.
Document = Union[Path, Mapping[str, Any], Any]

#: Arguments that take the content of a file as it is.
_CONTENTS = ("workload", "topology")


def command(*words: object) -> str:
    """What a command says on its standard output: ``stepsim.command("schedule", "--all", "--stages", 4)``.

    The words are those of the command line. What is wrong raises the errors of this package; no file is written but those that the
    words name.
    """
    return _native.answer([os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in words])


def answer(name: str, given: Mapping[str, Any], document: str = "--report=-") -> Any:
    """The JSON that a command writes as ``document``, or says where that is nothing."""
    from ._form import brought

    with ExitStack() as files:
        given = brought(given)
        words = [*name.split(" "), *options(name, given, files)]
        split = words.index("--") if "--" in words else len(words)
        words[split:split] = [document] if document else []
        return json.loads(_native.answer(words))


def options(name: str, given: Mapping[str, Any], files: ExitStack) -> list[str]:
    """The words of a command behind its name; contents that it takes as files live as long as ``files``."""
    known = arguments(name)
    optional, positional = [], []
    for argument, value in given.items():
        if argument not in known:
            raise wrong(argument, value, f"arguments of `{name}`: {', '.join(known)}")
        described = known[argument]
        # What is the default anyway is not said: it may not go with other options.
        if value is None or str(value) == str(described["default"]):
            continue
        values = _words(argument, described, value, files)
        if described["option"] is None:
            positional += values
        elif described["kind"] == "flag":
            optional += [described["option"]] * len(values)
        elif (described["values"] or 1) > 1:
            optional += [described["option"], *values]
        else:
            optional += [f"{described['option']}={word}" for word in values]
    return [*optional, "--", *positional]


def _words(argument: str, described: Mapping[str, Any], value: Any, files: ExitStack) -> list[str]:
    """The words of one value."""
    kind, repeats = described["kind"], described["repeats"]
    if described["sets"]:
        return setting_texts(value, argument)
    if kind == "flag":
        if not isinstance(value, bool):
            raise wrong(argument, value, "True or False")
        return [argument] if value else []
    if kind == "whole":
        return [str(whole(argument, value))]
    if argument in _CONTENTS:
        return [source_text(value, argument)]
    if repeats and (kind == "path" or described["option"] is None):
        single = not isinstance(value, Iterable) or isinstance(value, (str, os.PathLike, Mapping))
        return [_file(argument, item, files) for item in ([value] if single else value)]
    if repeats:
        return texts(argument, value)
    if kind == "number":
        return [repr(number(argument, value))]
    if kind == "path" or described["option"] is None:
        return [_file(argument, value, files)]
    return [",".join(texts(argument, value))]


def _file(argument: str, value: Any, files: ExitStack) -> str:
    """A path or a name; the report of a run, or a content, as a file of its own."""
    content = getattr(value, "report", value)
    if not isinstance(content, Mapping):
        return path_text(argument, value)
    import tempfile

    folder = files.enter_context(tempfile.TemporaryDirectory(prefix="stepsim-"))
    path = os.path.join(folder, f"{argument}.json")
    with open(path, "w") as file:
        json.dump(plain(argument, content), file)
    return path


@functools.lru_cache(maxsize=None)
def arguments(name: str) -> dict[str, dict[str, Any]]:
    """The arguments of a command, or a command inside of one, by the names that they have in Python."""
    command, *inner = name.split(" ")
    described = json.loads(_native.commands())[command]
    for kind in inner:
        if kind not in described["commands"]:
            raise wrong("kind", kind, ", ".join(described["commands"]))
        described = described["commands"][kind]
    return {argument["name"]: argument for argument in described["arguments"]}
