"""The laws of the program hold from Python too: many runs at once are the runs one by one, whatever happens beside them."""

import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import stepsim

SETTINGS = [
    {"batch.global": batch, "parallelism.pipeline.schedule": schedule}
    for batch in (4, 6, 8) for schedule in ("1f1b", "gpipe", "zb-h1")
]


def played(settings, **own):
    """What is known of a run, without how long it took to play."""
    run = stepsim.run("tiny-4", settings=settings, **own)
    report = {key: value for key, value in run.report.items() if key != "simulation_wall_s"}
    return run.step_time_s, report, list(run.slices().rows()), list(run.kernels().rows())


def test_runs_at_once_are_the_runs_one_by_one():
    alone = [played(settings) for settings in SETTINGS]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(played, SETTINGS * 3)) == alone * 3


def test_functions_of_one_thread_price_the_runs_of_that_thread():
    def twice(factor):
        return lambda kernel: factor * 1e-3 if kernel["class"].startswith("gemm") else None

    alone = [played({}, prices=twice(factor)) for factor in range(1, 9)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda factor: played({}, prices=twice(factor)), range(1, 9)))
    assert together == alone and len({seconds for seconds, *_ in alone}) == 8


def test_an_exception_comes_out_as_itself_and_concerns_no_other_run():
    class Own(Exception):
        pass

    raised = Own("of one's own", 7)

    def broken(kernel):
        raise raised

    def work(i):
        if i % 2:
            return played({})
        with pytest.raises(Own) as caught:
            stepsim.run("tiny-4", prices=broken)
        return caught.value is raised

    alone = played({})
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == [True, alone] * 4
    with pytest.raises(Own) as caught:
        stepsim.run("gpt2-8", collectives=lambda op, bytes, group: broken(op))
    assert caught.value is raised


def test_what_is_pickled_is_what_was():
    run = stepsim.run("tiny-4", settings=SETTINGS[1])
    again = pickle.loads(pickle.dumps(run))
    for table in ("slices", "kernels", "ranks", "stalls", "links", "memory"):
        assert list(getattr(again, table)().rows()) == list(getattr(run, table)().rows()), table
    assert again.report == run.report and again.step_time_s == run.step_time_s
    rows = stepsim.sweep("tiny-4", vary={"batch.global": [4, 8]})
    assert list(pickle.loads(pickle.dumps(rows))) == list(rows)
    with pytest.raises(stepsim.InputError) as caught:
        stepsim.run("tiny-4", settings={"batch.global": -1})
    error = pickle.loads(pickle.dumps(caught.value))
    assert type(error) is stepsim.InputError
    assert (str(error), error.path, error.allowed) == (str(caught.value), caught.value.path, caught.value.allowed)


PROGRAM = """
import stepsim
slow = {"parallelism.pipeline.schedule": "zb-auto", "parallelism.pipeline.chunks": None, "batch.global": 6144}
print("begun", flush=True)
while True:
    stepsim.run("gpt3-175b", fold=False, settings=slow)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_interrupt_ends_a_program():
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    try:
        assert program.stdout.readline() == "begun\n"
        time.sleep(0.5)
        program.send_signal(signal.SIGINT)
        _, error = program.communicate(timeout=10)
    finally:
        program.kill()
    assert program.returncode != 0 and "KeyboardInterrupt" in error
