"""A run after it was made: cheap until more is asked of it, and then whole."""

import gzip
import json
import pickle
import pydoc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import stepsim

STEP = {"batch.global": 64, "parallelism.pipeline.schedule": "zb-h1"}


def test_figures_are_those_of_the_report():
    for workload in ("tiny-4", "gpt2-8", "llama3-8b-fsdp"):
        run = stepsim.run(workload)
        for name in ("step_time_s", "mfu", "tokens_per_s"):
            assert getattr(run, name) == run.report[name], (workload, name)
        assert run.memory_peak_bytes == run.report["memory"]["hbm"]["peak_bytes"]


def test_nothing_that_is_asked_changes_what_is_found():
    long = {"batch.global": 256}
    first, second = stepsim.run("tiny-4", settings=long), stepsim.run("tiny-4", settings=long)
    second.slices([0])
    assert "jumped" in first.report and first.report == second.report


def test_a_timeline_is_that_of_the_command(tmp_path):
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    run = stepsim.run("tiny-4", settings={"batch.global": 8})
    assert run.trace(ours, ranks=[0, 2], detail="layer", links=2) == ours
    words = ["--set", "batch.global=8", "-o", theirs, "--trace-ranks", "0,2", "--detail", "layer", "--trace-links", 2]
    stepsim.command("run", "tiny-4", "-q", *words)
    assert ours.read_bytes() == theirs.read_bytes()
    run.trace(str(tmp_path / "packed.json.gz"))
    assert json.loads(gzip.decompress((tmp_path / "packed.json.gz").read_bytes()))
    run.trace(tmp_path / "ranks", format="kineto")
    assert len(list((tmp_path / "ranks").iterdir())) == 4
    for wrong, argument in [({"ranks": [4]}, "trace_ranks"), ({"detail": "kernel"}, "detail"), ({"links": -1}, "trace_links")]:
        with pytest.raises(stepsim.InputError) as caught:
            run.trace(tmp_path / "none.json", **wrong)
        assert caught.value.argument == argument or "--trace-ranks" in str(caught.value)
        assert not (tmp_path / "none.json").exists()
    with pytest.raises(stepsim.InputError, match="jpg"):
        run.trace(tmp_path / "step.jpg")


def test_slices_say_with_whom_over_what_and_why():
    run = stepsim.run("tiny-4")
    rows = list(run.slices([1]).rows())
    sends = [row for row in rows if row["stream"] == "pp send"]
    assert sends and all(row["peer"] in (0, 2) and row["link"] and row["bytes"] > 0 for row in sends)
    kernels = [row for row in rows if row["stream"] == "compute"]
    assert all(row["peer"] is None and row["group"] == "" for row in kernels)
    held = sum(row["waited_s"] for row in kernels)
    (rank,) = (row for row in run.ranks().rows() if row["rank"] == 1)
    after_the_last = run.step_time_s - max(row["end_ps"] for row in kernels) / 1e12
    assert held + after_the_last == pytest.approx(rank["stalled_s"], rel=1e-9)
    assert {row["cause"] for row in kernels} - {""} <= {row["cause"] for row in run.stalls().rows()}
    groups = {row["group"] for row in stepsim.run("gpt3-175b").slices([0]).rows()}
    assert {"0-7", "0-120:8"} <= groups


def test_whole_numbers_stay_whole_in_pandas():
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = stepsim.run("tiny-4").slices().to_pandas()
    assert frame["layer"].isna().any() and str(frame["layer"].dtype) == "UInt32"
    assert all(str(frame[name].dtype).lower().startswith("uint") for name in ("rank", "micro_batch", "peer", "start_ps"))


def test_readings_of_the_report():
    run = stepsim.run("tiny-4")
    bars = run.waterfall()
    assert sum(bar["share"] for bar in bars) + run.mfu == pytest.approx(1)
    candidates = run.candidates()
    assert candidates
    assert candidates == json.loads(stepsim.command("run", "tiny-4", "--why", "--report", "-"))["candidates"]
    page = run.html(ranks="all")
    assert page.startswith("<!doctype html>") and "rank 3" in page


def test_what_a_notebook_shows_is_small():
    for workload in ("tiny-4", "gpt3-175b"):
        shown = stepsim.run(workload)._repr_html_()
        assert "<svg" in shown and "MFU" in shown and len(shown.encode()) < 150_000


def test_a_drawing():
    pytest.importorskip("matplotlib").use("Agg")
    axes = stepsim.run("tiny-4").plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"rank {rank}" for rank in range(4)]
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {"forward", "backward"}
    end = max(path.vertices[:, 0].max() for drawn in axes.collections for path in drawn.get_paths())
    assert end == pytest.approx(1e3 * stepsim.run("tiny-4").step_time_s)


def test_samples():
    noisy = {"noise.compute_sigma": 0.05}
    run = stepsim.run("tiny-4", settings=noisy, samples=8, seed=3)
    assert run.samples["count"] == 8 and run.samples["seed"] == 3
    times = [stepsim.run("tiny-4", settings=noisy, seed=3 + i).step_time_s for i in range(8)]
    assert run.samples["min_s"] == min(times) and run.samples["max_s"] == max(times)
    assert stepsim.run("tiny-4").samples is None
    with pytest.raises(stepsim.InputError, match="no noise") as caught:
        stepsim.run("tiny-4", samples=2)
    assert caught.value.argument == "samples"


def test_runs_go_to_other_processes_and_come_back(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(stepsim.show("tiny-4")))
    run = stepsim.run(path, settings={"batch.global": 8})
    again = pickle.loads(pickle.dumps(run))
    assert again.step_time_s == run.step_time_s and again.report == run.report
    assert list(again.stalls().rows()) == list(run.stalls().rows())
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(stepsim.run, ["tiny-4", path]))
    assert found[0].step_time_s == stepsim.run("tiny-4").step_time_s and len(found[1].slices()) == len(found[0].slices())
    # What it was made of has changed: it does not make up the rest.
    packed = pickle.dumps(run)
    path.write_text(json.dumps({**stepsim.show("tiny-4"), "sequence": 512}))
    with pytest.raises(stepsim.InputError, match="run it again"):
        pickle.loads(packed).slices()


def test_public_names_alone_are_shown():
    shown = dir(stepsim)
    assert not [name for name in shown if name.startswith("_") and name != "__version__"]
    assert "list" in shown and "list" not in stepsim.__all__ and set(stepsim.__all__) == set(shown) - {"list"}
    for name in shown:
        assert pydoc.getdoc(getattr(stepsim, name)) or name == "__version__", name
