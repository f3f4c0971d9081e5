"""Writes the parts of the package that the program knows best: `stepsim/_commands.py`, a function for each command, from the
arguments that it takes, and `stepsim/types.py`, dictionaries with types, from the schemas of what it writes.

    python generate.py            writes both (needs the package installed)
    python generate.py --check    says whether they are as they would be written
"""

import importlib.util
import json
import keyword
import pathlib
import re
import sys
import textwrap

PLACE = pathlib.Path(__file__).resolve().parent / "stepsim"


def compiled():
    """The compiled half alone: the rest of the package may not be written yet. It is installed, or built into these sources."""
    folders = [PLACE, *(pathlib.Path(folder) / "stepsim" for folder in sys.path)]
    path = next((path for folder in folders for path in folder.glob("_native.*") if path.suffix != ".pyi"), None)
    if path is None:
        sys.exit("stepsim is not installed: pip install ./python")
    spec = importlib.util.spec_from_file_location("stepsim._native", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_native = compiled()
COMMANDS = json.loads(_native.commands())

#: Commands that are a function of theirs: the option by which the answer comes, its type, and what it is.
FUNCTIONS = {
    "inspect": ("--report=-", "dict[str, Any]", "The machine and the step."),
    "analyze": ("--report=-", "types.ProfileReport", "The report."),
    "whatif": ("--report=-", "types.WhatIfs", "The step, and what each change would do."),
    "diff": ("--report=-", "list[types.Line]", "A line for each number, both sides of it."),
    "goodput": ("--report=-", "dict[str, Any]", "Where the days go."),
    "estimate": ("--report=-", "Estimate", "The terms and their sum."),
    "compare": ("--report=-", "types.Comparison", "Both sides and the effects between them."),
    "share": ("--report=-", "dict[str, Any]", "What became of each job."),
    "schedule": ("--report=-", "Any", "The outcome of the schedule, or a list of those of all."),
    "collective": ("--report=-", "dict[str, Any]", "A row for each size."),
    "score": ("--report=-", "dict[str, Any]", "How far off the simulation is."),
    "learn": ("--output=-", "dict[str, Any]", "Prices, for ``run(..., prices=)``."),
    "kernels": ("--report=-", "dict[str, Any]", "The score of every row."),
    "fill": ("--report=-", "dict[str, Any]", "What fits, and the best of it."),
    "normal": ("--json", "dict[str, Any]", "The verdict, and what explains it."),
    "knee": ("--report=-", "dict[str, Any]", "The least value that is enough, and each step that was played."),
}
#: Commands whose function is written by hand, as it gives more than a dictionary, and those that make no sense in a notebook.
BY_HAND = {"run", "plan", "sweep", "search", "import", "list", "show", "schema"}
NO_FUNCTION = {"gate", "open", "completions", "man"}

#: What a function does not take: what shapes a text on a screen.
LEFT_OUT = {
    "json", "rooflines", "verbose", "ratios", "map_only",
}  # fmt: skip
#: What a function needs that the command can do without: it then only prints.
NEEDED = {"kernels": "score"}
#: What is described by a schema: its kind, the name of the type, and what the names of its parts begin with.
SCHEMAS = [
    ("report", "Report", ""),
    ("row", "Row", "Row"),
    ("search", "SearchReport", "Search"),
    ("whatif", "WhatIfs", "WhatIf"),
    ("difference", "Lines", ""),
    ("comparison", "Comparison", "Comparison"),
    ("profile", "ProfileReport", "Profile"),
]

HEAD = '"""{}\n\nWritten by ``generate.py``: what stands here is not edited.\n"""\n\nfrom __future__ import annotations\n\n'


def commands() -> str:
    """The file of the functions."""
    text = HEAD.format("A function for each command of the program that answers with data.")
    text += "from typing import Any, Iterable, Optional, Union\n\n"
    text += "from . import types\nfrom ._arguments import Path, Settings, Source, Texts\nfrom ._command import Document, answer\n"
    text += "from ._estimate import Estimate\n"
    return text + "".join(function(name, *of) for name, of in FUNCTIONS.items())


def function(name: str, document: str, returns: str, what: str) -> str:
    """One function."""
    described = COMMANDS[name]
    taken = document.split("=")[0].strip("-")
    arguments = [a for a in described["arguments"] if a["name"] not in LEFT_OUT | {taken}]
    # What is needed comes first; a machine may be said beside the workload.
    needed = [a for a in arguments if is_needed(name, a)]
    ordered = sorted(needed, key=lambda a: a["option"] is not None)
    ordered += [a for a in arguments if a not in needed and (a["option"] is None or a["name"] == "topology")]
    named = [a for a in arguments if a not in ordered]
    signature = [parameter(name, a) for a in ordered] + ["*"] * bool(named) + [parameter(name, a) for a in named]
    python = name.replace("-", "_")
    lines = [f"{described['about']}.", ""]
    for a in [*ordered, *named]:
        about = re.sub(r";? ?repeatable$", "", (a["about"] or "").strip()).rstrip(".")
        about = about.replace("\\", "\\\\")
        lines += textwrap.wrap(f"``{a['name']}``: {about}.", 116, break_long_words=False, subsequent_indent="    ")
    lines += ["", f"Returns: {what}"]
    doc = "\n    ".join(lines).replace("\n    \n", "\n\n")
    call = f'answer("{name}", locals())' if document == "--report=-" else f'answer("{name}", locals(), "{document}")'
    if returns == "Estimate":
        call = f"Estimate({call})"
    joined = "".join(f"    {p},\n" for p in signature)
    mark = "" if returns in ("Any", "Estimate") else "  # type: ignore[no-any-return]"
    return f'\n\ndef {python}(\n{joined}) -> {returns}:\n    """{doc}\n    """\n    return {call}{mark}\n'


def is_needed(command: str, a: dict) -> bool:
    """Whether a function cannot do without an argument."""
    return a["is_required"] or NEEDED.get(command) == a["name"]


def parameter(command: str, a: dict) -> str:
    """One parameter with its type and default."""
    name, kind, required = a["name"], a["kind"], is_needed(command, a)
    assert name.isidentifier() and not keyword.iskeyword(name), name
    several = a["repeats"] and (a["values"] is None or a["kind"] == "path")
    if a["sets"]:
        return f"{name}: Settings = None"
    if kind == "flag":
        return f"{name}: bool = False"
    of = {"whole": "int", "number": "float", "path": "Path" if a["is_written"] else "Document", "text": "Texts"}[kind]
    if name in ("workload", "topology"):
        of = "Source"
    elif a["repeats"] and not several:
        of = "Texts"
    elif a["option"] is None and kind == "text":
        of = "Document"
    if several:
        of = f"Union[{of if of != 'Texts' else 'Document'}, Iterable[Document]]"
    if required:
        return f"{name}: {of}"
    if a["default"] is not None and not a["is_written"]:
        value = json.loads(a["default"]) if kind in ("whole", "number") else a["default"]
        return f"{name}: {of} = {value!r}"
    return f"{name}: Optional[{of}] = None"


def types() -> str:
    """The file of the types."""
    text = HEAD.format("What the program writes, as dictionaries with types. A key that may be absent is marked so.")
    text += "from typing import Any, Literal, Mapping, Optional, TypedDict, Union\n"
    for kind, name, prefix in SCHEMAS:
        schema = json.loads(_native.answer(["schema", kind]))
        parts = schema.get("$defs", {})
        rename = {part: part if part.startswith(prefix) else prefix + part for part in parts}
        order = sorted(parts, key=list(parts).index)
        for part in order:
            text += definition(rename[part], parts[part], rename)
        if schema.get("type") == "object":
            text += definition(name, schema, rename)
    return text


def definition(name: str, schema: dict, rename: dict) -> str:
    """A type of its own."""
    about = schema.get("description", "").split("\n")[0].replace('"', "'")
    if "properties" not in schema:
        return f"\n\n#: {about}\n{name} = {annotation(schema, rename)}\n"
    required = set(schema.get("required", []))
    keys = schema["properties"]
    if all(re.fullmatch(r"[A-Za-z_]\w*", key) and not keyword.iskeyword(key) for key in keys):
        needed = {key: value for key, value in keys.items() if key in required}
        rest = {key: value for key, value in keys.items() if key not in required}
        base = "TypedDict"
        text = ""
        if needed and rest:
            text += f"\n\nclass _{name}(TypedDict):\n" + fields(needed, rename)
            base = f"_{name}"
        total = ", total=False" if rest else ""
        return text + f'\n\nclass {name}({base}{total}):\n    """{about}"""\n\n' + fields(rest or needed, rename)
    listed = "".join(f"        {json.dumps(key)}: {annotation(value, rename, quoted=True)},\n" for key, value in keys.items())
    return f'\n\n#: {about}\n{name} = TypedDict(\n    "{name}",\n    {{\n{listed}    }},\n    total=False,\n)\n'


def fields(properties: dict, rename: dict) -> str:
    """The keys of a dictionary."""
    lines = ""
    for key, value in properties.items():
        about = value.get("description", "").replace("\n", " ")
        lines += "".join(f"    #: {line}\n" for line in textwrap.wrap(about, 116))
        lines += f"    {key}: {annotation(value, rename)}\n"
    return lines


SIMPLE = {"string": "str", "number": "float", "integer": "int", "boolean": "bool", "null": "None"}


def annotation(schema: object, rename: dict, quoted: bool = False) -> str:
    """The type of a value."""
    if not isinstance(schema, dict):
        return "Any"
    if "$ref" in schema:
        name = rename[schema["$ref"].rsplit("/", 1)[1]]
        return f'"{name}"' if quoted else name
    for many in ("anyOf", "oneOf"):
        if many in schema:
            if all("const" in part or "enum" in part for part in schema[many]):
                values = [v for part in schema[many] for v in part.get("enum", [part.get("const")])]
                return f"Literal[{', '.join(map(json.dumps, values))}]"
            parts = [annotation(part, rename, quoted) for part in schema[many]]
            return union(parts)
    if "enum" in schema:
        return f"Literal[{', '.join(map(json.dumps, schema['enum']))}]"
    kind = schema.get("type")
    if isinstance(kind, list):
        return union([annotation({**schema, "type": one}, rename, quoted) for one in kind])
    if kind == "array":
        if "prefixItems" in schema:
            return f"list[{union([annotation(item, rename, quoted) for item in schema['prefixItems']])}]"
        return f"list[{annotation(schema.get('items'), rename, quoted)}]"
    if kind == "object":
        return f"dict[str, {annotation(schema.get('additionalProperties'), rename, quoted)}]"
    return SIMPLE.get(kind, "Any")


def union(parts: list) -> str:
    """One of several types."""
    parts = list(dict.fromkeys(parts))
    if "Any" in parts:
        return "Any"
    rest = [part for part in parts if part != "None"]
    inner = rest[0] if len(rest) == 1 else f"Union[{', '.join(rest)}]"
    return inner if len(rest) == len(parts) else f"Optional[{inner}]"


def main() -> int:
    """Writes the files, or compares them."""
    unknown = set(COMMANDS) ^ (set(FUNCTIONS) | BY_HAND | NO_FUNCTION)
    if unknown:
        print(f"commands that are told here and not there: {', '.join(sorted(unknown))}; FUNCTIONS of generate.py lists them")
        return 1
    stale = []
    for name, text in (("_commands.py", commands()), ("types.py", types())):
        path = PLACE / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(text)
    if stale and "--check" in sys.argv:
        print(f"not as the program has it: {', '.join(stale)}; python generate.py writes them")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
