#!/usr/bin/env python3
"""What a change does to a step: compare.py CONFIG MACHINE BASE [OPTIONS OF stepsim plan...], in a repository.

Writes a table in Markdown to standard output, to the summary of the job and to the action's output.
"""
import json, os, pathlib, subprocess, sys, tempfile

ROWS = (
    ("step time, s", lambda report: report["step_time_s"], ".3f"),
    ("MFU, %", lambda report: 100 * report["mfu"], ".1f"),
    ("tokens/s", lambda report: report["tokens_per_s"], ",.0f"),
    ("device memory, GiB", lambda report: report["memory"]["hbm"]["peak_bytes"] / 2**30, ".1f"),
)


def report(config, machine, options, folder):
    """The report of a configuration's step, or why there is none."""
    plan, out = folder / "plan.json", folder / "report.json"
    for words in (["plan", config, "--on", machine, *options, "-o", plan], ["run", plan, "-q", "--report", out]):
        done = subprocess.run(["stepsim", *map(str, words)], capture_output=True, text=True)
        if done.returncode:
            return done.stderr.strip()
    return json.loads(out.read_text())


def at_base(config, base, folder):
    """The configuration as it was; None where it is new."""
    shown = subprocess.run(["git", "show", f"{base}:./{config}"], capture_output=True)
    if shown.returncode:
        return None
    file = folder / pathlib.Path(config).name
    file.write_bytes(shown.stdout)
    return file


def table(config, machine, before, after):
    lines = [f"**{config}** on {machine}", "", "| | before | after | change |", "|--|--|--|--|"]
    for name, value, form in ROWS:
        a, b = value(before), value(after)
        lines.append(f"| {name} | {a:{form}} | {b:{form}} | {100 * (b / a - 1):+.1f} % |")
    return "\n".join(lines) + "\n"


def main(config, machine, base, *options):
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        after = report(config, machine, options, pathlib.Path(one))
        was = at_base(config, base, pathlib.Path(two))
        before = after if was is None else report(was, machine, options, pathlib.Path(two))
    failed = [f"{when} the change: {said}" for when, said in (("before", before), ("after", after)) if isinstance(said, str)]
    text = "\n\n".join(failed) + "\n" if failed else table(config, machine, before, after)
    print(text, end="")
    for variable, content in (("GITHUB_STEP_SUMMARY", text), ("GITHUB_OUTPUT", f"summary<<END\n{text}END\n")):
        if path := os.environ.get(variable):
            with open(path, "a") as file:
                file.write(content)
    return int(isinstance(after, str))


sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 3 else __doc__)
