#!/usr/bin/env python3
"""Puts the site together: web/bundle.py LIBRARY.wasm FOLDER writes FOLDER/index.html, one file that works from anywhere.

Each module becomes a function that runs once and returns what it exports, behind those that it imports from. Every script that
may run is named by its hash in the policy.
"""
import base64, gzip, hashlib, json, lzma, pathlib, re, sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE / "page"
# What pages that the program writes are made of: their looks, and the scripts that may run in a frame.
PAGES = next((HERE.parent / "src").glob("**/page/sheet.rs")).parent
# What completes a text that is typed in.
SCHEMAS = {
    "workload": "workloads/workload.schema.json",
    "machine": "topologies/topology.schema.json",
    "config": "workloads/models/model.schema.json",
}
# How the library is packed: smallest of what `page/lzma.js` takes.
LZMA = {"id": lzma.FILTER_LZMA1, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0, "dict_size": 1 << 23}
# How the code of the library is taken apart: the tables of `page/code.js`.
CODE = (PAGE / "code.js").read_text()
STREAMS = re.search(r"STREAMS = '(\w+)'", CODE)[1]
OPERANDS = {}
for first, last, names in re.findall(r"(\w+)-?(\w*) (\w+)", re.search(r"OPERANDS = '(.*)'", CODE)[1]):
    OPERANDS |= dict.fromkeys(range(int(first, 16), int(last or first, 16) + 1), names)
IMPORT = re.compile(r"^import (\{.*\}) from '\./(\w+)\.js';$", re.M)
COMMENT = re.compile(r"^\s*(//.*|/\*\*.*?\*/)\n", re.M)
INDENT = re.compile(r"^ +", re.M)
EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.M)


def module(name, done):
    """A module as a constant, behind those that it imports from."""
    if name in done:
        return ""
    done.add(name)
    text = (PAGE / f"{name}.js").read_text()
    before = "".join(module(other, done) for _, other in IMPORT.findall(text))
    names = ", ".join(exported for _, exported in EXPORT.findall(text))
    text = EXPORT.sub(r"\1", IMPORT.sub(r"const \1 = \2_js;", text))
    return f"{before}const {name}_js = (() => {{\n{text}return {{{names}}};\n}})();\n"


def program(name):
    """A module with all that it imports, without the lines that only people read."""
    return f"'use strict';\n{INDENT.sub('', COMMENT.sub('', module(name, set())))}"


def completed(schema):
    """What `page/complete.js` reads of a schema: names, values, and the first line about each."""
    if isinstance(schema, list):
        return [completed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    whole = {key: schema[key] for key in ("$ref", "const", "enum") if key in schema}
    if schema.get("type") == "boolean":
        whole["type"] = "boolean"
    lists = [key for key in ("$defs", "properties") if key in schema]
    named = {key: {name: completed(of) for name, of in schema[key].items()} for key in lists}
    parts = ("items", "anyOf", "oneOf", "allOf", "additionalProperties")
    inner = {key: completed(schema[key]) for key in parts if isinstance(schema.get(key), (dict, list))}
    about = {"description": schema["description"].split("\n")[0]} if "description" in schema else {}
    return about | whole | named | inner


def number(data, at):
    """A number of WebAssembly, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def apart(wasm):
    """A library in parts: all before its code, the streams of the code, all behind."""
    at, kind = 8, None
    while kind != 10:
        began, kind = at, wasm[at]
        size, at = number(wasm, at + 1)
        at += size
    functions, here = number(wasm, at - size)
    streams = {name: bytearray() for name in STREAMS}
    streams["L"] += functions.to_bytes(4, "little")
    for _ in range(functions):
        size, here = number(wasm, here)
        function(wasm[here : here + size], streams)
        here += size
    return [wasm[:began], *streams.values(), wasm[at:]]


def function(body, streams):
    """Adds a function to the streams."""
    here = 0

    def taken(name, end):
        nonlocal here
        streams[name] += body[here:end]
        here = end

    groups, end = number(body, 0)
    for _ in range(2 * groups):
        end = number(body, end)[1]
    taken("L", end)
    while here < len(body):
        op = body[here]
        taken("c", here + 1)
        if op == 0xFC:
            op = 0x100 + body[here]
            taken("c", here + 1)
        labels = 2 + number(body, here)[0] if op == 0x0E else 0
        for name in OPERANDS.get(op, "") + "b" * labels:
            taken(name, here + 4 if name == "F" else number(body, here)[1])


def allowed(script):
    return "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"


def frames():
    """The scripts of pages in frames: with a drawing over time or without, with a table that sorts or without."""
    part = {name: (PAGES / f"{name}.js").read_text() for name in ("save", "timeline", "points")}
    for parts in ("save",), ("save", "timeline"), ("save", "points"), ("save", "timeline", "points"):
        yield "\n" + "".join(part[name] for name in parts)


def main(library, folder):
    script = program("main").replace("'{{worker}}'", json.dumps(program("worker")).replace("</", "<\\/"))
    scripts = " ".join(allowed(text) for text in ("\n" + script, *frames()))
    policy = (
        f"default-src 'none'; script-src {scripts} 'wasm-unsafe-eval'; worker-src blob:; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    wasm = pathlib.Path(library).read_bytes()
    schemas = {kind: completed(json.loads((HERE.parent / path).read_text())) for kind, path in SCHEMAS.items()}
    parts = [*apart(wasm), json.dumps(schemas, separators=(",", ":"), ensure_ascii=False).encode()]
    packed = base64.b64encode(lzma.compress(b"".join(parts), lzma.FORMAT_ALONE, filters=[LZMA])).decode()
    style = (PAGES / "style.css").read_text() + (PAGE / "style.css").read_text()
    sizes = " ".join(str(len(part)) for part in parts)
    texts = {"policy": policy, "style": style, "library": packed, "script": "\n" + script, "sizes": sizes}
    html = re.sub(r"\{\{(\w+)\}\}", lambda m: texts[m[1]], (PAGE / "index.html").read_text())
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(html)
    print(f"{folder}/index.html: {len(html) / 1e6:.2f} MB, {len(gzip.compress(html.encode(), 9)) / 1e6:.2f} MB compressed")


if __name__ == "__main__":
    main(*sys.argv[1:])
