"""Drawings for notebooks: plain HTML and SVG, nothing loaded."""

from __future__ import annotations

from html import escape
from typing import Any, Mapping, Sequence

_COLOURS = ["#4c78a8", "#f58518", "#e45756", "#72b7b2", "#54a24b", "#eeca3b", "#b279a2", "#ff9da6", "#9d755d", "#bab0ac"]


#: Stages that are drawn: what a notebook keeps of a run stays small.
_STAGES = 32


def run(report: Mapping[str, Any]) -> str:
    """A run: its figures, and where the time of each stage went."""
    peak = report["memory"].get("hbm", {}).get("peak_bytes")
    facts = [("step", f"{report['step_time_s']:.4g} s"), ("MFU", f"{100 * report['mfu']:.1f} %")]
    facts += [("tokens/s", f"{report['tokens_per_s']:,.0f}"), ("devices", f"{report['devices']:,}")]
    facts += [("device memory", f"{peak / 2**30:.1f} GiB")] if peak is not None else []
    every = report["stages"]
    shown = every[:: -(-len(every) // _STAGES)]
    bars = [(f"stage {stage['stage']}", _times(stage)) for stage in shown]
    drawn = _bars(bars, report["step_time_s"] * report.get("steps", 1), "s")
    return _head(f"{report['workload']} on {report['topology']}", facts) + f"<p>{escape(report['hangs_on'])}</p>" + drawn


def _times(stage: Mapping[str, Any]) -> dict[str, float]:
    """Kernels, and stalls by cause, largest first."""
    stalls = sorted(stage["stalls_s"].items(), key=lambda stall: -stall[1])
    return {"kernels": stage["busy_s"], **{cause.replace("_", " "): seconds for cause, seconds in stalls if seconds > 0}}


def estimate(form: Mapping[str, Any]) -> str:
    """A closed form: its terms."""
    facts = [("step", f"{form['total_s']:.4g} s"), ("MFU", f"{100 * form['model_flop_utilisation']:.1f} %")]
    terms = {name[:-2].replace("_", " "): seconds for name, seconds in form["terms"].items() if seconds > 0}
    return _head("closed form", facts) + _bars([("step", terms)], form["total_s"], "s")


def sweep(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows, fastest first."""
    ok = sorted((row for row in rows if row["status"] == "ok"), key=lambda row: row["step_time_s"])
    return _head(f"{len(rows)} points, {len(ok)} ok", []) + _table(ok[:20])


def search(report: Mapping[str, Any]) -> str:
    """Counts and ranking."""
    facts = [("layouts", f"{report['points']:,}"), ("simulated", f"{report['simulated']:,}")]
    facts += [(f"left out: {reason}", f"{count:,}") for reason, count in report["pruned"].items() if count]
    return _head(f"{report['workload']} on {report['topology']}", facts) + _table(report["ranking"])


def _head(title: str, facts: Sequence[tuple[str, str]]) -> str:
    cells = "".join(f"<td style='padding-right:2em'><b>{escape(value)}</b><br>{escape(name)}</td>" for name, value in facts)
    return f"<h4>{escape(title)}</h4>" + (f"<table><tr>{cells}</tr></table>" if cells else "")


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Step, MFU, memory and settings; what is the same in several rows stands once above them."""
    names = list(dict.fromkeys(name for row in rows for name in row["settings"]))
    values = {name: list(dict.fromkeys(_word(row["settings"].get(name)) for row in rows)) for name in names}
    alike = [name for name in names if len(rows) > 1 and len(values[name]) == 1]
    names = [name for name in names if name not in alike]
    said = ", ".join(f"{name} {values[name][0]}" for name in alike)
    asked = list(dict.fromkeys(name for row in rows for name in row.get("columns", {})))
    head = "".join(f"<th>{escape(name).replace('.', '.<wbr>')}</th>" for name in ["step", "MFU", "GiB", *asked, *names])
    body = ""
    for row in rows:
        cells = [f"{row['step_time_s']:.4g} s", f"{100 * row['mfu']:.1f} %", f"{row['memory_peak_bytes'] / 2**30:.1f}"]
        cells += [_number(row.get("columns", {}).get(name)) for name in asked]
        cells += [_word(row["settings"].get(name)) for name in names]
        body += "<tr>" + "".join(f"<td style='white-space:nowrap'>{escape(cell)}</td>" for cell in cells) + "</tr>"
    above = f"<p>all: {escape(said)}</p>" if said else ""
    return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else _word(value)


def _word(value: Any) -> str:
    if isinstance(value, Mapping):
        value = value.get("kind", value.get("granularity", dict(value)))
    return "" if value is None else str(value)


def _bars(bars: Sequence[tuple[str, Mapping[str, float]]], whole: float, unit: str) -> str:
    """Stacked bars, one below the other, with a legend."""
    names = list(dict.fromkeys(name for _, parts in bars for name in parts))
    colour = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}
    width, left, row = 640, 70, 20
    drawn = ""
    for i, (label, parts) in enumerate(bars):
        x, y = float(left), i * row
        drawn += f"<text x='{left - 6}' y='{y + 14}' text-anchor='end'>{escape(label)}</text>"
        for name, value in parts.items():
            w = (width - left) * value / whole if whole > 0 else 0.0
            tip = f"{label}: {name} {value:.4g} {unit}"
            drawn += (
                f"<rect x='{x:.2f}' y='{y + 2}' width='{w:.2f}' height='{row - 4}' fill='{colour[name]}'>"
                f"<title>{escape(tip)}</title></rect>"
            )
            x += w
    below = len(bars) * row + 6
    for i, name in enumerate(names):
        x, y = left + 190 * (i % 3), below + 18 * (i // 3)
        drawn += f"<rect x='{x}' y='{y}' width='10' height='10' fill='{colour[name]}'/>"
        drawn += f"<text x='{x + 15}' y='{y + 10}'>{escape(name)}</text>"
    height = below + 18 * (-(-len(names) // 3)) + 4
    return f"<svg width='{width}' height='{height}' font-family='sans-serif' font-size='12'>{drawn}</svg>"
