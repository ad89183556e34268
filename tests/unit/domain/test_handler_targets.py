"""Handler targets: read whatever encoding they came in, kept as they were, and refused field by field."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.adapters.avro.codec import AvroCodec
from tocsin.domain.commands import Command
from tocsin.domain.definitions import parse, to_mapping
from tocsin.domain.errors import Fault, InvalidInput
from tocsin.domain.executions import AttemptHead
from tocsin.domain.ids import execution_id
from tocsin.domain.pools import lane_of_pool, pool_of_lane
from tocsin.domain.targets import BODY_BYTES_MAX, HttpTarget, MessageTarget, lane_of

CODEC = AvroCodec()
WHOLE = {"type": "handler", "name": "send-reminder", "pool": "reminders"}


def target(**fields: Any) -> Any:
    return parse({"delay_s": 1, "target": {**WHOLE, **fields}}).target


def faults(**fields: Any) -> list[Fault]:
    with pytest.raises(InvalidInput) as caught:
        target(**fields)
    return list(caught.value.faults)


@pytest.mark.parametrize(
    "payload",
    [{"to": "ada", "n": [1, 2.5, None]}, [], {}, "a text", '{"a": "text of JSON"}', 0, False, "Zürich ☃", None],
)
def test_a_payload_of_any_kind_comes_back_as_it_was_by_every_door(payload: Any) -> None:
    definition = parse({"delay_s": 1, "target": {**WHOLE, "payload": payload, "timeout_s": 5}})
    mapping = to_mapping(definition)
    assert mapping["target"].get("payload") == payload
    assert parse(mapping) == definition
    command = Command("create", "c", "job_1", "default", 0, mapping)
    sent = CODEC.decode_command(CODEC.encode_command(command)).definition
    assert sent is not None and parse(sent) == definition
    head = AttemptHead(1, 2, 0, execution_id("default@j", 1, 5), "default@j", "default", 1, 5, 5)
    execution = CODEC.decode_execution(CODEC.encode_execution(head, definition.target))
    assert execution.target == definition.target


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", None), ("name", ""), ("name", "send reminder"), ("name", "x" * 129), ("name", 7),
        ("pool", None), ("pool", "a.b"), ("pool", "x" * 65), ("pool", "default/../x"), ("pool", ["gpu"]),
        ("payload", float("nan")), ("payload", 2**70), ("payload", "\ud800"), ("payload", "x" * (BODY_BYTES_MAX + 1)),
        ("timeout_s", 0), ("timeout_s", 86_401), ("timeout_s", "30"),
        ("url", "https://a.example/"), ("headers", {}), ("payloads", 1),
    ],
)  # fmt: skip
def test_each_field_that_is_wrong_is_named(field: str, value: Any) -> None:
    assert f"target.{field}" in {fault.field for fault in faults(**{field: value})}


def test_a_payload_is_never_shown_in_a_fault() -> None:
    (fault,) = faults(payload={"password": "hunter2", "n": float("inf")})
    assert "hunter2" not in str(fault)


def test_each_kind_of_target_has_its_lane() -> None:
    assert lane_of(HttpTarget("https://a.example/")) == "default"
    assert lane_of(MessageTarget("t")) == "message"
    assert lane_of(target()) == "pool.reminders"


@pytest.mark.parametrize("lane", ["default", "message", "pool.", "pool.a.b", "pool", "reminders", "pool." + "x" * 65])
def test_only_a_pools_lane_is_one(lane: str) -> None:
    assert pool_of_lane(lane) is None


def test_a_pool_that_is_called_like_a_lane_has_a_lane_of_its_own() -> None:
    assert lane_of_pool("default") == "pool.default"
    assert pool_of_lane("pool.default") == "default"
