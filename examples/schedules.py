#!/usr/bin/env python3
"""Draws several pipeline schedules on one time scale, from what their pages hold.

  schedules.py [STEPSIM] >schedules.svg

Each is `stepsim schedule --kind KIND --stages 4 --micro-batches 8 --html FILE`; times, names and colours are the page's own.
"""
import json, pathlib, re, subprocess, sys, tempfile
from html import escape

KINDS = {"1f1b": "1F1B", "interleaved-1f1b": "interleaved 1F1B, two chunks", "zb-h2": "ZB-H2", "dualpipe-v": "DualPipeV"}
LEFT, WIDTH, ROW, BAR = 60, 1140, 36, 18


def page(stepsim, kind):
    """The data of a page, and the colour of each class."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "page.html"
        command = [stepsim, "schedule", "--kind", kind, "--stages", "4", "--micro-batches", "8", "--html", file]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        text = file.read_text()
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(data[1]), dict(re.findall(r"^\.(\w+) \{ fill: (#\w+) \}$", text, re.M))


def items(lane):
    """Start, end, kind and micro-batches of what is on a lane: the page has the gap before each and how long it lasts."""
    at = 0
    for gap, length, kind, tag in zip(*[iter(lane)] * 4):
        start, at = at + gap, at + gap + length
        yield start, at, kind, [m - 1 for m in (tag & 0xFFFF, tag >> 16) if m > 0]


def rectangle(x, y, width, height, colour):
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" fill="{colour}" stroke="#fff" stroke-width=".6"/>'


def drawing(stepsim):
    pages = {title: page(stepsim, kind) for kind, title in KINDS.items()}
    longest = max(data["shown"]["step_ns"] for data, _ in pages.values())
    scale = (WIDTH - LEFT) / longest
    parts, key, y = [], {}, 44
    for title, (data, colours) in pages.items():
        end = data["shown"]["step_ns"] / 1e9
        parts.append(f'<text x="{LEFT}" y="{y}" font-size="14" font-weight="600">{escape(title)}: {end:g}</text>')
        y += 8
        for row in data["shown"]["rows"]:
            parts.append(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(row["name"])}</text>')
            for lane, top, height in (("passes", 0, BAR), ("stalls", BAR + 1, 7)):
                of_lane = ("passes", "stalls").index(lane)
                for start, stop, kind, micro_batches in items(row[lane]):
                    colour = colours[data["drawing"]["classes"][of_lane] + str(kind)]
                    key[data["names"][of_lane][kind]] = colour
                    x, width = LEFT + start * scale, (stop - start) * scale
                    parts.append(rectangle(x, y + top, width, height, colour))
                    label = "+".join(map(str, micro_batches))
                    if lane == "passes" and width > 7 * len(label):
                        parts.append(f'<text x="{x + width / 2:.1f}" y="{y + 13}" class="in">{label}</text>')
            y += ROW
        y += 22
    x = LEFT
    for name, colour in key.items():
        parts.append(rectangle(x, 6, 12, 12, colour) + f'<text x="{x + 16}" y="16">{escape(name)}</text>')
        x += 36 + 7 * len(name)
    style = ".in { fill: #fff; stroke: #000a; stroke-width: 2px; paint-order: stroke; text-anchor: middle }"
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + 10} {y - 16}" font-family="sans-serif" font-size="11">')
    print(f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>", sep="\n")


if __name__ == "__main__":
    drawing(sys.argv[1] if len(sys.argv) > 1 else "stepsim")
