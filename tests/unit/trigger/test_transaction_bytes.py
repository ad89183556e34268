"""No turn makes a transaction of endless size, however large the bodies are that it has to write."""

from __future__ import annotations

import pytest

from tests.unit.trigger.world import World
from tocsin.domain.commands import Command
from tocsin.engine.shard_engine import EngineLimits
from tocsin.ports.shard_log import ShardTurn
from tocsin.roles.trigger.loop import LoopLimits

TARGET = {"type": "http", "url": "https://example.test/", "body": "b" * 200_000}
RETRIED = {"max_attempts": 2, "backoff": "fixed", "base_s": 1, "max_s": 1, "jitter": "none"}


def weigh(world: World) -> list[int]:
    """Return a list that the size of every transaction is added to."""
    sizes: list[int] = []
    commit = world.shard_log.commit

    def weighed(turns: list[ShardTurn]) -> dict[int, int]:
        sizes.append(sum(len(r.value or b"") for turn in turns for r in [*turn.records, *turn.jobs]))
        return commit(turns)

    world.shard_log.commit = weighed  # type: ignore[assignment, method-assign]
    return sizes


def create(world: World, count: int) -> None:
    for n in range(count):
        world._ids += 1
        job = world._new_id()
        definition = {"delay_s": 1, "target": TARGET, "retry": RETRIED}
        world.send(Command("create", f"large{n}", job, None, 0, definition))


@pytest.mark.parametrize("kind", ["FAILED", "RUNNING", "RETURNED"])
def test_reports_retries_and_dead_letters_of_large_executions_go_in_bounded_turns(kind: str) -> None:
    """The bodies of all of them together would make transactions of 10 and 20 MB."""
    bound = 1_000_000
    bounds = EngineLimits(retry_bytes_max=bound, report_bytes_max=bound, fire_bytes_max=bound, command_bytes_max=bound)
    world = World(1, bounds)
    world.start()
    world.settle()
    create(world, 50)
    world.run(5)
    sizes = weigh(world)
    for execution in world.executions():
        world.report(execution, kind, timeout_s=5.0, started="no")
    world.run(60)
    latest = {one.head.execution_id: one for one in sorted(world.executions(), key=lambda one: one.head.token)}
    assert len(world.fired()) == 100
    for execution in latest.values():
        world.report(execution, "FAILED")
    world.run(20)
    assert len(world.fired()) == (100 if kind != "RETURNED" else 150)
    assert max(sizes) < 5 * bound


def test_one_transaction_holds_no_more_than_its_bound_and_shards_take_turns() -> None:
    world = World(shards=8)
    world.loop_limits = LoopLimits(transaction_bytes_max=1_000_000)
    world.start()
    world.settle()
    create(world, 40)
    sizes = weigh(world)
    world.run(10)
    assert len(world.fired()) == 40
    assert max(sizes) < 8_000_000
