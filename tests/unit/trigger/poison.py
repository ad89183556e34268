"""A codec that raises what no codec should, wherever a test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.trigger.world import World
from tocsin.adapters.avro import AvroCodec
from tocsin.domain.commands import Command
from tocsin.domain.sharding import shard_of

POISON = b"/poison"
DELAYED = {"delay_s": 2, "target": {"type": "http", "url": "https://example.test/poison"}}


class PoisonCodec(AvroCodec):
    """Fails in the methods that ``fails`` names, for values that its function picks."""

    def __init__(self) -> None:
        self.fails: dict[str, Callable[[Any], bool]] = {}
        self.failures = 0

    def _taste(self, name: str, value: Any) -> None:
        if name in self.fails and self.fails[name](value):
            self.failures += 1
            raise RuntimeError(f"{name} fails")

    def restamp(self, execution: bytes, stamp: bytes) -> bytes:
        self._taste("restamp", execution)
        return super().restamp(execution, stamp)

    def decode_execution(self, value: bytes | None) -> Any:
        self._taste("decode_execution", value)
        return super().decode_execution(value)

    def decode_command(self, value: bytes | None) -> Command:
        self._taste("decode_command", value)
        return super().decode_command(value)

    def decode_report(self, value: bytes | None) -> Any:
        self._taste("decode_report", value)
        return super().decode_report(value)

    def encode_execution(self, head: Any, target: Any, retry: Any = None, **more: int) -> bytes:
        self._taste("encode_execution", target)
        return super().encode_execution(head, target, retry, **more)

    def encode_delta(self, delta: Any) -> bytes:
        self._taste("encode_delta", delta)
        return super().encode_delta(delta)


def is_poison(value: bytes | None) -> bool:
    return POISON in (value or b"")


def poisoned(world: World, **definition: object) -> str:
    """Create a job of shard 0 whose executions hold the poison; return its id."""
    world._ids += 1
    while shard_of(job := world._new_id(), world.shards) != 0:
        world._ids += 1
    body = {**DELAYED, **definition}
    if "schedule" in body:
        del body["delay_s"]
    world.send(Command("create", "poison", job, None, 0, body))
    return job
