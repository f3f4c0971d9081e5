#!/usr/bin/env python3
"""Reads Kineto files of ours with the tools that they are made for, and compares what those find with the report.

  hta-check.py STEPSIM WORKLOAD...     writes and checks each workload
  hta-check.py --self-test STEPSIM     a file whose kernels were changed must be refused

Meta's HolisticTraceAnalysis, by rank: how long kernels ran (its compute time against busy time of the report), how much of the
communication lay under kernels (its overlap against `stepsim analyze`), and whether it finds a critical path, of the first ranks.
AMD's TraceLens, where it is installed, of the first rank: how long kernels ran, each launched by an operator. Exit status: 0 equal,
1 not.
"""
import contextlib, gzip, io, json, os, pathlib, subprocess, sys, tempfile, warnings

warnings.filterwarnings("ignore")
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"  # else whole microseconds
# Ranks whose critical path is asked for.
FIRST = 4


def hta(folder):
    import logging

    from hta.trace_analysis import TraceAnalysis

    logging.disable(logging.WARNING)
    analysis = TraceAnalysis(trace_dir=str(folder), include_last_profiler_step=True)
    time = analysis.get_temporal_breakdown(visualize=False).to_dict("records")
    overlap = analysis.get_comm_comp_overlap(visualize=False).to_dict("records")
    return (
        {row["rank"]: row["compute_time(us)"] / 1e6 for row in time},
        {row["rank"]: row["comp_comm_overlap_pctg"] for row in overlap},
        [rank for rank in sorted(analysis.t.get_ranks())[:FIRST] if not has_critical_path(analysis, folder, rank)],
    )


def has_critical_path(analysis, folder, rank):
    if b'"cuda_sync"' not in gzip.decompress((folder / f"rank{rank}.json.gz").read_bytes()):
        return True  # it breaks on a rank that waits for no other stream
    with contextlib.redirect_stdout(io.StringIO()):
        return analysis.critical_path_analysis(rank=rank, annotation="ProfilerStep", instance_id=0)[1]


def tracelens(file):
    """Seconds of kernels, and how many of them no operator launched; None without TraceLens."""
    try:
        from TraceLens import TreePerfAnalyzer
    except ImportError:
        return None
    with contextlib.redirect_stdout(io.StringIO()):
        tree = TreePerfAnalyzer.from_file(str(file), add_python_func=False)
        times = tree.get_df_gpu_timeline().set_index("type")["time ms"]
    bare = sum(event.get("cat") == "kernel" and "parent" not in event for event in tree.tree.events)
    return times["computation_time"] / 1e3, bare


def check(stepsim, workload, damage=lambda folder: None):
    def run(*words):
        subprocess.run([stepsim, *map(str, words)], check=True, stdout=subprocess.DEVNULL)

    with tempfile.TemporaryDirectory() as out:
        out = pathlib.Path(out)
        run("run", workload, "-q", "--trace-ranks", "all", "--format", "kineto", "-o", out / "k", "--report", out / "r.json")
        damage(out / "k")
        run("analyze", *sorted((out / "k").iterdir()), "--report", out / "a.json")
        report, read = (json.loads((out / name).read_text()) for name in ("r.json", "a.json"))
        compute, overlap, pathless = hta(out / "k")
        lens = tracelens(sorted((out / "k").iterdir())[0])
    wrong = [f"rank {n}: HTA finds no critical path" for n in pathless]
    if lens and (abs(lens[0] - report["ranks"][0]["busy_s"]) > 2e-6 or lens[1]):
        wrong.append(f"rank 0: TraceLens has {lens[0]} s of kernels, stepsim {report['ranks'][0]['busy_s']}; {lens[1]} without launch")
    for rank in read["ranks"]:
        n, ran = rank["rank"], rank["communication_s"]
        pairs = [("kernels ran, s", compute[n], report["ranks"][n]["busy_s"], 2e-6)]
        if ran > 0:
            pairs.append(("overlap, %", overlap[n], 100 * (1 - rank["exposed_communication_s"] / ran), 0.01))
        wrong += [f"rank {n}: {what}: HTA {a}, stepsim {b}" for what, a, b, most in pairs if abs(a - b) > most]
    tools = "HolisticTraceAnalysis and TraceLens" if lens else "HolisticTraceAnalysis"
    print(f"{'FAIL' if wrong else 'ok  '} {workload}: {len(read['ranks'])} ranks, as by {tools}")
    print(*wrong[:10], sep="\n", end="\n" if wrong else "")
    return not wrong


def shorter_kernel(folder):
    """The longest kernel of a rank half as long."""
    file = sorted(folder.iterdir())[0]
    trace = json.loads(gzip.decompress(file.read_bytes()))
    kernels = (e for e in trace["traceEvents"] if e.get("cat") == "kernel" and not e["name"].startswith("nccl"))
    kernel = max(kernels, key=lambda e: e["dur"])
    kernel["dur"] /= 2
    file.write_bytes(gzip.compress(json.dumps(trace).encode()))


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        sys.exit(not check(sys.argv[2], "tiny-4", shorter_kernel))
    sys.exit(not all([check(sys.argv[1], workload) for workload in sys.argv[2:]]))
