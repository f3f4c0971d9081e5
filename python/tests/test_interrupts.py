"""An interrupt is served soon, leaves nothing half-done, and concerns nobody else."""

import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import stepsim

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

#: Seconds within which an interrupt is served.
SOON = 0.2
SLOW = {"parallelism.pipeline.schedule": "zb-auto", "parallelism.pipeline.chunks": None, "batch.global": 6144}
VARY = {"batch.global": "768:24576:+48", "batch.micro_batch": [1, 2, 3]}
WORK = {
    "run": lambda folder: stepsim.run("gpt3-175b", fold=False, settings=SLOW),
    "sweep": lambda folder: stepsim.sweep("gpt3-175b", vary=VARY, output=folder / "rows.jsonl", resume=True),
    "search": lambda folder: stepsim.search("gpt3-175b", prove=True),
    "whatif": lambda folder: stepsim.whatif("gpt3-175b", settings=SLOW),
    "trace": lambda folder: stepsim.run("gpt3-175b", fold=False).trace(folder / "all.json.gz", ranks="all"),
}


@pytest.fixture(autouse=True)
def interrupts_are_heard():
    """A shell starts what it runs in the background with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(work, after):
    """Seconds from the signal to the exception; what ends before is done again."""
    sent = []

    def send():
        time.sleep(after)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=send).start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            work()
    return time.monotonic() - sent[0]


@pytest.mark.parametrize("name", WORK)
def test_an_interrupt_is_served_soon(name, tmp_path):
    # A machine that does other work may be late some times.
    assert any(interrupted(lambda: WORK[name](tmp_path), after) < SOON for after in (0.2, 0.6, 0.4, 0.3, 0.5))
    # What was called off has ended, and has left no part of a file.
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any("stepsim" == line for line in names_of_threads()):
        time.sleep(0.02)
    assert not any("stepsim" == line for line in names_of_threads())
    assert not [path for path in tmp_path.iterdir() if "partial" in path.name]


def names_of_threads():
    """Of this process, where the system lists them."""
    folder = "/proc/self/task"
    if not os.path.isdir(folder):
        return []
    names = []
    for task in os.listdir(folder):
        try:
            with open(f"{folder}/{task}/comm") as file:
                names.append(file.read().strip())
        except OSError:
            pass
    return names


def test_the_work_of_other_threads_goes_on():
    found = []
    other = threading.Thread(target=lambda: found.append(stepsim.run("gpt3-175b", settings={**SLOW, "batch.global": 768})))
    other.start()
    interrupted(lambda: stepsim.run("gpt3-175b", fold=False, settings=SLOW), 0.2)
    other.join()
    assert found and found[0].step_time_s > 0


def test_a_sweep_goes_on_where_it_was_interrupted(tmp_path):
    vary = {"batch.global": "96:4608:+96"}
    path = tmp_path / "rows.jsonl"
    interrupted(lambda: stepsim.sweep("gpt3-175b", vary=vary, output=path, threads=1, resume=True), 0.3)
    kept = len(path.read_text().splitlines())
    rows = stepsim.sweep("gpt3-175b", vary=vary, output=path, resume=True, closed_form=False)
    assert 0 < kept <= len(rows) == 48 and all(row["status"] == "ok" or row["message"] for row in rows)


def die(*_):
    os._exit(1)


class Dying(ProcessPoolExecutor):
    """A pool whose third task takes its worker along."""

    count = 0

    def submit(self, task, *args, **more):
        self.count += 1
        return super().submit(die if self.count == 3 else task, *args, **more)


def test_a_pool_that_dies_is_told_and_the_sweep_goes_on(tmp_path):
    vary = {"batch.global": "4:80:+4"}
    path = tmp_path / "rows.jsonl"
    with Dying(1, mp_context=get_context("spawn")) as pool, pytest.raises(stepsim.RunError) as caught:
        stepsim.sweep("tiny-4", vary=vary, output=path, engine=pool, parts=10)
    assert "resume=True" in caught.value.hint and str(path) in str(caught.value) and caught.value.__cause__ is not None
    assert 0 < len(path.read_text().splitlines()) < 20
    here = stepsim.sweep("tiny-4", vary=vary)
    assert list(stepsim.sweep("tiny-4", vary=vary, output=path, resume=True)) == list(here)
    with Dying(1, mp_context=get_context("spawn")) as pool, pytest.raises(stepsim.RunError, match="give output="):
        stepsim.sweep("tiny-4", vary=vary, engine=pool, parts=10)
