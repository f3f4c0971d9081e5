"""The notebooks run, and what they show is what they have shown."""

import json
import pathlib
import subprocess
import sys

import pytest

NOTEBOOKS = pathlib.Path(__file__).resolve().parents[1] / "notebooks"


def test_the_notebooks_show_what_they_keep():
    for needed in ("matplotlib", "pandas", "pyarrow"):
        pytest.importorskip(needed)
    done = subprocess.run([sys.executable, NOTEBOOKS / "run.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_notebook_has_outputs():
    paths = sorted(NOTEBOOKS.glob("*.ipynb"))
    assert [path.stem for path in paths] == ["first-step", "own-schedule", "study"]
    for path in paths:
        cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
        assert sum(bool(cell["outputs"]) for cell in cells) >= len(cells) - 1, path.name
        assert path.stat().st_size < 150_000
