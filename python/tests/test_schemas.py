"""Every shipped file is what its schema says, as an editor would have it."""
import json
import pathlib

import pytest

jsonschema = pytest.importorskip("jsonschema")
ROOT = pathlib.Path(__file__).parents[2]
SCHEMAS = sorted((ROOT / "topologies").rglob("*.schema.json")) + sorted((ROOT / "workloads").rglob("*.schema.json"))


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda path: path.parent.name)
def test_shipped_files_fit_their_schema(schema):
    content = json.loads(schema.read_text())
    validator = jsonschema.validators.validator_for(content)(content)
    files = {file.name: json.loads(file.read_text()) for file in schema.parent.glob("*.json") if not file.name.endswith(".schema.json")}
    if schema.name == "import.schema.json":
        # Beside the tables of software lie lists of words that all of them share.
        files = {name: file for name, file in files.items() if "syntax" in file}
    assert files
    wrong = [f"{name}: {error.message[:200]}" for name, file in files.items() for error in validator.iter_errors(file)]
    assert not wrong, "\n".join(wrong)
