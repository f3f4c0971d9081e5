"""The functions of commands: each answers what the command writes as JSON."""

import inspect
import json
import pathlib
import subprocess
import sys

import pytest

import stepsim

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "examples" / "data"
RANKS = [DATA / "rank0.json.gz", DATA / "rank1.json.gz"]
# What these two profiles are of, as examples/data/make.sh says.
AS_MEASURED = {"parallelism.data": 2, "batch.global": 8, "model.layers": 4}

#: A call of each function, and the words of the command that writes the same.
CALLS = {
    "inspect": (lambda: stepsim.inspect("tiny-4", rank=2), ["inspect", "tiny-4", "--rank", "2", "--json"]),
    "analyze": (lambda: stepsim.analyze(RANKS, linked=True), ["analyze", *RANKS, "--linked", "--json"]),
    "whatif": (
        lambda: stepsim.whatif("tiny-4", scale={"matrix": 2}, without=["bubble"]),
        ["whatif", "tiny-4", "--scale", "matrix=2", "--without", "bubble", "--json"],
    ),
    "diff": (
        lambda: stepsim.diff("tiny-4", "tiny-4", settings_b={"batch.global": 8}),
        ["diff", "tiny-4", "tiny-4", "--set-b", "batch.global=8", "--json"],
    ),
    "goodput": (lambda: stepsim.goodput("gpt2-8", days=2), ["goodput", "gpt2-8", "--days", "2", "--json"]),
    "estimate": (lambda: stepsim.estimate("gpt2-8", rules=True), ["estimate", "gpt2-8", "--rules", "--json"]),
    "compare": (lambda: stepsim.compare("tiny-4"), ["compare", "tiny-4", "--json"]),
    "import_": (lambda: stepsim.import_(DATA / "config.json"), ["import", DATA / "config.json", "-o", "-"]),
    "share": (
        lambda: stepsim.share(["tiny-4@0-3", "tiny-4@4-7"], "switch:8,100,2"),
        ["share", "tiny-4@0-3", "tiny-4@4-7", "-t", "switch:8,100,2", "--json"],
    ),
    "schedule": (
        lambda: stepsim.schedule(kind="zb-v", stages=4, micro_batches=8),
        ["schedule", "--kind", "zb-v", "-p", "4", "-m", "8", "--json"],
    ),
    "collective": (
        lambda: stepsim.collective("switch:8,450,1", "all-reduce", bytes=[1024, 2048]),
        ["collective", "--topology", "switch:8,450,1", "--op", "all-reduce", "--bytes", "1024,2048", "--json"],
    ),
    "score": (
        lambda: stepsim.score(ROOT / "examples/public-runs.jsonl", every=40),
        ["score", ROOT / "examples/public-runs.jsonl", "--every", "40", "--json"],
    ),
    "learn": (
        lambda: stepsim.learn("gpt2-8", RANKS, "switch:2,450,1", settings=AS_MEASURED),
        [
            "learn", *RANKS, "--workload", "gpt2-8", "-t", "switch:2,450,1",
            *(f"--set={path}={value}" for path, value in AS_MEASURED.items()), "-o", "-",
        ],
    ),
    "kernels": (
        lambda: stepsim.kernels(score=ROOT / "tests/data/kernels.jsonl"),
        ["kernels", "--score", ROOT / "tests/data/kernels.jsonl", "--json"],
    ),
    "knee": (
        lambda: stepsim.knee("tiny-4", field="batch.micro_batch=1,2,4", until="step<1.5x"),
        ["knee", "tiny-4", "--field", "batch.micro_batch=1,2,4", "--until", "step<1.5x", "--json"],
    ),
    "normal": (
        lambda: stepsim.normal("llama3-8b-fsdp", measured="4500tok/s"),
        ["normal", "llama3-8b-fsdp", "--measured", "4500tok/s", "--json"],
    ),
    "fill": (lambda: stepsim.fill("gpt2-8"), ["fill", "gpt2-8", "--json"]),
    "show": (lambda: stepsim.show("tiny-4"), ["show", "tiny-4", "--resolved"]),
    "schema": (lambda: stepsim.schema("row"), ["schema", "row"]),
    "list": (lambda: [stepsim.list("models")], ["list", "models", "--names"]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_function_answers_what_its_command_writes(name):
    call, words = CALLS[name]
    answer = call()
    assert isinstance(answer, (dict, list)) and answer
    if words is None:
        return
    done = subprocess.run(
        [sys.executable, "-m", "stepsim", *map(str, words)], capture_output=True, text=True, timeout=120, check=True
    )
    written = [done.stdout.split()] if name == "list" else json.loads(done.stdout)
    assert without_command(answer) == without_command(written)


def without_command(answer):
    """An answer without the words by which it was asked for, which differ."""
    if isinstance(answer, dict):
        return {key: without_command(value) for key, value in answer.items() if key not in ("command", "learned_from")}
    return [without_command(value) for value in answer] if isinstance(answer, list) else answer


def test_every_function_of_a_command_is_called_here():
    functions = {name for name in dir(stepsim) if inspect.isfunction(getattr(stepsim, name))}
    assert functions - set(CALLS) == {"command", "plan", "run", "search", "sweep"}


def test_a_plan_runs_and_says_where_it_comes_from():
    plan = stepsim.plan("tiny-4")
    assert "tiny" in plan.text and "wrote" not in plan.text and "<pre>" in plan._repr_html_()
    assert plan.answer == json.loads(stepsim.command("plan", "tiny-4", "--json"))["answer"]
    assert stepsim.run(plan).step_time_s == stepsim.run("tiny-4").step_time_s


def test_what_is_shown_is_changed_and_run():
    shown = stepsim.show("tiny-4")
    assert stepsim.run(shown).step_time_s == stepsim.run("tiny-4").step_time_s
    shown["batch"]["global"] = 8
    assert stepsim.run(shown).step_time_s == stepsim.run("tiny-4", settings={"batch.global": 8}).step_time_s


def test_runs_and_dictionaries_stand_where_files_do():
    a, b = stepsim.run("tiny-4"), stepsim.run("tiny-4", settings={"batch.global": 8})
    lines = stepsim.diff(a, b.report)
    assert (lines[0]["what"], lines[0]["a"], lines[0]["b"]) == ("step time", a.step_time_s, b.step_time_s)


def test_other_words_are_a_command():
    assert "zb-v" in stepsim.command("schedule", "--all", "--stages", 4, "--micro-batches", 8)
    assert "--micro-batches" in stepsim.command("schedule", "--help")
    with pytest.raises(stepsim.InputError, match="unrecognized"):
        stepsim.command("simulate")


def test_arguments_that_are_none_are_named():
    with pytest.raises(stepsim.InputError, match="parquet"):
        stepsim.import_(DATA / "config.json", kind="parquet")
    with pytest.raises(stepsim.InputError) as caught:
        stepsim.import_(DATA / "config.json", layers=3)
    assert caught.value.argument == "layers" and "model" in caught.value.allowed
    with pytest.raises(stepsim.InputError) as caught:
        stepsim.whatif("tiny-4", scale={"matrics": 2})
    assert caught.value.argument == "scale" and "matrix" in caught.value.allowed
