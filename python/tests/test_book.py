"""The code of the book's page and of the package's own page runs, and has as many lines as the page says."""

import pathlib
import re

import pytest

import stepsim

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/python.md").read_text()


def blocks(text):
    """The blocks of Python with the heading above each."""
    for part in re.split(r"^#+ ", text, flags=re.M)[1:]:
        for code in re.findall(r"^```python\n(.*?)^```", part, flags=re.M | re.S):
            yield part.split("\n", 1)[0], code


@pytest.mark.parametrize("page", ["docs/how-to/python.md", "python/README.md"])
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    found = list(blocks((ROOT / page).read_text()))
    names = {}
    for heading, code in found:
        exec(compile(code, f"{page}: {heading}", "exec"), names)
    assert len(found) >= 1 and (tmp_path / "step.pftrace").exists()
    if "rows" in names and page.startswith("docs"):
        assert list(names["rows"]) == list(stepsim.sweep("gpt2-8", vary={"batch.micro_batch": [1, 2, 4]}))


def test_wishes_have_the_lines_that_are_said():
    said = dict(re.findall(r"^\| ([a-z- ]+) \| (\d+) \|$", PAGE, flags=re.M))
    counted = {heading: str(len(code.strip().splitlines())) for heading, code in blocks(PAGE) if heading in said}
    assert len(said) == 10 and counted == said


def test_the_questions_in_sql_have_answers(tmp_path, monkeypatch):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    study = stepsim.sweep("gpt2-8", vary={"batch.micro_batch": [1, 2, 4, 8], "recompute.granularity": ["none", "full"]})
    study.to_parquet("rows.parquet")
    best, costs, front = (duckdb.sql(sql).fetchall() for sql in re.findall(r"^```sql\n(.*?)^```", PAGE, flags=re.M | re.S))
    assert best[0][2] == study.best()["step_time_s"]
    assert len(costs) == 4 and all(cost > 0.1 for _, cost in costs)
    assert 1 <= len(front) < len(study) and front[0][0] == best[0][2]
