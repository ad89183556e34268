"""The shipped schemas: documented, compatible with every version there ever was, and able to read each of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.avro.compatibility import incompatibilities
from tocsin.adapters.avro.schemas import MAGIC, fingerprint_bytes, record_type
from tocsin.resources import schemas_dir

SCHEMAS = sorted(path.stem for path in schemas_dir().glob("*.avsc"))
ROOT = Path(__file__).parents[3]


def _load(name: str) -> Any:
    return json.loads((schemas_dir() / f"{name}.avsc").read_text())


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no history to compare with: {done.stderr.strip()}")
    return done.stdout


def _versions(name: str) -> list[Any]:
    """Return every version of a schema that was ever committed."""
    path = f"schemas/{name}.avsc"
    commits = _git("log", "--format=%H", "--diff-filter=AM", "--", path).split()
    return [json.loads(_git("show", f"{commit}:{path}")) for commit in commits]


@pytest.mark.parametrize("name", SCHEMAS)
def test_is_compatible_with_every_version_that_was_committed(name: str) -> None:
    current = _load(name)
    for old in _versions(name):
        assert incompatibilities(old, current) == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_reads_every_version_that_was_committed(name: str) -> None:
    readable = record_type(name)._writers
    for old in _versions(name):
        assert MAGIC + fingerprint_bytes(old) in readable, f"keep the old form: schemas/history/{name}.N.avsc"


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_record_and_field_is_documented(name: str) -> None:
    def undocumented(schema: Any, path: str) -> list[str]:
        if isinstance(schema, list):
            return [fault for branch in schema for fault in undocumented(branch, path)]
        if not isinstance(schema, dict):
            return []
        if schema["type"] == "record":
            faults = [] if schema.get("doc") else [path]
            for field in schema["fields"]:
                here = f"{path}.{field['name']}"
                faults += [] if field.get("doc") else [here]
                faults += undocumented(field["type"], here)
            return faults
        return undocumented(schema.get("items") or schema.get("values"), path)

    assert undocumented(_load(name), name) == []


def test_executions_reports_and_events_begin_with_one_head() -> None:
    heads = [_load(name)["fields"][0] for name in ("Execution", "AttemptReport", "ExecutionEvent")]
    assert heads[0]["type"] == heads[1]["type"] == heads[2]["type"]
    assert [field["name"] for field in heads[0]["type"]["fields"]][:3] == ["attempt", "token", "losses"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda s: s["fields"].append({"name": "new", "type": "string"}), ["R.new: added without a default"]),
        (lambda s: s["fields"].append({"name": "new", "type": "string", "default": ""}), []),
        (lambda s: s["fields"].pop(0), ["R.a: removed without a default"]),
        (lambda s: s["fields"][0].update(type="long"), ["R.a: int became long"]),
        (lambda s: s["fields"][1].update(type=["null", "string", "int"]), ["R.b: ['null', 'string'] became"]),
        (lambda s: s["fields"][2]["type"]["items"]["fields"].append({"name": "x", "type": "int"}), ["R.c[].x: added"]),
        (lambda s: s.update(doc="other words"), []),
    ],
)
def test_the_check_itself_finds_what_breaks_readers(change: Any, expected: list[str]) -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "i", "type": "int"}]}
    old = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "b", "type": ["null", "string"], "default": None},
            {"name": "c", "type": {"type": "array", "items": inner}},
        ],
    }
    new = json.loads(json.dumps(old))
    change(new)
    found = incompatibilities(old, new, "R")
    assert len(found) == len(expected)
    assert all(fault.startswith(start) for fault, start in zip(found, expected, strict=True))
