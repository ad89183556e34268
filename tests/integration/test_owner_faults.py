"""What an owner does when a real broker is slow to answer, does not answer, or no longer knows it.

The broker is real; a wire in front of it holds requests and answers, or loses them with their connection.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.integration import kafka_wire as wire_of
from tests.integration.kafka_wire import (
    END_TXN,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    PRODUCE,
    Wire,
)
from tests.integration.owner_world import SHARDS, Owner, OwnerWorld
from tocsin.adapters.kafka import shard_log
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.takeover import KafkaTakeover
from tocsin.devcluster import Endpoints
from tocsin.domain.sharding import shard_of

pytestmark = pytest.mark.real


@pytest.fixture
def wire(cluster: Endpoints) -> Iterator[Wire]:
    made = Wire(cluster.kafka_bootstrap)
    yield made
    made.close()


@pytest.fixture
def world(cluster: Endpoints, unique: str, wire: Wire) -> Iterator[OwnerWorld]:
    made = OwnerWorld(cluster.kafka_bootstrap, unique)
    yield made
    wire.mend()
    made.close()


@pytest.fixture
def owner(world: OwnerWorld, wire: Wire) -> Owner:
    """An owner of all shards, behind the wire, that has fired before."""
    started = world.start("a", bootstrap=wire.bootstrap, session_timeout_s=6)
    world.until_owned()
    world.until_fired(world.create(count=4))
    return started


def test_a_slow_end_of_a_transaction_costs_only_time(
    world: OwnerWorld, wire: Wire, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes longer than one call waits for it; the next call goes on where that was."""
    monkeypatch.setattr(shard_log, "ANSWER_S", 1.0)
    before = owner.engines
    wire.rule(END_TXN, wire_of.ANSWER)
    threading.Timer(2.5, wire.mend).start()
    world.until_fired(world.create(count=6))
    assert owner.slowest_s >= 2
    assert len(owner.ids) == 1 and owner.engines == before, "it waited, and forgot nothing"


@pytest.mark.parametrize("what", [wire_of.REQUEST, wire_of.ANSWER, wire_of.CUT_BEFORE, wire_of.CUT_AFTER])
def test_after_a_commit_of_unknown_outcome_an_owner_starts_over_under_a_new_id(
    world: OwnerWorld, wire: Wire, owner: Owner, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it was committed or not, no job is fired twice or lost; also where the old commit arrives at last."""
    monkeypatch.setattr(shard_log, "ANSWER_S", 2.0)
    monkeypatch.setattr(shard_log, "COMMIT_PATIENCE_S", 1.0)
    before = owner.engines
    wire.rule(END_TXN, what, naming=owner.ids[0])
    jobs = world.create(count=6)
    world.until("the owner to start over", lambda: len(owner.ids) > 1)
    assert not owner.engines, "nothing is kept"
    world.until_fired(jobs)
    wire.mend()
    world.until_fired(jobs + world.create(count=4))
    assert world.recorded_owners() == {owner.ids[-1]} != {owner.ids[0]}
    assert not set(map(id, owner.engines.values())) & set(map(id, before.values()))
    assert wire.count(LEAVE_GROUP) == 0


def test_records_that_are_not_acknowledged_in_time_cost_no_restore(world: OwnerWorld, wire: Wire, owner: Owner) -> None:
    """As while the leader of a partition is away. The turn is aborted and sent again; the records come after all."""
    before = owner.engines
    wire.rule(PRODUCE, wire_of.REQUEST)
    threading.Timer(6, wire.mend).start()
    world.until_fired(world.create(count=6))
    assert owner.slowest_s >= 3
    assert len(owner.ids) == 1 and owner.engines == before


@pytest.mark.parametrize("successor", [False, True])
def test_an_owner_that_the_group_gave_up_forgets_all_and_stays_a_member(
    world: OwnerWorld, wire: Wire, owner: Owner, successor: bool
) -> None:
    """Nothing of it reaches the broker for longer than its session; then it is told that it lost its shards."""
    before, member = owner.engines, owner.member_id
    wire.rule(None, wire_of.REQUEST)
    jobs = world.create(count=6, in_s=1)
    if successor:
        other = world.start("b", session_timeout_s=6)
        world.until_owned(other)
        world.until_fired(jobs, other)
        jobs += world.create(count=6, in_s=1)
    else:
        _wait_until_given_up(world, member)
    wire.mend()
    world.until("the loss to be noticed", lambda: len(owner.ids) > 1, owner)
    world.until("it to be a member again", lambda: owner.engines)
    world.until_fired(jobs)
    assert not set(map(id, owner.engines.values())) & set(map(id, before.values()))
    assert wire.count(LEAVE_GROUP) == 0
    assert world.recorded_owners() <= {owner.ids[-1], *(i for o in world.owners if o is not owner for i in o.ids)}


def test_a_fenced_owner_forgets_all_and_stays_a_member(world: OwnerWorld, wire: Wire, owner: Owner) -> None:
    before, member, joins = owner.engines, owner.member_id, wire.count(JOIN_GROUP)
    KafkaTakeover(world.bootstrap, world.names, "successor", {}).fence(owner.ids[0])
    jobs = world.create(count=6)
    world.until("the fence to be noticed", lambda: len(owner.ids) > 1)
    assert not owner.engines
    world.until_fired(jobs)
    assert len(owner.ids) == 2 and world.recorded_owners() == {owner.ids[1]}
    assert not set(map(id, owner.engines.values())) & set(map(id, before.values()))
    assert (owner.member_id, wire.count(LEAVE_GROUP), wire.count(JOIN_GROUP)) == (member, 0, joins)


def test_a_call_of_the_client_that_never_comes_back_costs_a_restore(
    world: OwnerWorld, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka hangs so where the group's coordinator leaves the cluster while offsets are being sent."""
    monkeypatch.setattr(owner.log, "_transaction_timeout_s", 1.0)
    released = threading.Event()

    class Hanging:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def send_offsets_to_transaction(self, *_: Any) -> None:
            released.wait(wait_max_s)

    wait_max_s = 300
    owner.log._producer = Hanging(owner.log._producer)  # type: ignore[assignment]
    jobs = world.create(count=6)
    try:
        world.until("the owner to start over", lambda: len(owner.ids) > 1)
        world.until_fired(jobs)
    finally:
        released.set()
    assert world.recorded_owners() == {owner.ids[-1]}


def test_the_brokers_hear_of_short_transactions_and_of_the_session(world: OwnerWorld, wire: Wire) -> None:
    owner = world.start("a", bootstrap=wire.bootstrap)
    world.until_owned()
    assert _numbers_after(wire, INIT_PRODUCER_ID, owner.ids[0]) == {5_000}
    assert _numbers_after(wire, JOIN_GROUP, world.names.group("trigger")) == {10_000}


def test_a_strangers_open_transaction_keeps_no_other_shard(world: OwnerWorld) -> None:
    """In a log that a successor must read to its end, its shard waits alone; in the reports not even that one does."""
    jobs = world.create(count=8)
    stranger = Producer(
        {"bootstrap.servers": world.bootstrap, "transactional.id": f"{world.names.prefix}x", "log_level": 0}
    )
    stranger.init_transactions(20)
    stranger.begin_transaction()
    stranger.produce(world.names.shard_state, b"never committed", "x", 1)
    stranger.produce(world.names.reports, b"never committed", "x", 0)
    assert stranger.flush(20) == 0
    in_1 = {job for job in jobs if shard_of(job, SHARDS) == 1}
    assert in_1 and set(jobs) - in_1
    owner = world.start()
    world.until("the other shard's jobs to fire", lambda: set(world.fired()) >= set(jobs) - in_1)
    assert set(owner.engines) == {0}
    assert not set(world.fired()) & in_1 and 1 not in world.states()
    stranger.abort_transaction(20)
    world.until_fired(jobs)


def test_retries_of_the_client_wait_a_millisecond(
    cluster: Endpoints, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen in what the client is given: which errors of brokers it retries so, no test can bring about at will."""
    given: list[dict[str, Any]] = []

    def producer(config: dict[str, Any]) -> Producer:
        given.append(config)
        return Producer(config)

    monkeypatch.setattr(shard_log, "Producer", producer)
    log = shard_log.KafkaShardLog(cluster.kafka_bootstrap, TopicNames(f"{unique}."), "a")
    log.renew(unique)
    log.close(leave=True)
    assert [(c["retry.backoff.ms"], c["retry.backoff.max.ms"]) for c in given] == [(1, 10)]


def _wait_until_given_up(world: OwnerWorld, member: str) -> None:
    group = world.names.group("trigger")

    def members() -> list[str]:
        return [m.member_id for m in world.admin.describe_consumer_groups([group])[group].result(20).members]

    assert member in members()
    deadline = time.monotonic() + 60
    while member in members():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _numbers_after(wire: Wire, api: int, name: str) -> set[int]:
    """Return the numbers that follow a name in requests of a kind: the first field after it."""
    found = set()
    for asked in wire.asked:
        _, named, rest = asked.frame.partition(name.encode())
        if asked.api == api and named:
            found.add(int.from_bytes(rest[:4], "big"))
    return found
