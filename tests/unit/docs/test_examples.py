"""Documents lead somewhere, and examples need nothing of tocsin's code; tests/e2e/test_doors.py runs them."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from tocsin.adapters.avro import AvroCodec
from tocsin.domain.definitions import parse

ROOT = Path(__file__).parents[3]
DOCUMENTS = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAMS = sorted((ROOT / "docs" / "examples").glob("*.py"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", document.read_text())
    assert [link for link in links if "://" not in link and not (document.parent / link).exists()] == []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_the_examples_import_nothing_of_tocsin(program: Path) -> None:
    nodes = list(ast.walk(ast.parse(program.read_text())))
    imported = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    assert "confluent_kafka" in imported
    assert not any(name.split(".")[0] == "tocsin" for name in imported)


def test_the_kcat_example_is_a_valid_command_in_one_line() -> None:
    found = re.search(r"<<'JSON'\n(.*)\nJSON\n", (ROOT / "docs" / "examples" / "kcat.md").read_text())
    assert found
    command = AvroCodec().decode_command(found[1].encode())
    assert parse(command.definition).target.type == "http"


def test_every_body_of_the_curl_examples_is_a_valid_job() -> None:
    text = (ROOT / "docs" / "examples" / "curl.md").read_text() + (ROOT / "README.md").read_text()
    bodies = [json.loads(body) for body in re.findall(r"-d '([^']*)'", text)]
    jobs = [body for body in bodies if "target" in body]
    assert len(jobs) >= 4
    for body in jobs:
        body.pop("job_id", None)
        parse(body)
