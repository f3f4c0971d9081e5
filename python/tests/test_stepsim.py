"""The installed package: what it returns is what the command line's library says, and what is wrong is told apart."""

import json
import multiprocessing
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import pytest

import stepsim

TINY = {
    "topology": "switch:4,100,2",
    "model": {
        "name": "small",
        "source": "made up",
        "layers": 4,
        "hidden": 1024,
        "heads": 8,
        "ffn": 4096,
        "vocabulary": 512,
        "sequence": 1024,
    },
    "batch": {"global": 8, "micro_batch": 1},
    "parallelism": {"pipeline": {"size": 4, "schedule": "1f1b"}, "data": 1},
}


def test_a_run_by_name_dictionary_and_file(tmp_path):
    by_name = stepsim.run("tiny-4", settings={"batch.global": 8})
    assert by_name.report["status"] == "ok" and by_name.report["run"]["workload"]["name"] == "tiny-4"
    assert by_name.step_time_s == by_name.report["step_time_s"] > 0
    by_text = stepsim.run("tiny-4", settings=["batch.global=8"])
    assert by_text.report == by_name.report
    by_dict = stepsim.run(TINY)
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(TINY))
    assert stepsim.run(path).step_time_s == by_dict.step_time_s
    assert stepsim.run(TINY, "switch:4,50,2").step_time_s >= by_dict.step_time_s
    whole = stepsim.run(TINY, fold=False)
    assert whole.step_time_s == by_dict.step_time_s
    assert "tiny-4" in repr(by_name) and "<svg" in by_name._repr_html_()
    assert by_name.html().startswith("<!doctype html>")


def test_the_tables_sum_to_the_report():
    run = stepsim.run("tiny-4")
    ranks, stalls, slices, kernels = run.ranks(), run.stalls(), run.slices(), run.kernels()
    assert sum(ranks["count"]) == run.report["classes"]["ranks"]
    for row in ranks.rows():
        assert row["busy_s"] + row["stalled_s"] == pytest.approx(run.step_time_s, rel=1e-12)
        lost = sum(s["time_s"] for s in stalls.rows() if s["rank"] == row["rank"])
        assert lost == pytest.approx(row["stalled_s"], rel=1e-9, abs=1e-15)
    assert max(slices["end_ps"]) / 1e12 == pytest.approx(run.step_time_s)
    assert sum(kernels["count"]) == len(slices)
    assert set(run.slices([3])["rank"]) == {3}
    peak = max(sum(row[name] for name in row if name.endswith("_bytes")) for row in run.memory().rows() if row["tier"] == "hbm")
    assert peak == run.report["memory"]["hbm"]["peak_bytes"]
    assert run.links()["name"][0] == run.report["links"][0]["name"]
    assert "<table" in ranks._repr_html_() and "columns" not in repr(ranks)
    with pytest.raises(stepsim.InputError, match="not in the run"):
        run.slices([4])
    with pytest.raises(ValueError, match="busy_s"):
        ranks["busy"]


def test_arrow_without_copying():
    pyarrow = pytest.importorskip("pyarrow")
    table = stepsim.run("tiny-4").slices()
    arrow = pyarrow.table(table)
    assert arrow.num_rows == len(table) and arrow.column_names == table.column_names
    assert arrow["start_ps"].to_pylist() == table["start_ps"]
    # Asked twice, the same buffers are handed out.
    again = pyarrow.table(table)
    address = lambda t: t["start_ps"].chunk(0).buffers()[1].address
    assert address(arrow) == address(again)
    polars = pytest.importorskip("polars")
    assert table.to_polars()["name"].to_list() == table["name"]
    pytest.importorskip("pandas")
    assert list(table.to_pandas()["end_ps"]) == table["end_ps"]


def test_closed_form_comparison_and_names():
    form = stepsim.estimate("gpt2-8")
    assert form.total_s == pytest.approx(sum(form["terms"].values())) and "<svg" in form._repr_html_()
    both = stepsim.compare(TINY)
    assert both["simulated_s"] == stepsim.run(TINY).step_time_s
    assert "gpt2-8" in stepsim.list() and "h100-sxm" in stepsim.list("devices")
    with pytest.raises(stepsim.InputError, match="devices"):
        stepsim.list("things")


def test_what_is_wrong_is_told_in_parts():
    with pytest.raises(stepsim.InputError) as caught:
        stepsim.run("gpt2-8", settings={"parallelism.tensr": 2})
    error = caught.value
    assert isinstance(error, ValueError) and "tensr" in error.path and "--set" in error.file
    assert "tensor" in error.hint and error.hint in str(error)
    with pytest.raises(stepsim.InputError) as caught:
        stepsim.run({**TINY, "batch": {"global": "many"}})
    assert caught.value.path == "batch.global" and caught.value.allowed and "many" in str(caught.value)
    with pytest.raises(stepsim.InputError) as caught:
        stepsim.run(TINY, settings={"batch.micro_batch": 0})
    assert caught.value.path == "batch.micro_batch" and caught.value.value == "0"
    with pytest.raises(stepsim.InputError, match="cannot be read"):
        stepsim.estimate("no/such.json")
    with pytest.raises(stepsim.OutOfMemoryError) as caught:
        stepsim.run("gpt2-8", settings={"topology.device.hbm.GB": 1})
    assert caught.value.out_of_memory["capacity_bytes"] <= 2**30
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.path, str(again)) == (type(error), error.path, str(error))
    with pytest.raises(stepsim.InputError) as caught:
        stepsim.run("gpt2-8", settings="batch.global=8")
    assert caught.value.argument == "settings"


def test_a_sweep_is_its_runs(tmp_path):
    told = []
    path = tmp_path / "rows.jsonl"
    vary = {"batch.global": "8:32:x2", "parallelism.pipeline.schedule": ["1f1b", "gpipe"]}
    rows = stepsim.sweep(TINY, vary=vary, output=path, progress=told.append)
    assert len(rows) == 6 and told[-1] == 6 and len(rows.ok()) == 6
    for row in rows:
        assert row["step_time_s"] == stepsim.run(TINY, settings=row["settings"]).step_time_s
    assert rows.best()["step_time_s"] == min(row["step_time_s"] for row in rows)
    assert rows.best("mfu")["mfu"] == max(row["mfu"] for row in rows)
    assert [json.loads(line) for line in path.read_text().splitlines()] == list(rows)
    with pytest.raises(stepsim.InputError, match="there already"):
        stepsim.sweep(TINY, vary=vary, output=path)
    parts = [stepsim.sweep(TINY, vary=vary, shard=(i, 2)) for i in (1, 2)]
    assert sorted(r["key"] for part in parts for r in part) == sorted(r["key"] for r in rows)
    assert "<table" in rows._repr_html_() and rows.records()[0]["batch.global"] == 8
    zipped = stepsim.sweep(TINY, zip={"batch.global": [8, 16], "batch.micro_batch": [1, 2]}, closed_form=True)
    assert [row["settings"]["batch.micro_batch"] for row in zipped] == [1, 2]
    few = stepsim.sweep(TINY, vary=vary, where="batch.global >= 16", sample=2, closed_form=True)
    assert len(few) == 2 and all(row["settings"]["batch.global"] >= 16 for row in few)
    with pytest.raises(stepsim.InputError, match="too many"):
        stepsim.sweep(TINY, vary={"batch.global": "1:1000000:+1", "batch.micro_batch": "1:1000000:+1"})


def test_a_sweep_that_is_interrupted_goes_on(tmp_path):
    path = tmp_path / "rows.jsonl"
    vary = {"batch.global": "4:80:+4"}

    def stop(done):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stepsim.sweep(TINY, vary=vary, output=path, threads=1, progress=stop)
    kept = path.read_text().splitlines()
    assert 5 <= len(kept) < 20
    rows = stepsim.sweep(TINY, vary=vary, output=path, resume=True)
    assert list(rows) == list(stepsim.sweep(TINY, vary=vary))


def test_a_sweep_on_other_processes_is_the_same(tmp_path):
    path = tmp_path / "rows.jsonl"
    vary = {"batch.global": "4:80:+4"}
    here = stepsim.sweep(TINY, vary=vary)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        told = []
        there = stepsim.sweep(TINY, vary=vary, output=path, engine=pool, parts=7, progress=told.append)
        assert list(there) == list(here) and told[-1] == 20 and len(told) == 7
        whole = path.read_text()
        assert [json.loads(line) for line in whole.splitlines()] == list(here)
        with pytest.raises(stepsim.InputError, match="there already"):
            stepsim.sweep(TINY, vary=vary, output=path, engine=pool)
        # Killed in the middle of a row: only the parts that miss points are done again.
        path.write_text(whole[: int(0.8 * len(whole))])
        told.clear()
        again = stepsim.sweep(TINY, vary=vary, output=path, engine=pool, parts=20, resume=True, progress=told.append)
        assert list(again) == list(here) and path.read_text() == whole and 3 <= len(told) <= 6
        with pytest.raises(stepsim.InputError, match="no points of this study"):
            stepsim.sweep(TINY, vary={"batch.global": [4]}, output=path, engine=pool, resume=True)
    with pytest.raises(stepsim.InputError, match="executor"):
        stepsim.sweep(TINY, vary=vary, engine="slurm")


def test_a_search_ends_with_a_workload_that_runs():
    with pytest.raises(ValueError, match="tokens_per_device"):
        stepsim.search(TINY, objective="speed")
    found = stepsim.search(TINY, fix={"batch.global": 16}, vary={"parallelism.tensor": [1, 2]}, top=3)
    first = found.ranking[0]
    assert found.report["simulated"] + sum(found.report["pruned"].values()) == found.report["points"]
    assert stepsim.run(found.best).step_time_s == first["step_time_s"]
    assert stepsim.run(TINY, settings=first["sets"]).step_time_s == first["step_time_s"]
    assert "<table" in found._repr_html_()


def test_other_threads_run_meanwhile():
    beats, over = [], threading.Event()

    def beat():
        while not over.is_set():
            beats.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=beat)
    thread.start()
    begun = time.monotonic()
    stepsim.run("gpt3-175b", settings={"fidelity.collectives": "fluid"})
    ended = time.monotonic()
    over.set()
    thread.join()
    during = sum(begun < at < ended for at in beats)
    assert during >= 3, f"{during} beats in {ended - begun:.3f} s"


def test_an_import_brings_only_what_is_used():
    # What is executed with the first use: a lazy module has a class of its own until then.
    code = "import sys, stepsim; print([m for m in ('tempfile', 'concurrent.futures') if m in sys.modules], {}(stepsim.types).__name__)"
    said = [subprocess.check_output([sys.executable, "-c", code.format(use)], text=True).strip() for use in ("type", "stepsim.types.Report and type")]
    assert said == ["[] _LazyModule", "[] module"]
