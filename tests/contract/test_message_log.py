"""The contract of ``ports.message_log``, run against memory and a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Protocol

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kafka_topics import create_topics, wait_until_listed
from tocsin.adapters.kafka.clients import base_config
from tocsin.adapters.kafka.dispatch_log import KafkaDispatchLog, consumer_config
from tocsin.adapters.kafka.message_log import KafkaMessageLog, transactions_config
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.tenant_topics import TenantTopics, message_bytes
from tocsin.adapters.memory.message_log import MemoryMessageBroker, MemoryMessageLog, MemoryTopic
from tocsin.domain.sharding import shard_of
from tocsin.ports.dispatch_log import Delivery, Start
from tocsin.ports.message_log import Message, MessageLog, Report, Settlement, TransactionOutcome

PARTITIONS = 2
SHARDS = 3
TINY_BYTES = 1_000


class LaneUnderTest(Protocol):
    """The lane, and topics ``free``, ``tiny`` (of small records) and ``latest`` (compacted) of a tenant."""

    def member(self) -> MessageLog: ...

    def topic(self, name: str) -> str: ...

    def write(self, partition: int, *values: bytes) -> None: ...

    def read(self, name: str) -> list[tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]]:
        """Return what a reader of committed records finds in a topic."""
        ...

    def reports(self) -> list[tuple[str, bytes]]: ...


class InMemory:
    def __init__(self) -> None:
        self._broker = MemoryMessageBroker(PARTITIONS)
        self._broker.lane.committed.clear()  # as on a broker, where nobody has made the first commits
        self._broker.topics = {
            "free": MemoryTopic(),
            "tiny": MemoryTopic(bytes_max=TINY_BYTES),
            "latest": MemoryTopic(needs_key=True),
        }

    def member(self) -> MessageLog:
        return MemoryMessageLog(self._broker)

    def topic(self, name: str) -> str:
        return "tocsin.commands" if name == "own" else name

    def write(self, partition: int, *values: bytes) -> None:
        for value in values:
            self._broker.lane.append(partition, b"k", value)
        self._broker.lane.leave_gap(partition)

    def read(self, name: str) -> list[tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]]:
        return [(m.key, m.value, list(m.headers)) for m in self._broker.topics[name].records]

    def reports(self) -> list[tuple[str, bytes]]:
        return [(report.job_id, report.value) for report in self._broker.reports]

    def hide(self, name: str) -> None:
        self._broker.topics[name].looks_fine = True


class OnKafka:
    def __init__(self, bootstrap: str, name: str) -> None:
        self._bootstrap, self._name = bootstrap, name
        self._names = TopicNames(f"{name}.own.")
        self._lane = self._names.executions("message")
        self._members = 0
        create_topics(bootstrap, {self._lane: PARTITIONS, self._names.reports: SHARDS, self.topic("free"): 2})
        odd = [
            NewTopic(self.topic("tiny"), 1, 1, config={"max.message.bytes": str(TINY_BYTES)}),
            NewTopic(self.topic("latest"), 1, 1, config={"cleanup.policy": "compact"}),
        ]
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.create_topics(odd).values():
            future.result()
        wait_until_listed(admin, {topic.topic for topic in odd})
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 2})
        self._producer.init_transactions()

    def member(self) -> MessageLog:
        self._members += 1
        config = consumer_config(
            self._bootstrap, self._names.group("worker.message"), "contract", "consumer", 10.0, 1_000_000
        )
        return KafkaMessageLog(
            KafkaDispatchLog(self._lane, config),
            self._lane,
            self._names,
            SHARDS,
            transactions_config(self._bootstrap, "contract", f"{self._name}.{self._members}", 5.0),
            TenantTopics(AdminClient(base_config(self._bootstrap, "contract")), self._names, 60.0),
        )

    def topic(self, name: str) -> str:
        return self._names.commands if name == "own" else f"{self._name}.{name}"

    def write(self, partition: int, *values: bytes) -> None:
        self._producer.begin_transaction()
        for value in values:
            self._producer.produce(self._lane, value, b"k", partition)
        self._producer.commit_transaction()

    def read(self, name: str) -> list[tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]]:
        found = read_committed(self._bootstrap, self.topic(name), 2 if name == "free" else 1)
        return [(message.key(), message.value(), message.headers() or []) for message in found]

    def reports(self) -> list[tuple[str, bytes]]:
        found = read_committed(self._bootstrap, self._names.reports, SHARDS)
        assert all(m.partition() == shard_of(m.key().decode(), SHARDS) for m in found)
        return [(message.key().decode(), message.value()) for message in found]


def read_committed(bootstrap: str, topic: str, partitions: int) -> list[Any]:
    """Return all committed records, up to the true end of the log."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "log_level": 2}
    raw = Consumer(settings | {"isolation.level": "read_uncommitted"})
    places = [TopicPartition(topic, p, 0) for p in range(partitions)]
    ends = {p.partition: raw.get_watermark_offsets(p, timeout=30)[1] for p in places}
    raw.close()
    reader = Consumer(settings | {"isolation.level": "read_committed"})
    reader.assign(places)
    found = []
    until = time.monotonic() + 60
    while any(p.offset < ends[p.partition] for p in reader.position(places) if ends[p.partition]):
        assert time.monotonic() < until, "open transactions hide the end"
        found += [message for message in reader.consume(500, 0.2) if message.error() is None]
    reader.close()
    return found


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.real)])
def lane(request: pytest.FixtureRequest, unique: str) -> LaneUnderTest:
    if request.param == "memory":
        return InMemory()
    return OnKafka(request.getfixturevalue("cluster").kafka_bootstrap, unique)


class Member:
    """A member that follows its assignment and keeps what it was given."""

    def __init__(self, log: MessageLog) -> None:
        self.log = log
        self.owned: dict[int, Start] = {}
        self.got: list[Delivery] = []
        log.join(self)

    def assigned(self, starts: Sequence[Start]) -> None:
        self.owned.update({start.partition: start for start in starts})

    def revoked(self, partitions: Collection[int]) -> None:
        for partition in partitions:
            del self.owned[partition]

    lost = revoked

    def poll(self) -> None:
        self.got += self.log.poll(100, 0.05)

    def receive(self, count: int) -> None:
        until = time.monotonic() + 60
        while len(self.got) < count or len(self.owned) < PARTITIONS:
            assert time.monotonic() < until, "waited too long"
            self.poll()
        self.poll()
        self.log.fence(self.owned)


@pytest.fixture
def join(lane: LaneUnderTest) -> Iterator[Callable[[], Member]]:
    members: list[Member] = []

    def make() -> Member:
        members.append(Member(lane.member()))
        return members[-1]

    yield make
    for member in members:
        member.log.close()


def settled(delivery: Delivery, message: Message | None, report: Report | None = None) -> Settlement:
    return Settlement(delivery.partition, delivery.offset, message, report)


def test_messages_reports_and_offsets_are_committed_together(lane: LaneUnderTest, join: Callable[[], Member]) -> None:
    lane.write(0, b"a", b"b", b"c")
    lane.write(1, b"d")
    first = join()
    first.receive(4)
    free = lane.topic("free")
    messages = [
        Message(free, b"key", b"value", (("name", b"text"), ("tocsin-token", b"5"))),
        Message(free, b"key", None),
        Message(free, None, b"unkeyed"),
    ]
    of_0 = [delivery for delivery in first.got if delivery.partition == 0]
    batch = [settled(d, m, Report(f"job{d.offset}", d.value or b"")) for d, m in zip(of_0, messages, strict=True)]
    batch = [one._replace(metadata=f"after {one.offset}") for one in batch]
    assert first.log.transact(batch[:2]).outcome is TransactionOutcome.COMMITTED
    assert first.log.transact(batch[2:]).outcome is TransactionOutcome.COMMITTED
    found = lane.read("free")
    assert len(found) == 3
    assert (b"key", b"value", [("name", b"text"), ("tocsin-token", b"5")]) in found
    assert (b"key", None, []) in found
    assert (None, b"unkeyed", []) in found
    assert sorted(lane.reports()) == sorted((f"job{d.offset}", d.value) for d in of_0)
    first.log.close()

    second = join()
    second.receive(1)
    assert [delivery.value for delivery in second.got] == [b"d"]
    assert second.owned[0].offset == of_0[-1].offset + 1
    assert second.owned[0].metadata == f"after {of_0[-1].offset}"
    assert second.owned[1].offset is None


def test_a_record_that_nothing_can_be_said_of_is_passed_over(lane: LaneUnderTest, join: Callable[[], Member]) -> None:
    lane.write(0, b"a")
    member = join()
    member.receive(1)
    assert member.log.transact([settled(member.got[0], None)]).outcome is TransactionOutcome.COMMITTED
    assert member.log.fence([0, 1]) == {0: member.got[0].offset + 1, 1: None}
    assert lane.reports() == []


def test_what_a_topic_would_refuse_is_known_before(lane: LaneUnderTest, join: Callable[[], Member]) -> None:
    log = join().log
    messages = [
        Message(lane.topic("free"), None, b"x" * 10_000),
        Message(lane.topic("tiny"), None, b"x" * 500),
        Message(lane.topic("tiny"), None, b"x" * 1_001),
        Message(lane.topic("latest"), b"k", b"v"),
        Message(lane.topic("latest"), None, b"v"),
        Message(lane.topic("missing"), None, b"v"),
        Message(lane.topic("own"), None, b"v"),
        Message("__consumer_offsets", None, b"v"),
    ]
    for _ in range(2):
        found = [None if error is None else error.error_class for error in log.examine(messages)]
        expected = [None, None, "too_large", None, "invalid_record", "topic_missing", "reserved_topic"]
        assert found == [*expected, "reserved_topic"]


def test_before_it_is_a_member_nothing_is_settled(lane: LaneUnderTest, join: Callable[[], Member]) -> None:
    lane.write(0, b"a")
    owner = join()
    owner.receive(1)
    stranger = join()
    stranger.log.fence([])
    if isinstance(stranger.log, KafkaMessageLog):
        # What a client says of itself before the group has answered; sent under it, the broker checks nothing.
        stranger.log._metadata = b"CGMDv2:\xff\xff\xff\xffgroup\0\0\1"
    message = Message(lane.topic("free"), None, b"twice")
    outcome = stranger.log.transact([settled(owner.got[0], message)]).outcome
    assert outcome is TransactionOutcome.MOVED_ON
    assert lane.read("free") == []


@pytest.mark.parametrize(
    ("topic", "message", "error_class"),
    [("tiny", (None, b"x" * 1_200), "too_large"), ("latest", (None, b"no key"), "invalid_record")],
)
def test_a_message_that_is_refused_all_the_same_is_named_when_it_is_alone(
    lane: LaneUnderTest,
    join: Callable[[], Member],
    topic: str,
    message: tuple[bytes | None, bytes],
    error_class: str,
) -> None:
    lane.write(0, b"a", b"b")
    member = join()
    member.receive(2)
    if isinstance(lane, InMemory):
        lane.hide(topic)
    good = settled(member.got[0], Message(lane.topic("free"), None, b"good"), Report("job", b"r0"))
    bad = settled(member.got[1], Message(lane.topic(topic), *message), Report("job", b"r1"))
    assert member.log.transact([good, bad]).outcome is TransactionOutcome.ABORTED
    assert (lane.read("free"), lane.read(topic), lane.reports()) == ([], [], [])
    assert member.log.transact([good]).outcome is TransactionOutcome.COMMITTED
    alone = member.log.transact([bad])
    assert alone.outcome is TransactionOutcome.ABORTED
    assert alone.refusal is not None
    assert alone.refusal.error_class == error_class
    assert member.log.transact([settled(member.got[1], None, Report("job", b"failed"))]).outcome is (
        TransactionOutcome.COMMITTED
    )
    assert [value for _, value, _ in lane.read("free")] == [b"good"]
    assert lane.read(topic) == []
    assert lane.reports() == [("job", b"r0"), ("job", b"failed")]


def test_a_fence_says_what_is_settled(lane: LaneUnderTest, join: Callable[[], Member]) -> None:
    lane.write(0, b"a", b"b")
    member = join()
    member.receive(2)
    message = Message(lane.topic("free"), None, b"v")
    for expected in (member.got[0].offset, member.got[1].offset):
        result = member.log.transact([settled(member.got[0 if expected == member.got[0].offset else 1], message)])
        assert result.outcome is TransactionOutcome.COMMITTED
        assert member.log.fence([0])[0] == expected + 1
    assert len(lane.read("free")) == 2


@pytest.mark.real
@pytest.mark.parametrize("excess", [0, 1])
def test_the_size_of_a_message_is_counted_as_the_broker_counts_it(
    request: pytest.FixtureRequest, unique: str, excess: int
) -> None:
    lane = OnKafka(request.getfixturevalue("cluster").kafka_bootstrap, unique)
    lane.write(0, b"a")
    member = Member(lane.member())
    member.receive(1)
    headers = (("name", b"x" * 200), ("other", b""))
    base = Message(lane.topic("tiny"), b"key", b"", headers)
    message = base._replace(value=b"x" * (TINY_BYTES - message_bytes(base) - 1 + excess))
    assert message_bytes(message) == TINY_BYTES + excess
    known = member.log.examine([message])[0]
    tried = member.log.transact([settled(member.got[0], message)]).refusal
    assert [error and error.error_class for error in (known, tried)] == (["too_large"] * 2 if excess else [None] * 2)
    member.log.close()


@pytest.mark.real
def test_many_small_messages_go_to_a_topic_of_small_batches(request: pytest.FixtureRequest, unique: str) -> None:
    lane = OnKafka(request.getfixturevalue("cluster").kafka_bootstrap, unique)
    lane.write(0, *(b"%d" % n for n in range(20)))
    member = Member(lane.member())
    member.receive(20)
    messages = [Message(lane.topic("tiny"), None, b"x" * 300) for _ in member.got]
    assert member.log.examine(messages) == [None] * 20
    batch = [settled(delivery, message) for delivery, message in zip(member.got, messages, strict=True)]
    assert member.log.transact(batch).outcome is TransactionOutcome.COMMITTED
    assert len(lane.read("tiny")) == 20
    member.log.close()


class LosingProducer:
    """A producer whose commits are answered too late: done, or hindered by what ``before`` does."""

    def __init__(self, producer: Any, before: Callable[[], None] | None = None) -> None:
        self._producer = producer
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def commit_transaction(self, wait_s: float) -> None:
        if self._before is not None:
            self._before()
            self._producer.commit_transaction(wait_s)
        else:
            self._producer.commit_transaction(wait_s)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


@pytest.mark.real
@pytest.mark.parametrize("committed", [True, False])
def test_a_fence_finds_out_what_became_of_a_commit(
    request: pytest.FixtureRequest, unique: str, committed: bool
) -> None:
    bootstrap = request.getfixturevalue("cluster").kafka_bootstrap
    lane = OnKafka(bootstrap, unique)
    lane.write(0, b"a")
    member = Member(lane.member())
    member.receive(1)
    log: Any = member.log

    def bar() -> None:
        other = Producer(transactions_config(bootstrap, "other", f"{unique}.1", 5.0))
        other.init_transactions(30)

    log._producer = LosingProducer(log._producer, None if committed else bar)
    batch = [settled(member.got[0], Message(lane.topic("free"), None, b"once"), Report("job", b"r"))]
    assert member.log.transact(batch).outcome is TransactionOutcome.UNKNOWN
    offset = member.log.fence([0])[0]
    assert offset == (member.got[0].offset + 1 if committed else None)
    if not committed:
        assert member.log.transact(batch).outcome is TransactionOutcome.COMMITTED
    assert [value for _, value, _ in lane.read("free")] == [b"once"]
    assert lane.reports() == [("job", b"r")]
    member.log.close()
