"""The message lane on a real broker: exactly once for readers of committed records, whatever dies or sleeps."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.lane_world import WorkerProcess, wait_until, worker_processes
from tests.integration.message_world import MessageWorld
from tests.kafka_topics import create_topics
from tocsin.devcluster import Endpoints

pytestmark = pytest.mark.real

TRANSACTION_S = 2


@pytest.fixture
def world(cluster: Endpoints, unique: str) -> Iterator[MessageWorld]:
    world = MessageWorld(cluster.kafka_bootstrap, unique)
    yield world
    world.close()


@pytest.fixture
def start(world: MessageWorld, tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    with worker_processes() as make:
        yield partial(make, world, tmp_path, lanes='["message"]', transaction_timeout_s=TRANSACTION_S)


def jobs(start: int, end: int) -> list[str]:
    return [f"job{n}" for n in range(start, end)]


def frozen(worker: WorkerProcess, seconds: float) -> None:
    worker.process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    worker.process.send_signal(signal.SIGCONT)


def test_every_message_is_visible_once_through_kills_freezes_and_rebalances(
    world: MessageWorld, start: Callable[..., WorkerProcess]
) -> None:
    # Small transactions, so that whatever happens happens in the middle of one.
    settings = {"message_batch_records_max": 5}
    a, b = start("a", **settings), start("b", **settings)
    a.wait_ready()
    b.wait_ready()
    world.dispatch(jobs(0, 800))
    world.wait_for_orders(60)
    a.kill()
    c = start("c", **settings)
    c.wait_ready()
    world.dispatch(jobs(800, 1_400))
    world.wait_for_orders(860)
    # Longer than a transaction lives, and shorter than a member's session.
    frozen(b, 2 * TRANSACTION_S + 1)
    world.dispatch(jobs(1_400, 2_000))
    d = start("d", **settings)
    d.wait_ready()
    world.wait_for_orders(1_500)
    assert c.stop() == 0, c.log.read_text()
    world.wait_for_reports(2_000)
    world.see_nothing_more()
    assert world.ordered() == Counter(jobs(0, 2_000))
    assert world.ends() == Counter({(job, "SUCCEEDED"): 1 for job in jobs(0, 2_000)})
    assert {(r.head.attempt, r.head.token, r.redelivered) for r in world.reports()} == {(1, 5, False)}
    assert [b.stop(), d.stop()] == [0, 0], b.log.read_text() + d.log.read_text()
    headers: dict[Any, Any] = dict(next(m.headers() or [] for m in world.orders.found if m.key() == b"job7"))
    assert (headers["idempotency-key"], headers["colour"]) == (b"job7.1.1000000", b"blue")


def test_what_cannot_be_written_ends_failed_and_stalls_nobody(
    world: MessageWorld, start: Callable[..., WorkerProcess]
) -> None:
    world.create("tiny", max_message_bytes="2000")
    world.create("latest", cleanup_policy="compact")
    expected: dict[tuple[str, str], int] = {}
    for number in range(3):
        world.dispatch(jobs(10 * number, 10 * number + 10))
        world.dispatch([f"missing{number}"], topic=world.topic("missing"))
        world.dispatch([f"large{number}"], topic=world.topic("tiny"), value="x" * 3_000)
        world.dispatch([f"own{number}"], topic=world.names.reports)
        expected |= {
            (f"missing{number}", "topic_missing"): 1,
            (f"large{number}", "too_large"): 1,
            (f"own{number}", "reserved_topic"): 1,
        }
    expected |= {(job, "SUCCEEDED"): 1 for job in jobs(0, 30)}
    worker = start("w")
    world.wait_for_reports(39)
    world.see_nothing_more()
    assert world.ends() == expected
    assert world.ordered() == Counter(jobs(0, 30))
    assert worker.stop() == 0
    # Known beforehand, so that no transaction failed over them.
    assert "message_lane.transaction_failed" not in worker.log.read_text()


def test_what_changes_behind_the_lanes_back_fails_alone(
    world: MessageWorld, start: Callable[..., WorkerProcess]
) -> None:
    names = ("shrinks", "goes")
    for name in names:
        world.create(name)
        world.dispatch([f"first-{name}"], topic=world.topic(name), value="x" * 3_000)
    worker = start("w", message_topic_age_s=600)
    world.wait_for_reports(2)
    world.alter("shrinks", max_message_bytes=1_000)
    for future in world.admin.delete_topics([world.topic("goes")]).values():
        future.result()
    wait_until(lambda: world.topic("goes") not in world.admin.list_topics(timeout=10).topics, "the topic to be gone")
    world.dispatch(jobs(0, 20))
    for name in names:
        world.dispatch([f"second-{name}"], topic=world.topic(name), value="x" * 3_000)
    world.dispatch(jobs(20, 40))
    world.wait_for_reports(44)
    world.see_nothing_more()
    assert world.ordered() == Counter(jobs(0, 40))
    ends = world.ends()
    assert ends == Counter(
        {(f"first-{name}", "SUCCEEDED"): 1 for name in names}
        | {(job, "SUCCEEDED"): 1 for job in jobs(0, 40)}
        | {("second-shrinks", "too_large"): 1, ("second-goes", "topic_missing"): 1}
    )
    assert worker.stop() == 0


def test_the_lane_runs_beside_the_default_one(world: MessageWorld, start: Callable[..., WorkerProcess]) -> None:
    create_topics(world.bootstrap, {world.names.executions("default"): 2})
    worker = start("w", lanes='["default", "message"]')
    worker.wait_ready()
    world.dispatch(jobs(0, 50))
    world.wait_for_reports(50)
    assert world.ordered() == Counter(jobs(0, 50))
    assert worker.stop() == 0, worker.log.read_text()
