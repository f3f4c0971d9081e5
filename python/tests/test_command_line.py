"""The command that the wheel brings: the whole program, with its exit statuses and its ways with pipes and interrupts."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time

import pytest

import stepsim

#: The script where it was installed, and the module.
PROGRAM = [shutil.which("stepsim", path=sysconfig.get_path("scripts"))]
MODULE = [sys.executable, "-m", "stepsim"]


def said(*words, program=PROGRAM, **more):
    return subprocess.run([*program, *words], capture_output=True, text=True, timeout=120, **more)


@pytest.mark.parametrize("program", [PROGRAM, MODULE], ids=["script", "module"])
def test_it_is_the_whole_program(program):
    done = said("--version", program=program)
    assert (done.returncode, done.stdout.strip()) == (0, f"stepsim {stepsim.__version__}")
    commands = said("--help", program=program).stdout
    assert all(f"  {name} " in commands for name in ("run", "plan", "search", "goodput", "learn", "man", "open"))


def test_exit_statuses_are_those_of_the_program(tmp_path):
    assert said("run", "tiny-4", "-q").returncode == 0
    wrong = said("run", "tiny-5")
    assert wrong.returncode == 2 and "tiny-4" in wrong.stderr and wrong.stdout == ""
    assert said("run", "tiny-4", "--report", str(tmp_path / "no" / "report.json")).returncode == 1
    full = said("run", "gpt2-8", "-q", "--set", "topology.device.hbm.GB=1")
    assert full.returncode == 3 and "out of memory" in full.stderr
    assert said("run", "--no-such-option").returncode == 2


def test_the_report_is_that_of_the_functions():
    done = said("run", "tiny-4", "-q", "--set", "batch.global=8", "--report", "-")
    report = stepsim.run("tiny-4", settings={"batch.global": 8}).report
    import json

    command = json.loads(done.stdout)
    # The command knows how it was typed.
    assert command["run"].pop("command")[:2] == ["stepsim", "run"] and command["run"].pop("settings") == ["batch.global=8"]
    for name in ("command", "settings"):
        report["run"].pop(name, None)
    assert command == report


def test_a_reader_that_has_enough_is_no_failure():
    writer = subprocess.Popen([*PROGRAM, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    writer.stdout.close()
    assert writer.wait(timeout=60) == 0 and writer.stderr.read() == b""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_interrupt_ends_it_and_leaves_no_partial_file(tmp_path):
    trace = tmp_path / "all.json.gz"
    words = ["run", "gpt3-175b", "-q", "--no-fold", "--trace-ranks=all", "--set=stack=null", "-o", str(trace)]
    writer = subprocess.Popen([*PROGRAM, *words], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 100
    while not any(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    writer.send_signal(signal.SIGINT)
    sent = time.monotonic()
    assert writer.wait(timeout=60) == 130
    assert time.monotonic() - sent < 1 and list(tmp_path.iterdir()) == []
