"""The files of migrations: how they are read, and what every one of them must keep to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tocsin.adapters.cassandra.migrations import load_migrations
from tocsin.domain.errors import Refused


def test_the_shipped_migrations_can_be_repeated_and_use_what_both_kinds_of_server_have() -> None:
    migrations = load_migrations()
    assert [migration.name[:4] for migration in migrations] == [f"{n:04}" for n in range(1, len(migrations) + 1)]
    for migration in migrations:
        assert migration.statements
        for statement in migration.statements:
            assert "IF NOT EXISTS" in statement or re.fullmatch(r"ALTER TABLE \w+ ADD \w+ \w+", statement)
            for forbidden in ("default_time_to_live", "MATERIALIZED", "INDEX IF", "counter", "TimeWindow"):
                assert forbidden not in statement


def test_a_checksum_is_of_the_statements_and_not_of_comments_and_line_breaks(tmp_path: Path) -> None:
    file = tmp_path / "0001_first.cql"
    sums = []
    for text in ("CREATE TABLE a (x int);", "-- why\nCREATE  TABLE a\n  (x int)\n;\n", "CREATE TABLE a (y int);"):
        file.write_text(text)
        (migration,) = load_migrations(tmp_path)
        sums.append(migration.checksum)
    assert sums[0] == sums[1] != sums[2]


def test_a_file_may_hold_several_statements(tmp_path: Path) -> None:
    (tmp_path / "0001_first.cql").write_text("-- one; two\nCREATE TABLE a (x int);\nCREATE TABLE b (x int);\n")
    (migration,) = load_migrations(tmp_path)
    assert migration.statements == ("CREATE TABLE a (x int)", "CREATE TABLE b (x int)")


@pytest.mark.parametrize("names", [["first.cql"], ["1_first.cql"], ["0001_a.cql", "0001_b.cql"]])
def test_wrong_names_are_refused(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_text("CREATE TABLE a (x int);")
    with pytest.raises(Refused, match=r"first|0001_b"):
        load_migrations(tmp_path)
