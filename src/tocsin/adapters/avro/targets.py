"""Targets as Avro: one record whose fields apply by its type, in definitions and in executions alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from tocsin.adapters.avro.schemas import target_writer
from tocsin.adapters.avro.writers import Written
from tocsin.domain.definitions import target_mapping
from tocsin.domain.errors import Undecodable
from tocsin.domain.programs import CommandTarget, ContainerTarget
from tocsin.domain.targets import TIMEOUT_S_DEFAULT, HandlerTarget, HttpTarget, MessageTarget, Target


def target_to_avro(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return a target's mapping as a record; Avro has no free-form JSON, so a payload travels as JSON text."""
    record = dict(mapping)
    if record.get("payload") is not None:
        record["payload"] = orjson.dumps(record["payload"]).decode()
    return record


class _Kept:
    """The target that was written last, as it was written."""

    def __init__(self) -> None:
        self.latest: tuple[Target, Written] | None = None


_kept: Final = _Kept()


def written_target(target: Target) -> Written:
    """Return a target as it stands in definitions and in executions.

    A job's snapshot and the execution of its row follow one another and have the same target, so the last is kept.
    """
    latest = _kept.latest
    if latest is None or latest[0] is not target:
        out = bytearray()
        target_writer()(out, target_to_avro(target_mapping(target)))
        latest = _kept.latest = target, Written(out)
    return latest[1]


def target_from_avro(record: Mapping[str, Any]) -> Target:
    """Return the target of an execution.

    Raises:
        Undecodable: it is none that this version knows, or lacks what it needs.
    """
    headers = record["headers"] or {}
    timeout_s = record["timeout_s"] or TIMEOUT_S_DEFAULT
    if record["type"] == HttpTarget.type and record["url"]:
        flags = record["template"] is True, record["callback"] is True
        return HttpTarget(record["url"], record["method"] or "POST", headers, record["body"], timeout_s, *flags)
    if record["type"] == MessageTarget.type and record["topic"]:
        return MessageTarget(record["topic"], record["key"], headers, record["value"])
    if record["type"] == HandlerTarget.type and record["name"] and record["pool"]:
        return HandlerTarget(record["name"], record["pool"], record["payload"], timeout_s)
    if record["type"] == CommandTarget.type and record["argv"] and record["pool"]:
        argv, env = tuple(record["argv"]), record["env"] or {}
        return CommandTarget(argv, record["pool"], env, record["cwd"], timeout_s)
    if record["type"] == ContainerTarget.type and record["image"] and record["pool"]:
        argv, env, resources = tuple(record["argv"] or ()), record["env"] or {}, record["resources"] or {}
        return ContainerTarget(record["image"], record["pool"], argv, env, resources, timeout_s)
    raise Undecodable(f"has a target of the unknown type {record['type']!r}")
