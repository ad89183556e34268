"""Instants: what is read, what is refused, and that nothing is ever taken to be earlier than it was written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.domain.instants import EARLIEST, LATEST, SECOND, format_rfc3339, minute_of, parse_rfc3339


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00z", 0),
        ("2026-10-11T02:00:00+05:30", 1_791_664_200_000_000),
        ("2026-10-10T20:30:00Z", 1_791_664_200_000_000),
        ("1969-12-31T23:30:00-01:00", 1_800_000_000),
        ("2024-02-29T12:00:00-00:00", 1_709_208_000_000_000),
        ("2199-12-31T23:59:59.999999Z", LATEST),
        ("2200-01-01T00:59:59.999999+01:00", LATEST),
    ],
)
def test_reads_what_rfc_3339_allows(text: str, micros: int) -> None:
    assert parse_rfc3339(text) == micros


@pytest.mark.parametrize(
    ("fraction", "micros"),
    [
        ("1", 100_000),
        ("123456", 123_456),
        ("1234560", 123_456),
        ("1234561", 123_457),
        ("123456001", 123_457),
        ("000000001", 1),
        ("999999999", SECOND),
        ("99999999999999", SECOND),
    ],
)
def test_keeps_microseconds_and_rounds_what_is_finer_up(fraction: str, micros: int) -> None:
    assert parse_rfc3339(f"2026-01-01T00:00:00.{fraction}Z") == parse_rfc3339("2026-01-01T00:00:00Z") + micros


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2026-10-11T02:00:00", "no offset"),
        ("2026-10-11T02:00:60Z", "leap second"),
        ("2026-10-11T24:00:00Z", "exists"),
        ("2026-02-29T00:00:00Z", "exists"),
        ("2026-13-01T00:00:00Z", "exists"),
        ("2026-00-10T00:00:00Z", "exists"),
        ("0000-01-01T00:00:00Z", "exists"),
        ("2026-10-11T02:00:00+24:00", "offset"),
        ("2026-10-11T02:00:00+05:60", "offset"),
        ("9999-12-31T23:59:59-01:00", "1970 to 2199"),
        ("0001-01-01T00:00:00+01:00", "1970 to 2199"),
        ("1969-12-31T23:59:59.999999Z", "1970 to 2199"),
        ("2199-12-31T23:59:59.9999999Z", "1970 to 2199"),
        ("2200-01-01T00:00:00Z", "1970 to 2199"),
        ("1970-01-01T00:00:00+00:01", "1970 to 2199"),
        ("2026-10-11 02:00:00Z", "RFC 3339"),
        ("2026-10-11", "RFC 3339"),
        ("20261011T020000Z", "RFC 3339"),
        ("1704067200", "RFC 3339"),
        ("", "RFC 3339"),
        ("now", "RFC 3339"),
        ("2026-10-11T02:00Z", "RFC 3339"),
        ("2026-10-11T02:00:00.Z", "RFC 3339"),
        ("2026-10-11T02:00:00+0530", "RFC 3339"),
        ("2026-10-11T02:00:00Z\n", "RFC 3339"),
        (" 2026-10-11T02:00:00Z", "RFC 3339"),
        ("2026-10-11T02:00:00\u22125:30", "RFC 3339"),
        ("\u0662\u0660\u0662\u0666-10-11T02:00:00Z", "RFC 3339"),
        ("2026-10-11T02:00:00Z\x00", "RFC 3339"),
        ("+002026-10-11T02:00:00Z", "RFC 3339"),
        ("2" * 10_000, "longer than"),
        ("2026-10-11T02:00:00." + "1" * 5_000 + "Z", "longer than"),
    ],
)
def test_refuses_the_rest_in_words(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_rfc3339(text)


instants = st.integers(EARLIEST, LATEST)


@given(instants)
@settings(deadline=None)
def test_an_instant_survives_being_written(micros: int) -> None:
    assert parse_rfc3339(format_rfc3339(micros)) == micros


@given(instants, st.integers(-23 * 60, 23 * 60))
@settings(deadline=None)
def test_the_offset_changes_the_text_and_not_the_instant(micros: int, offset_min: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    try:
        text = moment.astimezone(timezone(timedelta(minutes=offset_min))).isoformat()
    except OverflowError:
        return
    assert parse_rfc3339(text) == micros


@given(st.integers(0, 10**14 - 1), st.integers(1, 14))
@settings(deadline=None)
def test_a_fraction_is_never_read_early_and_never_a_microsecond_late(number: int, digits: int) -> None:
    text = str(number % 10**digits).rjust(digits, "0")
    exact = Fraction(int(text), 10**digits) * SECOND
    read = parse_rfc3339(f"1970-01-01T00:00:00.{text}Z")
    assert exact <= read < exact + 1


@given(st.text(max_size=60))
@settings(deadline=None)
def test_no_text_raises_anything_but_value_error(text: str) -> None:
    try:
        assert EARLIEST <= parse_rfc3339(text) <= LATEST
    except ValueError as error:
        assert str(error)


def test_the_minute_of_an_instant_holds_it() -> None:
    assert minute_of(59_999_999) == 0
    assert minute_of(60_000_000) == 1
