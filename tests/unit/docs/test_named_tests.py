"""What the documents say is shown by a test, is: every test that they name exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.simulation.mutants import MUTANTS, UNSEEN

ROOT = Path(__file__).parents[3]
DOCUMENTS = ("guarantees.md", "invariants.md")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
RULES = [f"T{n}" for n in range(1, 25)] + [f"W{n}" for n in range(16)]


def rows(document: str) -> list[list[str]]:
    """Return the cells of all rows of tables, without heads and rules."""
    lines = (ROOT / "docs" / document).read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in cells if not set(row[0]) <= {"-"} and row[0] not in ("rule", "when this happens")]


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions) and node.name[:5] == "test_")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_named_test_exists(document: str) -> None:
    named = NAMED.findall((ROOT / "docs" / document).read_text())
    assert named
    missing = [f"{path}::{name}" for path, name in named if not (ROOT / path).exists() or name not in names_in(path)]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_nothing_is_said_without_a_test(document: str) -> None:
    text = (ROOT / "docs" / document).read_text()
    odd = [word for word in re.findall(r"`[^`]*(?:::|\.py)[^`]*`", text) if not NAMED.fullmatch(word)]
    assert odd == [], "named in a form that is not checked"
    assert [row[0] for row in rows(document) if not NAMED.search(row[-1])] == []


def test_every_rule_is_broken_in_the_simulation_or_shown_elsewhere() -> None:
    assert {name.split()[0] for name in [*MUTANTS, *UNSEEN]} == set(RULES)
    text = (ROOT / "docs" / "invariants.md").read_text().split("## Broken in the simulation")[1].split("\n## ")[0]
    assert [line[2:] for line in text.splitlines() if line.startswith("- ")] == sorted(MUTANTS, key=_place)


def _place(name: str) -> tuple[str, int]:
    return name[0], int(name.split()[0][1:])


def test_every_rule_has_its_line() -> None:
    told = [re.split(r"[ ,]", row[0])[0] for row in rows("invariants.md")]
    assert told == RULES
