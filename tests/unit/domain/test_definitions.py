"""The one validation of all doors: what is taken survives being written and read; whatever else is refused in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.adapters.avro import AvroCodec
from tocsin.domain.commands import Command, CommandKind
from tocsin.domain.definitions import (
    LABEL_CHARS_MAX,
    LABELS_MAX,
    LATER,
    METADATA_BYTES_MAX,
    NAME_CHARS_MAX,
    JobDefinition,
    parse,
    parse_tenant,
    to_mapping,
)
from tocsin.domain.errors import Fault, InvalidInput
from tocsin.domain.firing import plan_of, plan_text
from tocsin.domain.instants import EARLIEST, LATEST, format_rfc3339
from tocsin.domain.schedules import DELAY_S_MAX
from tocsin.engine.job_commands import hash_of

MINIMAL = {"delay_s": 1, "target": {"type": "http", "url": "https://settle.internal/run"}}


def faults(mapping: object) -> list[Fault]:
    with pytest.raises(InvalidInput) as caught:
        parse(mapping)
    return list(caught.value.faults)


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)
free_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=10), inner, max_size=4)
    ),
    max_leaves=15,
)
header_names = st.from_regex(r"X-[A-Za-z0-9-]{1,20}", fullmatch=True)
header_values = st.from_regex(r"[\x21-\x7e]([\x20-\x7e]{0,20}[\x21-\x7e])?", fullmatch=True)
times = st.one_of(
    st.fixed_dictionaries({"run_at": st.integers(EARLIEST, LATEST).map(format_rfc3339)}),
    st.fixed_dictionaries({"delay_s": st.integers(0, DELAY_S_MAX) | st.floats(0, DELAY_S_MAX)}),
)
targets = st.fixed_dictionaries(
    {
        "type": st.just("http"),
        "url": st.from_regex(
            r"https?://[a-z]{1,10}(\.[a-z]{2,5})?(:[1-9][0-9]{0,3})?/[a-z0-9/?=&%-]{0,30}", fullmatch=True
        ),
    },
    optional={
        "method": st.sampled_from(["GET", "post", "Put", "DELETE"]),
        "headers": st.dictionaries(header_names.map(str.lower), header_values, max_size=4),
        "body": st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
        | st.lists(free_json, max_size=3)
        | st.dictionaries(texts, free_json, max_size=3),
        "timeout_s": st.floats(0, 86_400, exclude_min=True) | st.integers(1, 86_400),
    },
)
valid_jobs = st.builds(
    lambda time, nested, rest: {**({"schedule": time} if nested else time), **rest},
    times,
    st.booleans(),
    st.fixed_dictionaries(
        {"target": targets},
        optional={
            "name": texts,
            "labels": st.dictionaries(st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True), texts, max_size=4),
            "metadata": free_json,
            "alert_on": st.lists(st.sampled_from(["failure", "skip", "missed", "late"]), max_size=4),
        },
    ),
)


@given(valid_jobs)
@settings(deadline=None)
def test_a_definition_survives_being_written_as_a_mapping(mapping: dict[str, Any]) -> None:
    definition = parse(mapping)
    assert parse(to_mapping(definition)) == definition


@given(valid_jobs)
@settings(deadline=None)
def test_a_definition_survives_the_log(mapping: dict[str, Any]) -> None:
    codec = AvroCodec()
    definition = parse(mapping)
    command = Command(CommandKind.CREATE, "cmd_1", "job_1", "default", 0, to_mapping(definition))
    assert parse(codec.decode_command(codec.encode_command(command)).definition) == definition


@given(valid_jobs)
@settings(deadline=None)
def test_writing_is_stable(mapping: dict[str, Any]) -> None:
    once = to_mapping(parse(mapping))
    assert to_mapping(parse(once)) == once


def test_the_order_and_repetitions_of_alert_on_say_nothing() -> None:
    given, wanted = ["late", "failure", "late"], ["failure", "late"]
    one, other = parse({**MINIMAL, "alert_on": given}), parse({**MINIMAL, "alert_on": wanted})
    assert one == other
    assert hash_of(one) == hash_of(other) != hash_of(parse(MINIMAL))
    assert to_mapping(one)["alert_on"] == wanted
    for nothing in ([], None):
        assert to_mapping(parse({**MINIMAL, "alert_on": nothing})) == to_mapping(parse(MINIMAL))


def test_only_what_firing_decides_is_in_the_plan_of_rows() -> None:
    def plan(*words: str) -> str:
        return plan_text(parse({**MINIMAL, "alert_on": list(words)}), "job", 0)

    assert plan() == plan("failure") == ""
    assert plan_of(plan("late", "failure", "skip")).alert_on == ("skip", "late")
    assert plan_of('{"alert_on":["late","of a later version"]}').alert_on == ("late",)


# Keys that mean something, so that arbitrary JSON reaches the rules behind them.
names = st.sampled_from(
    [
        "name",
        "schedule",
        "run_at",
        "delay_s",
        "target",
        "labels",
        "metadata",
        "type",
        "url",
        "method",
        "headers",
        "body",
        "timeout_s",
        "cron",
        "retry",
        "alert_on",
        "nmae",
    ]
) | st.text(st.characters(), max_size=10)
hostile = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**4_000)
    | st.floats()
    | st.text(st.characters(), max_size=30)
    | st.sampled_from(
        ["http", "https://a/", "2026-10-11T02:00:00Z", "9999-12-31T23:59:59-01:00", "a\r\nb", "\ud800", "\x00"]
    )
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=6),
    max_leaves=30,
)


def check_refusal(error: InvalidInput) -> None:
    assert error.faults
    for fault in error.faults:
        assert fault.value
        assert fault.problem
        assert fault.remedy
        for text in (fault.field, fault.value, fault.problem, fault.remedy):
            assert len(text) <= 600
            text.encode()
            assert "\n" not in text
            assert "\x00" not in text


@given(hostile)
@settings(max_examples=400, deadline=None)
def test_anything_else_is_refused_and_in_one_way_only(value: Any) -> None:
    try:
        definition = parse(value)
    except InvalidInput as error:
        check_refusal(error)
    else:
        assert parse(to_mapping(definition)) == definition


@given(valid_jobs, st.data())
@settings(max_examples=300, deadline=None)
def test_a_valid_job_with_one_value_put_wrong_never_breaks_the_validation(
    mapping: dict[str, Any], data: st.DataObject
) -> None:
    place = data.draw(
        st.sampled_from([mapping, mapping["target"], *([mapping["schedule"]] if "schedule" in mapping else [])])
    )
    place[data.draw(names)] = data.draw(hostile)
    try:
        definition = parse(mapping)
    except InvalidInput as error:
        check_refusal(error)
    else:
        command = Command(CommandKind.CREATE, "cmd_1", "job_1", "default", 0, to_mapping(definition))
        AvroCodec().encode_command(command)


def test_a_number_too_long_to_be_written_is_refused_wherever_it_stands() -> None:
    monster = 10**5_000
    for mapping in (
        {**MINIMAL, "delay_s": monster},
        {**MINIMAL, "name": monster},
        {**MINIMAL, "metadata": [monster]},
        {**MINIMAL, "unknown": {"a": [monster]}},
        {"delay_s": 1, "target": {**MINIMAL["target"], "timeout_s": -monster}},  # type: ignore[dict-item]
    ):
        with pytest.raises(InvalidInput) as caught:
            parse(mapping)
        check_refusal(caught.value)


@pytest.mark.parametrize("value", [None, 5, "x", [], [MINIMAL], True, b"{}", object()])
def test_what_is_no_object_is_refused(value: object) -> None:
    (fault,) = faults(value)
    assert fault.problem == "is not an object"


def test_all_faults_are_told_at_once() -> None:
    found = faults(
        {
            "nmae": "x",
            "run_at": 5,
            "target": {"type": "http", "url": "x", "method": "BREW"},
            "labels": {"": "a"},
            "retry": 5,
        }
    )
    assert {fault.field for fault in found} == {"nmae", "run_at", "target.url", "target.method", "labels", "retry"}


@pytest.mark.parametrize("name", sorted(LATER))
def test_every_field_of_a_later_version_is_refused_by_name(name: str) -> None:
    (fault,) = faults({**MINIMAL, name: 1})
    assert fault.field == name
    assert "not supported yet" in fault.problem


@pytest.mark.parametrize("name", ["a", "Zürich", "☃", "🦀", "x" * NAME_CHARS_MAX])
def test_names_that_are_taken(name: str) -> None:
    assert parse({**MINIMAL, "name": name}).name == name


@pytest.mark.parametrize("name", ["", "x" * (NAME_CHARS_MAX + 1), "a\nb", "\x00", "\ud800", 5, True, ["x"]])
def test_names_that_are_refused(name: Any) -> None:
    assert [fault.field for fault in faults({**MINIMAL, "name": name})] == ["name"]


@pytest.mark.parametrize(
    "labels",
    [
        {"a b": "x"},
        {"": "x"},
        {"a": ""},
        {"a": None},
        {"a": 5},
        {"a": "x" * (LABEL_CHARS_MAX + 1)},
        {"a": "\r"},
        {"x" * 65: "a"},
        {f"l{n}": "x" for n in range(LABELS_MAX + 1)},
        ["a"],
        "a",
    ],
)
def test_labels_that_are_refused(labels: Any) -> None:
    (fault,) = faults({**MINIMAL, "labels": labels})
    assert fault.field.startswith("labels")


@pytest.mark.parametrize("metadata", [0, False, "", [], {}, {"null": None}, [[[]]], "été", 1e308, 2**64 - 1])
def test_metadata_is_returned_untouched(metadata: Any) -> None:
    returned = to_mapping(parse({**MINIMAL, "metadata": metadata}))["metadata"]
    assert returned == metadata
    assert type(returned) is type(metadata)


@pytest.mark.parametrize(
    "metadata",
    ["\ud800", {"\udfff": 1}, [float("nan")], "x" * METADATA_BYTES_MAX, [2**64]],
    ids=["lone", "in a name", "nan", "large", "big"],
)
def test_metadata_that_is_refused(metadata: Any) -> None:
    assert [fault.field for fault in faults({**MINIMAL, "metadata": metadata})] == ["metadata"]


def test_a_body_of_unknown_fields_is_refused_at_once_and_briefly() -> None:
    found = faults({f"f{n}": n for n in range(100_000)})
    assert len(found) <= 101


@pytest.mark.parametrize(
    ("given_id", "tenant"), [(None, "default"), ("", "default"), ("team-a_1", "team-a_1"), ("x" * 64, "x" * 64)]
)
def test_tenants_that_are_taken(given_id: object, tenant: str) -> None:
    assert parse_tenant(given_id) == tenant


@pytest.mark.parametrize(
    "value",
    [
        "x" * 65,
        "x" * 300,
        "a b",
        "a ",
        "a/b",
        "../etc/passwd",
        "a\x00b",
        "a|b",
        "a@b",
        "a.b",
        "a~b",
        "ä",
        "٣",
        "\n",
        "a\n",
        5,
        True,
        ["a"],
    ],
)
def test_tenants_that_are_refused(value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_tenant(value)
    check_refusal(caught.value)


def test_a_definition_says_no_more_than_it_was_given() -> None:
    assert to_mapping(parse(MINIMAL)) == {
        "schedule": {"delay_s": 1},
        "target": {"type": "http", "url": "https://settle.internal/run", "method": "POST", "timeout_s": 30.0},
    }
    assert isinstance(parse(MINIMAL), JobDefinition)
