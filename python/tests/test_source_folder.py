"""The folder of the sources says what to do where it is not built."""

import pathlib
import shutil
import subprocess
import sys

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "stepsim"


def test_sources_that_are_not_built_say_so(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "stepsim", ignore=shutil.ignore_patterns("_native.*.so", "*.pyd", "__pycache__"))
    done = subprocess.run([sys.executable, "-c", "import stepsim"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "maturin develop" in done.stderr and "pip install" in done.stderr
