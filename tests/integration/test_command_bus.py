"""The command bus: one suite for the fake and for Kafka, and what only a real log can show."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tocsin.adapters.kafka.command_bus import CERTAINLY_NOT_LOGGED, KafkaCommandBus, _settle
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.memory.command_bus import MemoryCommandBus
from tocsin.devcluster import Endpoints
from tocsin.domain.errors import InvalidInput, Unavailable
from tocsin.domain.sharding import shard_of
from tocsin.ports.command_bus import CommandBus, Delivery, OutcomeSeen

SHARDS = 8
OUTCOME_PARTITIONS = 3
PATIENCE_S = 60.0


class MemoryLog:
    """The fake, and the log's other side as a test needs it."""

    def __init__(self) -> None:
        self.bus = MemoryCommandBus()

    def new_bus(self) -> CommandBus:
        return self.bus

    async def publish(self, outcomes: Sequence[OutcomeSeen]) -> None:
        for seen in outcomes:
            self.bus.publish(*seen)

    def commands(self) -> list[tuple[int, str, bytes]]:
        return [(shard_of(job_id, SHARDS), job_id, value) for _, job_id, value in self.bus.commands]

    def reports(self) -> list[tuple[int, str, bytes]]:
        return [(shard_of(job_id, SHARDS), job_id, value) for job_id, value in self.bus.reports]


class KafkaLog:
    """Real topics; outcomes are written in transactions, as owners write them."""

    def __init__(self, bootstrap: str, prefix: str, *, create: bool = True) -> None:
        self.bootstrap = bootstrap
        self.names = TopicNames(f"{prefix}.")
        self.fatal: list[bool] = []
        self._producer: Producer | None = None
        if create:
            self.create_topics()

    def create_topics(self) -> None:
        sharded = [NewTopic(name, SHARDS, 1) for name in (self.names.commands, self.names.reports)]
        topics = [*sharded, NewTopic(self.names.outcomes, OUTCOME_PARTITIONS, 1)]
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for made in admin.create_topics(topics).values():
            made.result(30)

    def new_bus(self, delivery_timeout_s: float = 20.0) -> KafkaCommandBus:
        return KafkaCommandBus(self.bootstrap, self.names, "test", delivery_timeout_s, lambda: self.fatal.append(True))

    def writer(self) -> Producer:
        if self._producer is None:
            config = {"bootstrap.servers": self.bootstrap, "transactional.id": f"{self.names.prefix}owner"}
            self._producer = Producer(config)
            self._producer.init_transactions(30)
        return self._producer

    async def publish(self, outcomes: Sequence[OutcomeSeen], *, abort: bool = False) -> None:
        def write() -> None:
            producer = self.writer()
            producer.begin_transaction()
            for number, (command_id, value) in enumerate(outcomes):
                producer.produce(self.names.outcomes, value, command_id, partition=number % OUTCOME_PARTITIONS)
            if abort:
                producer.flush(30)  # so that the records are in the log before they are aborted
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)

        await asyncio.to_thread(write)

    def commands(self) -> list[tuple[int, str, bytes]]:
        return self._all_of(self.names.commands)

    def reports(self) -> list[tuple[int, str, bytes]]:
        return self._all_of(self.names.reports)

    def _all_of(self, topic: str) -> list[tuple[int, str, bytes]]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "look", "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, p, 0) for p in range(SHARDS)])
        found, ended = [], 0
        while ended < SHARDS:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, "the broker does not answer"
            if message.error() is None:
                found.append((message.partition() or 0, as_bytes(message.key()).decode(), as_bytes(message.value())))
            else:
                ended += 1
        consumer.close()
        return found


def as_bytes(part: object) -> bytes:
    assert isinstance(part, bytes)
    return part


Log = MemoryLog | KafkaLog


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.real)])
def a_log(request: pytest.FixtureRequest, unique: str) -> Log:
    if request.param == "memory":
        return MemoryLog()
    cluster: Endpoints = request.getfixturevalue("cluster")
    return KafkaLog(cluster.kafka_bootstrap, unique)


async def until(holds: Callable[[], bool], what: str) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up_at, what
        await asyncio.sleep(0.01)


@asynccontextmanager
async def started(bus: CommandBus, learn: Callable[[Sequence[OutcomeSeen]], None]) -> AsyncIterator[CommandBus]:
    await bus.start(learn)
    try:
        await until(lambda: not bus.missing(), "the bus does not become ready")
        yield bus
    finally:
        await bus.close()


def play(scene: Callable[[], Awaitable[Any]]) -> None:
    async def run() -> None:
        await scene()

    asyncio.run(run())


def test_commands_go_to_the_shard_of_their_job_and_are_acknowledged(a_log: Log) -> None:
    jobs = [f"job_{n:032x}" for n in range(40)]

    async def scene() -> None:
        async with started(a_log.new_bus(), lambda _seen: None) as bus:
            deliveries = [bus.send(f"cmd_{job}", job, job.encode()) for job in jobs]
            assert await asyncio.gather(*deliveries) == [Delivery.LOGGED] * len(jobs)

    play(scene)
    found = a_log.commands()
    assert sorted(key for _, key, _ in found) == jobs
    for partition, key, value in found:
        assert partition == shard_of(key, SHARDS)
        assert value == key.encode()
    assert len({partition for partition, _, _ in found}) > 1


def test_reports_go_to_the_shard_of_their_job_under_its_id(a_log: Log) -> None:
    jobs = [f"acme@job-{n}" for n in range(20)]

    async def scene() -> None:
        async with started(a_log.new_bus(), lambda _seen: None) as bus:
            deliveries = [bus.report(job, job.encode()) for job in jobs]
            assert await asyncio.gather(*deliveries) == [Delivery.LOGGED] * len(jobs)

    play(scene)
    found = a_log.reports()
    assert sorted(value.decode() for _, _, value in found) == sorted(jobs)
    assert all((partition, key) == (shard_of(key, SHARDS), value.decode()) for partition, key, value in found)
    assert a_log.commands() == []


def test_commands_of_one_job_keep_their_order(a_log: Log) -> None:
    async def scene() -> None:
        async with started(a_log.new_bus(), lambda _seen: None) as bus:
            await asyncio.gather(*[bus.send(f"cmd_{n}", "job_1", b"%d" % n) for n in range(200)])

    play(scene)
    assert [int(value) for _, _, value in a_log.commands()] == list(range(200))


def test_outcomes_of_before_and_after_the_start_are_heard_on_the_loop(a_log: Log) -> None:
    before = [OutcomeSeen(f"cmd_before{n}", b"b%d" % n) for n in range(50)]
    after = [OutcomeSeen(f"cmd_after{n}", b"a%d" % n) for n in range(50)]
    heard: dict[str, bytes] = {}

    async def scene() -> None:
        await a_log.publish(before)
        loop = asyncio.get_running_loop()

        def learn(seen: Sequence[OutcomeSeen]) -> None:
            assert asyncio.get_running_loop() is loop
            heard.update(seen)

        async with started(a_log.new_bus(), learn):
            assert set(heard) == {seen.command_id for seen in before}, "ready means that what is kept has been read"
            await a_log.publish(after)
            await until(lambda: len(heard) == 100, "new outcomes are not heard")

    play(scene)
    assert heard == dict([*before, *after])


def test_a_bus_that_was_not_started_sends_nothing(a_log: Log) -> None:
    bus = a_log.new_bus()
    assert bus.missing()
    with pytest.raises(Unavailable):
        bus.send("cmd_1", "job_1", b"x")


@pytest.mark.real
def test_aborted_outcomes_are_never_heard(cluster: Endpoints, unique: str) -> None:
    log = KafkaLog(cluster.kafka_bootstrap, unique)
    heard: list[OutcomeSeen] = []

    async def scene() -> None:
        await log.publish([OutcomeSeen("cmd_early", b"no")], abort=True)
        async with started(log.new_bus(), heard.extend):
            await log.publish([OutcomeSeen("cmd_aborted", b"no")], abort=True)
            await log.publish([OutcomeSeen("cmd_committed", b"yes")])
            await until(lambda: bool(heard), "a committed outcome is not heard")

    play(scene)
    assert heard == [OutcomeSeen("cmd_committed", b"yes")]


@pytest.mark.real
def test_records_of_strangers_do_not_stop_the_tail(cluster: Endpoints, unique: str) -> None:
    log = KafkaLog(cluster.kafka_bootstrap, unique)
    heard: list[OutcomeSeen] = []

    async def scene() -> None:
        plain = Producer({"bootstrap.servers": log.bootstrap})
        for key, value in ((None, b"no key"), (b"\xff\xfe", b"odd key"), (b"cmd_1", None), (b"", b"")):
            plain.produce(log.names.outcomes, value, key, partition=0)
        await asyncio.to_thread(plain.flush, 30)
        async with started(log.new_bus(), heard.extend):
            await log.publish([OutcomeSeen("cmd_2", b"yes")])
            await until(lambda: any(seen.command_id == "cmd_2" for seen in heard), "the tail stopped")

    play(scene)
    assert [seen.outcome for seen in heard] == [b"odd key", b"yes"]


@pytest.mark.real
def test_missing_topics_are_said_and_found_once_they_are_there(cluster: Endpoints, unique: str) -> None:
    log = KafkaLog(cluster.kafka_bootstrap, unique, create=False)

    async def scene() -> None:
        bus = log.new_bus()
        await bus.start(lambda _seen: None)
        try:
            await until(
                lambda: sum("topics apply" in text for text in bus.missing()) == 2, "missing topics are not said"
            )
            with pytest.raises(Unavailable, match="topics apply"):
                bus.send("cmd_1", "job_1", b"x")
            await asyncio.to_thread(log.create_topics)
            await until(lambda: not bus.missing(), "topics are not found")
            assert await bus.send("cmd_1", "job_1", b"x") is Delivery.LOGGED
        finally:
            await bus.close()

    play(scene)


@pytest.mark.real
def test_a_command_larger_than_the_log_takes_is_the_callers_fault(cluster: Endpoints, unique: str) -> None:
    log = KafkaLog(cluster.kafka_bootstrap, unique)

    async def scene() -> None:
        async with started(log.new_bus(), lambda _seen: None) as bus:
            with pytest.raises(InvalidInput):
                bus.send("cmd_1", "job_1", b"x" * 2_000_000)

    play(scene)


def test_a_log_that_cannot_be_reached_is_refused_at_once_and_closes_soon() -> None:
    log = KafkaLog("127.0.0.1:1", "nowhere", create=False)

    async def scene() -> None:
        bus = log.new_bus(delivery_timeout_s=1.0)
        await bus.start(lambda _seen: None)
        with pytest.raises(Unavailable):
            bus.send("cmd_1", "job_1", b"x")
        await until(lambda: any("does not answer" in text for text in bus.missing()), "it is not said")
        await bus.close()

    play(scene)
    assert not log.fatal


def test_only_errors_after_which_nothing_can_be_in_the_log_count_as_certain() -> None:
    """A timeout, a lost connection, a broker that stepped down: the record may have been appended all the same."""
    doubtful = {
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._PURGE_INFLIGHT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN,
    }
    assert not doubtful & CERTAINLY_NOT_LOGGED

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        for code in doubtful:
            delivery: asyncio.Future[Delivery] = loop.create_future()
            _settle([(delivery, KafkaError(code))])
            assert delivery.result() is Delivery.UNKNOWN
        for code in CERTAINLY_NOT_LOGGED:
            delivery = loop.create_future()
            _settle([(delivery, KafkaError(code))])
            assert isinstance(delivery.exception(), Unavailable)
        gone: asyncio.Future[Delivery] = loop.create_future()
        gone.cancel()
        _settle([(gone, None)])

    play(scene)
