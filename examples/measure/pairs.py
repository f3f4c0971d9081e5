"""Pairs of measured steps that differ in one column: how often the simulated change has the measured sign.

    stepsim score measured/ --rows rows.jsonl
    python3 pairs.py measured/ rows.jsonl
"""

import collections
import itertools
import json
import pathlib
import sys

# A change of one of these brings the second with it.
TOGETHER = {
    "precision": {"fp8_recipe", "dp_overlap"},
    "recompute": {"recompute_modules"},
    "moe_dispatcher": {"hybridep_num_sms"},
    "ep": {"hybridep_num_sms"},
}
# What a row is called, what was measured and what is counted with it; pairs across these compare machines or models.
APART = {"device", "n_devices", "layers", "inter_node", "gbs_seqs", "mbs_seqs", "pp_layout", "network", "grad_accum"}
ASIDE = {"id", "source_ref", "provenance", "notes", "missing", "derived", "tflops_def", "recipe_ref", "recipe_match"}
MEASURED = {"step_time_s", "tflops_per_device", "mfu", "hfu", "peak_mem_gib", "samples_per_s", "samples_per_s_per_device"}
ROUNDING = 0.015


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def changed(a, b):
    """The one column in which two rows differ, or None."""
    left_out = ASIDE | MEASURED | {k for k in a | b if k.startswith("tokens_per")}
    columns = {k for k in a | b if k not in left_out and a.get(k) != b.get(k)}
    for cause, brought in TOGETHER.items():
        columns -= brought if cause in columns else set()
    return columns.pop() if len(columns) == 1 else None


def main(folder, scored):
    rows = {row["id"]: row for path in sorted(pathlib.Path(folder).glob("steps*.jsonl")) for row in lines(path)}
    done = [r for r in lines(scored) if r.get("predicted_s") and rows.get(r["id"], {}).get("kind") == "step"]
    right, all_pairs = collections.Counter(), collections.Counter()
    key = lambda r: tuple(str(rows[r["id"]].get(k)) for k in ("source", "model", "seq"))
    for _, block in itertools.groupby(sorted(done, key=key), key=key):
        for a, b in itertools.combinations(list(block), 2):
            column = changed(rows[a["id"]], rows[b["id"]])
            measured, simulated = (b[k] / a[k] - 1 for k in ("measured_s", "predicted_s"))
            if column is None or column in APART or abs(measured) < ROUNDING:
                continue
            all_pairs[column] += 1
            right[column] += (measured > 0) == (simulated > 0)
            if (measured > 0) != (simulated > 0):
                print(f"{column}: {a['id']} to {b['id']}: {measured:+.1%} measured, {simulated:+.1%} simulated")
    for column, count in sorted(all_pairs.items()):
        print(f"{column}: {right[column]} of {count}")


if __name__ == "__main__":
    main(*sys.argv[1:])
