"""What is made of the rows of a bucket."""

from __future__ import annotations

from typing import Any

from tocsin.adapters.cassandra.bucket_reads import entries_of
from tocsin.domain.entries import Entry


def row(number: int, plan: str | None) -> list[Any]:
    """Return a row as a driver makes it: each text is its own."""
    tenant, lane = "".join(["ac", "me"]), "".join(["def", "ault"])
    return [number, f"job-{number}", number, 7, f"job-{number}.7.{number}", tenant, lane, b"execution", plan]


def test_rows_that_say_the_same_share_its_texts() -> None:
    rows = [row(number, "".join(['{"every"', ":1}"])) for number in range(3)]
    entries = entries_of(rows)
    assert entries == [Entry._make(one) for one in rows]
    for texts in zip(*[(one.tenant_id, one.lane, one.plan) for one in entries], strict=True):
        assert len({id(text) for text in texts}) == 1


def test_a_row_without_a_plan_stays_as_it_is() -> None:
    rows = [row(1, None), row(2, "")]
    assert entries_of(rows) == [Entry._make(one) for one in rows]
