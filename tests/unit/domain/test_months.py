"""Months of history: the names of partitions, and the walk back through them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.instants import EARLIEST, LATEST, month_of, months_back, parse_rfc3339

INSTANTS = st.integers(EARLIEST, LATEST)


@pytest.mark.parametrize(
    ("text", "month"),
    [
        ("1970-01-01T00:00:00Z", 197001),
        ("2026-01-31T23:59:59.999999Z", 202601),
        ("2026-02-01T00:00:00Z", 202602),
        ("2024-02-29T23:59:59Z", 202402),
        ("2026-03-01T01:00:00+02:00", 202602),
        ("2199-12-31T23:59:59.999999Z", 219912),
    ],
)
def test_an_instant_is_in_its_utc_month(text: str, month: int) -> None:
    assert month_of(parse_rfc3339(text)) == month


@given(INSTANTS)
def test_months_agree_with_the_calendar(instant: int) -> None:
    moment = datetime.fromtimestamp(instant // 1_000_000, tz=UTC)
    assert month_of(instant) == moment.year * 100 + moment.month


@given(INSTANTS, INSTANTS)
def test_the_walk_back_meets_every_month_once_newest_first(one: int, other: int) -> None:
    newest, oldest = max(one, other), min(one, other)
    months = months_back(newest, oldest)
    assert months[0] == month_of(newest)
    assert months[-1] == month_of(oldest)
    numbers = [month // 100 * 12 + month % 100 - 1 for month in months]
    assert numbers == list(range(numbers[0], numbers[-1] - 1, -1))
    assert all(1 <= month % 100 <= 12 for month in months)


def test_a_span_beyond_the_allowed_years_is_held_to_them() -> None:
    months = months_back(2**62, -(2**62))
    assert (months[0], months[-1], len(months)) == (219912, 197001, 230 * 12)


def test_a_span_that_ends_before_it_begins_has_no_months() -> None:
    assert months_back(parse_rfc3339("2026-01-31T00:00:00Z"), parse_rfc3339("2026-02-01T00:00:00Z")) == []
