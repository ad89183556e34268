"""The reading of fields: bounded work and harmless words for whatever value turns up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.domain.errors import Fault
from tocsin.domain.fields import (
    FAULTS_MAX,
    JSON_DEPTH_MAX,
    SHOWN_CHARS_MAX,
    FieldReader,
    as_json,
    has_surrogate,
    printable,
    shown,
)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def reader(**fields: Any) -> FieldReader:
    return FieldReader(fields, "", [])


def only(found: list[Fault]) -> Fault:
    assert len(found) == 1, found
    return found[0]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
)


@given(json_values)
@settings(deadline=None)
def test_any_value_can_be_shown_in_bounded_printable_form(value: Any) -> None:
    text = shown(value)
    assert len(text) <= SHOWN_CHARS_MAX + 1
    assert text.isprintable()
    text.encode()


@pytest.mark.parametrize(
    "value",
    [
        nested(100_000),
        [10**5_000],
        {"a": [10**5_000]},
        {"k" * 10**6: 1},
        "x" * 10**6,
        [0] * 10**6,
        object(),
        b"\xff",
        -(10**5_000),
    ],
    ids=[
        "deep",
        "big number inside",
        "in a mapping",
        "long name",
        "long text",
        "long list",
        "object",
        "bytes",
        "negative",
    ],
)
def test_monsters_are_shown_too(value: Any) -> None:
    assert 0 < len(shown(value)) <= SHOWN_CHARS_MAX + 1


def test_what_is_shown_can_be_recognised() -> None:
    assert shown("a\x00\ud800b") == r"'a\x00\ud800b'"
    assert shown({"a": [1, None, True]}) == "{'a': [1, None, True]}"
    assert shown(10**100) == "a number of 333 bits"
    assert printable("run_at") == "run_at"
    assert printable("a\nb") == r"'a\nb'"


@given(st.text(st.characters()))
@settings(deadline=None)
def test_has_surrogate_is_what_utf_8_refuses(text: str) -> None:
    assert has_surrogate(text) is any(0xD800 <= ord(char) <= 0xDFFF for char in text)


@pytest.mark.parametrize("value", ["", "a" * 6, "a\x00b", "a\r\nb", "\x7f", "\x85", "\ud83d", 5, True, ["a"], {"a": 1}])
def test_texts_that_are_refused(value: Any) -> None:
    r = reader(name=value)
    assert r.text("name", chars_max=5) is None
    fault = only(r.faults)
    assert fault.field == "name"
    assert fault.remedy


@pytest.mark.parametrize("value", ["a", "été", "☃", "🐱", "a\u200bb"])
def test_texts_of_any_language_are_taken(value: str) -> None:
    r = reader(name=value)
    assert r.text("name", chars_max=5) == value
    assert not r.faults


@pytest.mark.parametrize(
    "value",
    [-1, -0.1, 10.000001, 10**5_000, 1e18, float("nan"), float("inf"), True, "5", [5], b"5"],
    ids=shown,
)
def test_numbers_that_are_refused(value: Any) -> None:
    r = reader(delay_s=value)
    assert r.number("delay_s", low=0, high=10, unit="seconds") is None
    assert only(r.faults).remedy == "give a number of seconds from 0 to 10"


def test_bounds_of_numbers_are_inclusive_unless_said() -> None:
    assert reader(x=0).number("x", low=0, high=10, unit="s") == 0
    assert reader(x=10).number("x", low=0, high=10, unit="s") == 10
    r = reader(x=0)
    assert r.number("x", low=0, high=3_200_000_000, unit="s", above_low=True) is None
    assert only(r.faults).remedy == "give a number of s above 0 and up to 3200000000"


def test_unknown_fields_are_refused_also_when_null_and_later_ones_by_name() -> None:
    r = reader(nmae=1, other=None, retry={"max": 1}, catch_up=None, name="x")
    r.finish(("name",), {"retry": "retries", "catch_up": "catching up"})
    assert [(f.field, f.problem) for f in r.faults] == [
        ("nmae", "is an unknown field"),
        ("other", "is an unknown field"),
        ("retry", "is not supported yet: retries"),
    ]
    assert "did you mean 'name'?" in r.faults[0].remedy


def test_the_list_of_faults_is_bounded_and_says_so() -> None:
    r = FieldReader({f"field{n}": n for n in range(200_000)}, "", [])
    r.finish(("name",), {})
    assert len(r.faults) == FAULTS_MAX + 1
    assert "too many" in r.faults[-1].problem


@given(st.dictionaries(st.text(st.characters(), max_size=200), st.integers(), max_size=5))
@settings(deadline=None)
def test_names_of_unknown_fields_are_harmless_in_faults(fields: dict[str, int]) -> None:
    r = FieldReader(fields, "", [])
    r.finish((), {})
    for fault in r.faults:
        assert fault.field.isprintable()
        fault.field.encode()


@given(json_values)
@settings(deadline=None)
def test_what_as_json_writes_is_read_back_the_same(value: Any) -> None:
    text = as_json(value)
    if text is not None:
        assert json.loads(text) == value


@pytest.mark.parametrize(
    "value",
    [
        nested(JSON_DEPTH_MAX + 1),
        nested(100_000),
        [float("nan")],
        {"a": float("inf")},
        [2**64],
        [-(2**63) - 1],
        {1: 2},
        [object()],
    ],
    ids=["deep", "very deep", "nan", "infinite", "big", "small", "number as name", "object"],
)
def test_what_not_every_reader_of_json_takes_is_none(value: Any) -> None:
    assert as_json(value) is None


def test_the_bounds_of_free_json_are_inclusive() -> None:
    assert as_json(nested(JSON_DEPTH_MAX)) == "[" * JSON_DEPTH_MAX + "1" + "]" * JSON_DEPTH_MAX
    assert as_json([2**64 - 1, -(2**63)]) == "[18446744073709551615,-9223372036854775808]"
