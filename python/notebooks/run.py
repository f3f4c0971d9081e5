"""Runs the notebooks of this folder, cell by cell, without the machinery of notebooks.

    python run.py            says which would have other outputs (drawings are made, and not compared)
    python run.py --renew    writes the outputs into the notebooks

Needs pandas, pyarrow and matplotlib.
"""

import ast
import base64
import contextlib
import io
import json
import os
import pathlib
import sys

PLACE = pathlib.Path(__file__).resolve().parent
#: A drawing is of one program's making, down to its bytes.
DRAWING = "image/png"
# Screens are as wide wherever this runs.
os.environ["COLUMNS"] = "110"


def executed(notebook: dict) -> dict:
    """A notebook with the outputs that its cells have now."""
    names: dict = {"__name__": "__main__"}
    count = 0
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell = {**cell, "execution_count": count, "outputs": outputs("".join(cell["source"]), names, count)}
        cells.append(cell)
    return {**notebook, "cells": cells}


def outputs(source: str, names: dict, count: int) -> list:
    """What a cell prints, what its last line is, and what it draws."""
    from matplotlib import pyplot

    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(tree, "<cell>", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    found = []
    if said.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": lines(said.getvalue())})
    if value is not None:
        data = {"text/plain": lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": lines(value._repr_html_()), "text/plain": [f"<{type(value).__name__}>"]}
        found.append({"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": count})
    for number in pyplot.get_fignums():
        drawn = io.BytesIO()
        pyplot.figure(number).savefig(drawn, format="png", dpi=72, bbox_inches="tight")
        data = {DRAWING: base64.b64encode(drawn.getvalue()).decode(), "text/plain": ["<Figure>"]}
        found.append({"output_type": "display_data", "data": data, "metadata": {}})
    pyplot.close("all")
    return found


def lines(text: str) -> list:
    """A text as notebooks keep it."""
    return text.splitlines(keepends=True)


def compared(notebook: dict) -> list:
    """The outputs without what differs from one machine to the next."""
    every = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    return [output if DRAWING not in output.get("data", {}) else DRAWING for output in every]


def main() -> int:
    """Runs all notebooks."""
    import matplotlib

    matplotlib.use("Agg")
    stale = []
    for path in sorted(PLACE.glob("*.ipynb")):
        notebook = json.loads(path.read_text())
        now = executed(notebook)
        if compared(now) == compared(notebook):
            continue
        stale.append(path.name)
        if "--renew" in sys.argv:
            path.write_text(json.dumps(now, indent=1, ensure_ascii=False) + "\n")
    if stale and "--renew" not in sys.argv:
        print(f"other outputs than are kept: {', '.join(stale)}; python {pathlib.Path(__file__).name} --renew writes them")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
