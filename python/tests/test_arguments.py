"""What may be written as an argument, and that what is wrong is named."""

import os
import pathlib

import pytest

import stepsim


def step(**settings):
    return stepsim.run("tiny-4", settings=settings.get("settings")).step_time_s


def test_numbers_of_numpy_and_rows_of_pandas():
    numpy = pytest.importorskip("numpy")
    pandas = pytest.importorskip("pandas")
    eight = step(settings={"batch.global": 8})
    assert step(settings={"batch.global": numpy.int64(8)}) == eight
    assert step(settings=pandas.Series({"batch.global": 8.0, "batch.micro_batch": float("nan")})) == eight
    frame = pandas.DataFrame({"batch.global": [8, 16], "noise.compute_sigma": [0.0, 0.5]})
    assert [step(settings=row) for _, row in frame.iterrows()][0] == eight
    rows = stepsim.sweep("tiny-4", vary={"batch.global": numpy.array([8, 16])})
    assert [row["settings"]["batch.global"] for row in rows] == [8, 16] and rows[0]["step_time_s"] == eight
    noise = {"noise.compute_sigma": 0.1}
    assert stepsim.run("tiny-4", settings=noise, samples=numpy.int32(2)).samples["count"] == 2
    split = {"parallelism.pipeline.layer_split": numpy.array([1, 1, 1, 1])}
    assert step(settings=split) == step()


def test_paths(tmp_path, monkeypatch):
    model = stepsim.show("tiny-4")["model"]
    import json

    (tmp_path / "model.json").write_text(json.dumps(model))
    assert step(settings={"model": tmp_path / "model.json"}) == step()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny-4").write_text(json.dumps({**stepsim.show("tiny-4"), "batch": {"global": 8, "micro_batch": 1}}))
    assert stepsim.run(pathlib.Path("tiny-4")).step_time_s == step(settings={"batch.global": 8})
    assert stepsim.run("tiny-4").step_time_s == step()


#: Wrong calls, the argument that is to blame, and a word of what is allowed there.
WRONG = [
    (lambda: stepsim.run("tiny-4", samples=2.5), "samples", "whole"),
    (lambda: stepsim.run("tiny-4", seed=-1), "seed", "-1"),
    (lambda: stepsim.run("tiny-4", seed=2**64), "seed", str(2**64)),
    (lambda: stepsim.run("tiny-4", samples=0), "samples", "from 1 to "),
    (lambda: stepsim.run("tiny-4", fold="no"), "fold", "True or False"),
    (lambda: stepsim.run(7), "workload", "a name"),
    (lambda: stepsim.run("tiny-4", 7), "topology", "a name"),
    (lambda: stepsim.run("tiny-4", settings="batch.global=8"), "settings", "dictionary"),
    (lambda: stepsim.run("tiny-4", settings=[8]), "settings", "path=value"),
    (lambda: stepsim.run("tiny-4", settings=8), "settings", "dictionary"),
    (lambda: stepsim.run("tiny-4", settings={"batch.global": float("inf")}), "settings", "finite"),
    (lambda: stepsim.run("tiny-4", settings={"batch.global": object()}), "settings", "JSON"),
    (lambda: stepsim.run("tiny-4").slices([-1]), "ranks", "0"),
    (lambda: stepsim.run("tiny-4").slices([1.5]), "ranks", "whole"),
    (lambda: stepsim.sweep("tiny-4", vary={"batch.global": 8}), "vary", "list"),
    (lambda: stepsim.sweep("tiny-4", vary=["batch.global"]), "vary", "dictionary"),
    (lambda: stepsim.sweep("tiny-4", vary={"batch.global": [8]}, threads=0), "threads", "from 1"),
    (lambda: stepsim.sweep("tiny-4", vary={"batch.global": [8]}, sample=-1), "sample", "from 1"),
    (lambda: stepsim.sweep("tiny-4", vary={"batch.global": [8]}, seed=-1), "seed", "from 0"),
    (lambda: stepsim.sweep("tiny-4", vary={"batch.global": [8]}, shard=(3, 2)), "shard", "from 1 to n"),
    (lambda: stepsim.sweep("tiny-4", vary={"batch.global": [8]}, shard=3), "shard", "two"),
    (lambda: stepsim.sweep("tiny-4", vary={"batch.global": [8]}, output=3), "output", "path"),
    (lambda: stepsim.sweep("tiny-4", vary={"batch.global": [8]}, engine="slurm"), "engine", "executor"),
    (lambda: stepsim.search("tiny-4", objective="speed"), "objective", "tokens_per_device"),
    (lambda: stepsim.search("tiny-4", top=0), "top", "from 1"),
    (lambda: stepsim.search("tiny-4", margin="wide"), "margin", "number"),
    (lambda: stepsim.search("tiny-4", devices=64), "devices", "two"),
    (lambda: stepsim.collective("switch:8,450,1", "all-reduce", fidelity="fine"), "fidelity", "steps"),
    (lambda: stepsim.analyze(3), "traces", ""),
]


@pytest.mark.parametrize("call, argument, allowed", WRONG)
def test_what_is_wrong_is_named(call, argument, allowed):
    with pytest.raises(stepsim.InputError) as caught:
        call()
    error = caught.value
    assert error.argument == argument, str(error)
    assert allowed in str(error) and isinstance(error, ValueError)


def test_the_file_is_to_blame_where_it_is():
    with pytest.raises(stepsim.InputError) as caught:
        stepsim.run({"base": "tiny-4", "batch": {"global": "many"}})
    assert caught.value.path == "batch.global" and caught.value.argument in ("", "workload")
    assert not os.path.exists("tiny-4")
