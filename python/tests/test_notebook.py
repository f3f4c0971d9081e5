"""The notebook of examples/, cell by cell, without the machinery of notebooks."""

import ast
import json
from pathlib import Path

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "layout.ipynb"


def test_the_notebook_runs():
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    names, shown = {}, 0
    for cell in cells:
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, str(NOTEBOOK), "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
            if hasattr(value, "_repr_html_"):
                assert value._repr_html_().startswith("<")
                shown += 1
    assert shown == 3
