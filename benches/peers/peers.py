#!/usr/bin/env python3
"""CPU seconds of stepsim and of other tools on the same questions, side by side, on this machine.

    benches/peers/peers.py STEPSIM --calculon DIR --simumax DIR --cluster DIR --traces DIR [--python PYTHON]

Each folder is a checkout of the tool, --traces one of PyTorch profiles (rank0.json.gz, …); what is not given is left
out. PYTHON has what they import (numpy, pandas; HolisticTraceAnalysis, TraceLens, simpy); node and esbuild run the
third. Each line is the least of three runs, taken in turns: user and system time of the process and of its children.
It prints the table of docs/developers/peers.md.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# Sizes of pipelines that divide the layers of each model.
PIPES = {"gpt3-175b": "1,2,4,8", "llama3-70b": "1,2,4,8", "llama3-405b": "1,2"}


def cpu_s(command, folder, env=None):
    """CPU seconds of a command, which must succeed."""
    with tempfile.TemporaryFile() as said:
        env = {**os.environ, **(env or {})}
        child = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said, env=env, stdin=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            said.seek(0)
            sys.exit(f"{' '.join(map(str, command))}: status {child.returncode}\n{said.read().decode()[-2000:]}")
    return used.ru_utime + used.ru_stime


def unit(s):
    for name, size, digits in [("s", 1, 2), ("ms", 1e-3, 2), ("µs", 1e-6, 1)]:
        if s >= size or name == "s" and s >= 0.1:
            return f"{s / size:.{digits}f} {name}"
    return f"{1e9 * s:.0f} ns"


def row(question, tool, theirs, ours, count=1, own=1):
    """A line: least CPU seconds for one thing on both sides, in turns so that a busy machine is busy for both; `own` is
    a number of things, or the file with a row for each."""
    pairs = [(cpu_s(*theirs), cpu_s(*ours)) for _ in range(3)]
    if isinstance(own, pathlib.Path):
        rows = own.read_text()
        fit, own = rows.count('"status":"ok"'), rows.count("\n")
        question += f", {fit:,} of {own:,} fit"
    other, mine = (min(side) / things for side, things in zip(zip(*pairs), (count, own)))
    ratio = other / mine
    print(f"| {question} | {tool} | {unit(other)} | {unit(mine)} | {ratio:.{0 if ratio >= 10 else 2}f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stepsim")
    for name in ["calculon", "simumax", "cluster", "traces"]:
        parser.add_argument(f"--{name}", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    asked = parser.parse_args()
    stepsim, python = pathlib.Path(asked.stepsim).resolve(), asked.python
    work = pathlib.Path(tempfile.mkdtemp(prefix="peers-"))
    layouts = lambda model, machine, name: [
        stepsim, "sweep", model, "-t", machine, "--threads", "1", "--closed-form", "-o", work / name,
        "--set", "stack=simple", "--set", "parallelism.data=null", "--set", "parallelism.pipeline.chunks=null",
        "--set", "parallelism.pipeline.layer_split=null",
        "--vary", "parallelism.tensor=1,2,4,8", "--vary", f"parallelism.pipeline.size={PIPES[model]}",
        "--vary", "batch.micro_batch=1,2,4", "--vary", "recompute.granularity=none,selective,full",
        "--vary", "parallelism.sharding.kind=none,zero1,zero3", "--vary", "batch.global=512:4096:+512",
    ]
    many = lambda *of: ["sh", "-c", 'rm -f "$1"; shift; exec "$@"', "sh", work / of[2], *layouts(*of)]
    print("| question | other tool | its CPU time | stepsim's | ratio |\n|--|--|--|--|--|")

    if asked.calculon:
        files = ["models/megatron-1T.json", "examples/3072_t4_p64_d12_mbs4_full.json", "systems/a100_80g.json"]
        path = {"PYTHONPATH": "."}
        theirs = ([python, "bin/calculon", "llm", *files, "-"], asked.calculon, path)
        ours = ([stepsim, "estimate", *files], asked.calculon)
        row("one step in closed form, from files", "Calculon", theirs, ours)
        theirs = ([python, HERE / "calculon_loop.py", "3000", *files], asked.calculon, path)
        ours = (many("gpt3-175b", "h100-superpod-128", "gpt3"), work)
        row("a layout among many in closed form", "Calculon", theirs, ours, 3000, work / "gpt3")
    if asked.simumax:
        path = {"PYTHONPATH": "..:."}
        step = ["llama3-8b-fsdp", "--set", "stack=simple"]
        theirs = ([python, "perf_llama3_8b_tp1_pp2.py"], asked.simumax / "examples", path)
        row("Llama 3 8B on 8 devices in closed form", "SimuMax", theirs, ([stepsim, "estimate", *step], work))
        theirs = ([python, "simulator_trace_snapshot.py"], asked.simumax / "examples", path)
        ours = ([stepsim, "run", *step, "-q", "-o", work / "step.json"], work)
        row("a step with a timeline: two layers of a Llama, Llama 3 8B here", "SimuMax", theirs, ours)
    if asked.cluster:
        bundle = work / "cluster.mjs"
        script = (HERE / "cluster.ts").read_text().replace("CHECKOUT", str(asked.cluster.resolve()))
        (work / "cluster.ts").write_text(script)
        how = ["--bundle", "--platform=node", "--format=esm", "--log-level=error", f"--outfile={bundle}"]
        subprocess.run(["esbuild", *how, work / "cluster.ts"], check=True)
        for model, machine in [("llama3-70b", "h100-superpod-128"), ("llama3-405b", "h100-superpod-1024")]:
            theirs = (["node", bundle, model, "20000"], work)
            ours = (many(model, machine, model), work)
            question = f"a layout of {model} among many in closed form"
            row(question, "llm-cluster-simulator", theirs, ours, 20000, work / model)
    if asked.traces:
        for tool in ["HTA", "TraceLens"]:
            theirs = ([python, HERE / "where_time_went.py", tool, asked.traces.resolve()], work)
            ranks = sorted(asked.traces.resolve().glob("rank*.json.gz"))[: 8 if tool == "HTA" else 1]
            ours = ([stepsim, "analyze", *ranks], work)
            row(f"where the time went, profiles: {len(ranks)}", tool, theirs, ours)
    events = 1_000_000
    noisy = [stepsim, "run", "gpt-24l-1024", "-q", "--set", "noise.compute_sigma=0.02"]
    ops = json.loads(subprocess.check_output([*noisy, "--report", "-"]))["ops"]
    theirs = ([python, HERE / "simpy_ranks.py", str(events)], work)
    row("an event of ranks that wait for each other", "SimPy", theirs, (noisy, work), events, ops)


main()
