"""Schedules, prices, times of collectives and machines of one's own: the examples run, and what is wrong is told."""

import pathlib
import pickle
import runpy
import threading

import pytest

import stepsim

EXAMPLES = sorted((pathlib.Path(__file__).resolve().parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run_and_are_short(example):
    runpy.run_path(str(example))
    code = [line for line in example.read_text().splitlines() if line.strip() and not line.strip().startswith(('"""', "#"))]
    assert len(code) <= 24


def test_an_order_may_be_said_in_several_ways():
    workload = {"base": "tiny-4", "batch": {"global": 4, "micro_batch": 1}, "parallelism": {"pipeline": {"size": 2}, "data": 2}}
    ranks = ["F0 F1 B0 B1", "F0 B0 F1 B1"]
    same = [
        ranks,
        {"ranks": ranks},
        {"0": ranks[0], "1": ranks[1]},
        {1: ranks[1].split(), 0: ranks[0].split()},
        lambda stages, micro_batches: ranks[:stages],
    ]
    times = {stepsim.run(workload, order=order).step_time_s for order in same}
    assert times == {stepsim.run(workload, settings={"parallelism.pipeline.schedule": "1f1b"}).step_time_s}
    with pytest.raises(stepsim.InputError) as caught:
        stepsim.run(workload, order={"0": "F0 B0", "2": "F0 B0"})
    assert caught.value.argument == "order" and "0 to 1" in str(caught.value)
    with pytest.raises(stepsim.InputError, match="F2"):
        stepsim.run(workload, order=["F0 F1 B0 F2", "F0 B0 F1 B1"])


def test_a_function_is_asked_once_for_each_kernel():
    asked = []
    run = stepsim.run("tiny-4", prices=lambda kernel: asked.append(repr(kernel)))
    assert len(asked) == len(set(asked)) and run.step_time_s == stepsim.run("tiny-4").step_time_s
    run.slices(), run.report, run.stalls()
    assert len(asked) == len(set(asked))


def test_every_product_costs_what_it_was_priced_at():
    run = stepsim.run("tiny-4", prices=lambda kernel: 1e-3 if kernel["class"].startswith("gemm") else 0)
    times = {round(row["time_s"] / row["count"], 9) for row in run.kernels().rows() if row["stream"] == "compute"}
    assert times == {0.0, 1e-3}
    assert run.step_time_s > stepsim.run("tiny-4").step_time_s


def test_times_of_collectives_hold():
    asked = []

    def quarter(op, bytes, group):
        asked.append((op, bytes, group))
        return 0.25

    run = stepsim.run("gpt2-8", collectives=quarter)
    ops = [row for row in run.slices().rows() if row["kind"] == "dp"]
    assert {row["end_ps"] - row["start_ps"] for row in ops} == {250_000_000_000}
    assert len(asked) == len(set(asked)) and {group for _, _, group in asked} == {stepsim.Group(ranks=8, nodes=1)}
    assert {bytes for _, bytes, _ in asked} == {int(row["bytes"]) for row in ops}
    rows = [{"op": "all-reduce", "time_s": 0.25}]
    assert stepsim.run("gpt2-8", collectives=rows).step_time_s == run.step_time_s


def test_runs_with_functions_can_be_pickled():
    run = stepsim.run("tiny-4", prices=lambda kernel: kernel["flops"] / 1e14 if kernel["flops"] else None)
    again = pickle.loads(pickle.dumps(run))
    assert list(again.slices().rows()) == list(run.slices().rows()) and again.report == run.report
    assert list(pickle.loads(pickle.dumps(again)).kernels().rows()) == list(run.kernels().rows())


def test_what_a_function_raises_is_raised_and_what_it_gives_is_checked():
    def broken(kernel):
        raise LookupError(kernel["class"])

    with pytest.raises(LookupError):
        stepsim.run("tiny-4", prices=broken)
    for wrong in ("much", -1.0, float("nan")):
        with pytest.raises(stepsim.InputError) as caught:
            stepsim.run("tiny-4", prices=lambda kernel: wrong)
        assert caught.value.argument == "prices", wrong
    with pytest.raises(stepsim.InputError) as caught:
        stepsim.run("gpt2-8", collectives=lambda op, bytes, group: -2)
    assert caught.value.argument == "collectives"
    with pytest.raises(stepsim.InputError, match="time_s"):
        stepsim.run("tiny-4", prices=[{"class": "gemm"}])


def test_prices_that_were_learned():
    found = stepsim.learn("gpt2-8", measured="0.55s")
    priced = stepsim.run("gpt2-8", prices=found)
    assert priced.step_time_s == pytest.approx(0.55, rel=0.01) != stepsim.run("gpt2-8").step_time_s


def test_a_function_is_asked_without_holding_other_threads():
    inside, other = threading.Event(), threading.Event()

    def price(kernel):
        inside.set()
        assert other.wait(20)

    waiting = threading.Thread(target=lambda: inside.wait(20) and other.set())
    waiting.start()
    stepsim.run("tiny-4", prices=price)
    waiting.join()


@pytest.mark.parametrize("argument, rows", [
    ("prices", [{"klass": "gemm", "time_s": 1e-3}]),
    ("prices", [{"class": "no-such-class", "time_s": 1e-3}]),
    ("collectives", [{"op": "all-reduce", "ranks": 3, "time_s": 1e-3}]),
])
def test_rows_that_are_of_nothing_in_the_step_are_named(argument, rows):
    with pytest.raises(stepsim.InputError, match="at least one is of this step") as caught:
        stepsim.run("tiny-4", **{argument: rows})
    assert caught.value.argument == argument


def test_empty_cells_say_nothing():
    nothing = float("nan")
    rows = [{"class": "gemm", "name": nothing, "time_s": 1e-3}, {"class": "norm", "name": None, "time_s": 1e-3}]
    said = [{"class": "gemm", "time_s": 1e-3}, {"class": "norm", "time_s": 1e-3}]
    assert stepsim.run("tiny-4", prices=rows).step_time_s == stepsim.run("tiny-4", prices=said).step_time_s
    with pytest.raises(stepsim.InputError, match="time_s"):
        stepsim.run("tiny-4", prices=[{"class": "gemm", "time_s": nothing}])
