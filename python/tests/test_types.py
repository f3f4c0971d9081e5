"""What is typed is true: generated files are those of this program, its dictionaries are of their types, and mypy agrees."""

import pathlib
import subprocess
import sys
import typing

import pytest

import stepsim
from stepsim import types

PLACE = pathlib.Path(__file__).resolve().parents[1]


def wrong(value, kind, where="it"):
    """The first place in which a value is not of a type; nothing where it is."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is typing.Any:
        return None
    if origin is typing.Union:
        found = [wrong(value, one, where) for one in args]
        return None if None in found else found[0]
    if origin is typing.Literal:
        return None if value in args else f"{where} is {value!r}, not one of {args}"
    if origin is list:
        items = enumerate(value) if isinstance(value, list) else [(0, TypeError)]
        return next((bad for i, item in items if (bad := wrong(item, args[0], f"{where}[{i}]"))), None)
    if origin is dict:
        items = value.items() if isinstance(value, dict) else [("", TypeError)]
        return next((bad for key, item in items if (bad := wrong(item, args[1], f"{where}.{key}"))), None)
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind)
        if not isinstance(value, dict):
            return f"{where} is no dictionary"
        missing, unknown = kind.__required_keys__ - set(value), set(value) - set(hints)
        if missing or unknown:
            return f"{where} misses {sorted(missing)} and has {sorted(unknown)}"
        return next((bad for key, item in value.items() if (bad := wrong(item, hints[key], f"{where}.{key}"))), None)
    kinds = (float, int) if kind is float else kind
    return None if isinstance(value, kinds) and not (kind is int and isinstance(value, bool)) else f"{where} is {value!r}"


@pytest.mark.skipif(sys.version_info < (3, 10), reason="needs typing.is_typeddict")
def test_dictionaries_are_of_their_types():
    noisy = {"noise.compute_sigma": 0.1}
    for workload in ("tiny-4", "gpt3-175b", "llama3-70b-offload", "mixtral-8x7b"):
        assert wrong(stepsim.run(workload).report, types.Report) is None, workload
    assert wrong(stepsim.run("tiny-4", settings=noisy, samples=3).report, types.Report) is None
    rows = stepsim.sweep("gpt2-8", vary={"batch.micro_batch": [1, 3, 4]}, columns=["mean.busy_s"])
    assert wrong(list(rows), typing.List[types.Row]) is None
    found = stepsim.search("tiny-4", fix={"batch.global": 16}, top=3, budget_s=60)
    assert wrong(found.report, types.SearchReport) is None
    assert wrong(stepsim.whatif("tiny-4"), types.WhatIfs) is None
    assert wrong(stepsim.diff("tiny-4", "gpt2-8"), typing.List[types.Line]) is None
    assert wrong(stepsim.compare("tiny-4"), types.Comparison) is None
    profile = stepsim.analyze(PLACE.parent / "examples/data/rank0.json.gz")
    assert wrong(profile, types.ProfileReport) is None
    assert wrong({**profile, "window": "none"}, types.ProfileReport) and wrong({}, types.ProfileReport)
    assert wrong({**found.report, "points": 1.5}, types.SearchReport) and wrong({**rows[0], "more": 1}, types.Row)


def test_what_is_generated_is_of_this_program():
    done = subprocess.run([sys.executable, PLACE / "generate.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_and_stubtest_find_nothing(tmp_path):
    pytest.importorskip("mypy")
    settings = ["--config-file", str(PLACE / "pyproject.toml")]
    done = subprocess.run([sys.executable, "-m", "mypy", *settings, "--cache-dir=/dev/null"], capture_output=True, text=True, cwd=PLACE)
    assert done.returncode == 0, done.stdout
    stubs = [sys.executable, "-m", "mypy.stubtest", "--mypy-config-file", settings[1], "stepsim._native", "--concise"]
    # Elsewhere, since the folder of the sources has no compiled half.
    done = subprocess.run(stubs, capture_output=True, text=True, cwd=tmp_path)
    # pyo3 writes an `__all__` that no stub needs.
    found = [line for line in done.stdout.splitlines() if "__all__" not in line]
    assert not found, done.stdout
