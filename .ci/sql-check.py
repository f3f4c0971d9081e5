#!/usr/bin/env python3
"""Asks timelines the ten questions of docs/how-to/sql.md in Perfetto's SQL and compares the answers with the report.

  sql-check.py READER "WORKLOAD [SETTING...]"...   each in both formats; READER TRACE SQL... prints rows as JSON
  sql-check.py --self-test READER                  a report with another number must be refused

$STEPSIM is the program. Queries and the view that a format needs are read from the page, so what stands there is what is
checked. Exit status: 0 equal, 1 not.
"""
import json, os, pathlib, re, subprocess, sys, tempfile

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "how-to" / "sql.md"


def page():
    """The view of each format, and the queries."""
    blocks = [block.strip().rstrip(";") for block in re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.S)]
    views, queries = blocks[:2], blocks[2:]
    assert len(queries) == 10, f"{PAGE}: {len(queries)} queries"
    return {"t.json": views[0].split(";"), "t.pftrace": views[1].split(";")}, queries


def ask(reader, trace, views, queries):
    """The rows of each query."""
    run = subprocess.run([*reader, trace, *views, *queries], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{trace}: {run.stderr}")
    said, answers, at, decoder = run.stdout, [], 0, json.JSONDecoder()
    while (at := re.compile(r"\s*").match(said, at).end()) < len(said):
        rows, at = decoder.raw_decode(said, at)
        answers.append([list(row.values()) for row in rows])
    return answers[len(views) :]


def word(cause):
    """Timelines say causes in words."""
    return re.sub(r"\W", "_", cause.removeprefix("offload ").removesuffix(" (full tier)"))


def found(answers):
    """By question and row, the number that was found."""
    for number, rows in enumerate(answers, 1):
        match number:
            case 1 | 7:
                yield (number,), float(rows[0][0])  # large integers come as text
            case 2 | 4:
                yield from (((number, rank), value) for rank, value in rows)
            case 3:
                yield from (((number, rank, word(cause)), value) for rank, cause, value in rows)
            case 5:
                yield (number,), sum(row[-1] for row in rows)
            case 6 | 9:
                yield (number,), sum(row[2] for row in rows)
            case 8:
                yield from (((number, kind), value) for kind, _, value in rows)
            case 10:
                yield (number,), max(row[1] for row in rows)


def expected(report):
    """The same from the report."""
    step, ranks, path = report["step_time_s"], report["ranks"], report["critical_path"]
    yield (1,), step
    for number, rank in ((str(rank["rank"]), rank) for rank in ranks):
        yield (2, number), rank["busy_s"]
        yield (4, number), step
        yield from (((3, number, cause), s) for cause, s in rank["stalls_s"].items() if s >= 1e-9)
    busy = sum(rank["busy_s"] for rank in ranks)
    yield (5,), busy
    yield (6,), sum(kernels["time_s"] for kernels in report["kernels"]) * len(ranks)
    peak = float(re.search(r"peak: ([\d.]+) TFLOP", report["conventions"][0])[1]) * 1e12
    yield (7,), report["hfu_causal"] * step * peak * len(ranks)
    for kind in report["communication"].keys() & {"tp", "cp", "ep", "pp", "dp"}:
        yield (8, kind), report["communication"][kind]["op_seconds"] * len(ranks)
    yield (9,), sum(path["by_kind_s"].values()) + path["contention_s"] + path["memory_s"]
    yield (10,), report["memory"]["hbm"]["peak_bytes"]


def check(reader, workload, damage=lambda report: None):
    """Whether both timelines of a workload answer as its report does."""
    views, queries = page()
    wrong = []
    with tempfile.TemporaryDirectory() as out:
        for name in views:
            trace, told = os.path.join(out, name), os.path.join(out, "r.json")
            run = [os.environ["STEPSIM"], "run", *workload.split(), "-q", "--trace-ranks", "all", "--detail", "op", "-o", trace, "--report", told]
            subprocess.run(run, check=True)
            report = json.loads(pathlib.Path(told).read_text())
            damage(report)
            has, should = dict(found(ask(reader, trace, views[name], queries))), dict(expected(report))
            for key in sorted(has.keys() | should.keys(), key=str):
                a, b = has.get(key, 0), should.get(key, 0)
                # Every slice is rounded to nanoseconds.
                if abs(a - b) > max(1e-4 * abs(b), 1e-6):
                    wrong.append(f"{name}: question {key[0]} {' '.join(key[1:])}: SQL says {a}, the report {b}")
    print(f"{'FAIL' if wrong else 'ok  '} {workload}: ten questions in two formats")
    print(*wrong[:10], sep="\n", end="\n" if wrong else "")
    return not wrong


def longer(report):
    report["ranks"][0]["busy_s"] *= 1.01


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        sys.exit(not check(sys.argv[2].split(), "tiny-4", longer))
    sys.exit(not all([check(sys.argv[1].split(), workload) for workload in sys.argv[2:]]))
