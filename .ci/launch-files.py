"""Counts how many launch files of others `stepsim plan` reads, and why the rest is not read.

    .ci/launch-files.py [--stepsim PROGRAM] [--mirror FOLDER] [--only WORD] [--json FILE]

Reads `launch-files.tsv`: a repository and its commit, a file of it (behind a colon a function of it), a machine. The
mirror holds a bare clone `OWNER+NAME/repo` of each repository. Each file is planned in a worktree of its repository as
it stands; where its degrees do not divide the machine, on the machine that the refusal names. The page is
docs/developers/launch-files.md.
"""
import argparse, collections, concurrent.futures, json, os, pathlib, re, subprocess, tempfile

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = ["read", "at most", "listed", "refused"]


def checkout(mirror, repository, folder):
    """The files of a repository as its newest stored commit has them; what the mirror has left out for its size stays away."""
    folder.mkdir(parents=True)
    git = ["git", f"--git-dir={mirror / repository.replace('/', '+') / 'repo'}", f"--work-tree={folder}"]
    with tempfile.TemporaryDirectory() as index:
        place = dict(os.environ, GIT_INDEX_FILE=f"{index}/index")
        subprocess.run([*git, "read-tree", "HEAD"], env=place, check=True)
        subprocess.run([*git, "checkout-index", "-a", "-q"], env=place, stderr=subprocess.DEVNULL)


def plan(program, folder, path, machine):
    """The exit status and the words of a plan, and the machine."""
    def run(machine):
        with tempfile.NamedTemporaryFile(suffix=".json") as written:
            line = [program, "plan", path, "--on", machine, "--sources", "-o", written.name]
            try:
                done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=120)
            except subprocess.TimeoutExpired:
                return 124, "no answer in 120 s", ""
            text = pathlib.Path(written.name).read_text()
            return done.returncode, done.stdout + done.stderr, text
    status, said, made = run(machine)
    other = re.search(r"--on (\S+) would do", said)
    if status == 2 and other:
        machine = other.group(1)
        status, said, made = run(machine)
    return dict(machine=machine, status=status, said=said, workload=json.loads(made) if made else None)


def outcome(row):
    """One of the columns; 3 is the status of a plan that does not fit its machine."""
    if row["status"] not in (0, 3):
        return "refused"
    if "not understood" in row["said"]:
        return "listed"
    return "at most" if "at most" in row["said"] else "read"


def left_over(said):
    """The words of a plan that are not understood, with their reasons."""
    block = re.search(r"^  not understood +(.*(?:\n {6,}.*)*)", said, re.M)
    words = re.split(r"; (?=[\w.\-@]+ = )", " ".join(block.group(1).split())) if block else []
    pairs = (re.match(r"([\w.\-@]+) = (.*)", word) for word in words)
    for name, rest in (pair.groups() for pair in pairs if pair):
        why = re.search(r"\(((?:[^()]|\([^()]*\))*)\)$", rest)
        yield why.group(1)[:70] if why else name.split(".")[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stepsim", default=HERE.parent / "target/release/stepsim", type=pathlib.Path)
    parser.add_argument("--mirror", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=pathlib.Path)
    asked = parser.parse_args()
    lines = (HERE / "launch-files.tsv").read_text().splitlines()
    files = [line.split("\t") for line in lines if asked.only in line]
    with tempfile.TemporaryDirectory() as root, concurrent.futures.ThreadPoolExecutor(2) as pool:
        root, program = pathlib.Path(root), asked.stepsim.resolve()
        for at in {repository for repository, _, _ in files}:
            checkout(asked.mirror, at.split("@")[0], root / at)
        said = pool.map(lambda file: plan(program, root / file[0], *file[1:]), files)
        rows = [dict(repository=file[0], path=file[1], **row) for file, row in zip(files, said)]
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=0))
    counts = collections.defaultdict(collections.Counter)
    reasons = collections.Counter()
    for row in rows:
        counts[row["repository"]][outcome(row)] += 1
        reasons.update(set(left_over(row["said"])) if outcome(row) == "listed" else [])
    counts["all"] = sum(counts.values(), collections.Counter())
    print("| repository | files |", " | ".join(COLUMNS), "|")
    print("|--" * (2 + len(COLUMNS)) + "|")
    for repository, count in counts.items():
        print(f"| {repository.replace('@', ' @')} | {count.total()} |", " | ".join(str(count[c]) for c in COLUMNS), "|")
    print("\nListed, by reason (files):")
    for reason, number in reasons.most_common(40):
        print(f"{number:4} {reason}")


main()
