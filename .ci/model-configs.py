"""Counts the parameters of other people's config.json, beside the count that is published.

    .ci/model-configs.py [--stepsim PROGRAM] --mirror FOLDER

The mirror holds a bare clone `ai-dynamo+aiconfigurator/repo`, whose model_configs are read. The published count is that
of `model-configs.tsv` (pattern, billions, source), else the size in the name; a name rounds, and
may leave an encoder out: 9 % apart is right. The page
is docs/developers/launch-files.md.
"""
import argparse, collections, fnmatch, json, pathlib, re, subprocess, tempfile

HERE = pathlib.Path(__file__).resolve().parent
WITHIN = 0.09


def published(name):
    """Billions, and what says them."""
    for line in (HERE / "model-configs.tsv").read_text().splitlines():
        pattern, billions, source = line.split("\t")
        if fnmatch.fnmatch(name, pattern):
            return float(billions), source
    sizes = re.findall(r"(?<![\dAx.])(\d+(?:\.\d+)?)[Bb](?![a-z])", name)
    return (max(map(float, sizes)), "its name") if sizes else (None, "nothing")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stepsim", default=HERE.parent / "target/release/stepsim", type=pathlib.Path)
    parser.add_argument("--mirror", required=True, type=pathlib.Path)
    asked = parser.parse_args()
    git = ["git", f"--git-dir={asked.mirror}/ai-dynamo+aiconfigurator/repo"]
    files = subprocess.run([*git, "ls-tree", "-r", "--name-only", "HEAD"], check=True, capture_output=True, text=True)
    counts = collections.Counter()
    rows = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        config, report = (pathlib.Path(folder) / name for name in ("config.json", "report.json"))
        for path in files.stdout.splitlines():
            if "/model_configs/" not in path or not re.search(r"(?<!hf_quant)_config\.json$", path):
                continue
            name = path.rsplit("/", 1)[1].removesuffix("_config.json").split("--", 1)[1]
            config.write_bytes(subprocess.run([*git, "show", f"HEAD:{path}"], check=True, capture_output=True).stdout)
            line = [asked.stepsim.resolve(), "import", "hf", config, "--report", report, "-o", f"{folder}/model.json"]
            done = subprocess.run(line, capture_output=True, text=True)
            billions, source = published(name)
            if done.returncode:
                counts["refused"] += 1
                rows[("refused: " + done.stdout + done.stderr).split("\n")[0].split(" (")[0].split("`: ")[-1], "", "", ""].append(name)
                continue
            counted = json.loads(report.read_text())["parameters"]
            ours = counted["total"] / 1e9
            # A name may say the language model alone.
            near = [abs(all / 1e9 / (billions or 1) - 1) <= WITHIN for all in (counted["total"], counted["total"] - counted["modules"])]
            outcome = "no count" if billions is None else "right" if any(near) else "wrong"
            counts[outcome] += 1
            rows[outcome, f"{ours:,.1f}", "" if billions is None else f"{billions:,g}", source].append(name)
    print("| configurations | ours, B | published, B | said by | |\n|--|--|--|--|--|")
    for (outcome, ours, billions, source), names in sorted(rows.items(), key=lambda row: row[1]):
        print(f"| {', '.join(names)} | {ours} | {billions} | {source} | {outcome} |")
    print("\n" + ", ".join(f"{number} {outcome}" for outcome, number in counts.most_common()))


main()
