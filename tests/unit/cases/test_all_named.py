"""Each case of behaviour that is agreed upon for workers has a test that is named after it, here or on real parts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
CASES = (
    *("con_1", "con_3", "con_5", "ret_1", "ret_3", "htp_1", "htp_3"),
    *("lea_1", "lea_3", "reb_1", "reb_3", "reb_5", "uni_1"),
    *("mis_1", "mis_3", "mis_5", "mis_7", "lon_1", "pau_1", "pau_3", "upd_1", "upd_3", "ide_1"),
)


@pytest.fixture(scope="module")
def names() -> list[str]:
    """The names of all tests."""
    trees = [ast.parse(path.read_text("utf-8")) for path in TESTS.rglob("test_*.py")]
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for tree in trees for node in ast.walk(tree) if isinstance(node, functions)]


@pytest.mark.parametrize("case", CASES)
def test_a_test_is_named_after_it(case: str, names: list[str]) -> None:
    assert [name for name in names if name.startswith(f"test_{case}_")]
