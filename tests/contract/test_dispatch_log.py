"""The contract of ``ports.dispatch_log``, run against memory and a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.kafka_topics import create_topics
from tocsin.adapters.kafka.dispatch_log import KafkaDispatchLog, consumer_config
from tocsin.adapters.memory.dispatch_log import MemoryDispatchLog, MemoryLane
from tocsin.devcluster import Endpoints
from tocsin.ports.dispatch_log import CommitOutcome, Delivery, DispatchLog, Mark, Start

PARTITIONS = 4


class LaneUnderTest(Protocol):
    """A lane that can be written to and joined."""

    def member(self) -> DispatchLog: ...

    def write(self, partition: int, *values: bytes) -> None:
        """Write records in one transaction, so that a gap follows them."""
        ...


class InMemory:
    def __init__(self) -> None:
        self._lane = MemoryLane(PARTITIONS)
        self._lane.committed.clear()

    def member(self) -> DispatchLog:
        return MemoryDispatchLog(self._lane)

    def write(self, partition: int, *values: bytes) -> None:
        for value in values:
            self._lane.append(partition, b"k", value)
        self._lane.leave_gap(partition)


class OnKafka:
    def __init__(self, bootstrap: str, name: str, protocol: str) -> None:
        self._bootstrap, self._topic, self._protocol = bootstrap, f"{name}.lane", protocol
        create_topics(bootstrap, {self._topic: PARTITIONS})
        settings = {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 2}
        self._producer = Producer(settings)
        self._producer.init_transactions()

    def member(self) -> DispatchLog:
        group = f"{self._topic}.group"
        return KafkaDispatchLog(
            self._topic, consumer_config(self._bootstrap, group, "contract", self._protocol, 10.0, 1_000_000)
        )

    def write(self, partition: int, *values: bytes) -> None:
        self._producer.begin_transaction()
        for value in values:
            self._producer.produce(self._topic, value, b"k", partition)
        self._producer.commit_transaction()


@pytest.fixture(
    params=["memory", pytest.param("consumer", marks=pytest.mark.real), pytest.param("classic", marks=pytest.mark.real)]
)
def lane(request: pytest.FixtureRequest, unique: str) -> LaneUnderTest:
    if request.param == "memory":
        return InMemory()
    return OnKafka(request.getfixturevalue("cluster").kafka_bootstrap, unique, request.param)


class Member:
    """A member that follows its assignment and keeps what it was given."""

    def __init__(self, log: DispatchLog) -> None:
        self.log = log
        self.owned: dict[int, Start] = {}
        self.got: list[Delivery] = []
        self.events: list[str] = []
        self.on_revoke: Callable[[], None] = lambda: None
        log.join(self)

    def assigned(self, starts: Sequence[Start]) -> None:
        self.events.append("assigned")
        self.owned.update({start.partition: start for start in starts})

    def revoked(self, partitions: Collection[int]) -> None:
        self.events.append("revoked")
        self.on_revoke()
        for partition in partitions:
            del self.owned[partition]

    def lost(self, partitions: Collection[int]) -> None:
        self.events.append("lost")
        for partition in partitions:
            del self.owned[partition]

    def poll(self, limit: int = 100) -> None:
        self.got += self.log.poll(limit, 0.05)

    @property
    def values(self) -> list[bytes | None]:
        return [delivery.value for delivery in self.got]


@pytest.fixture
def join(lane: LaneUnderTest) -> Iterator[Callable[[], Member]]:
    members: list[Member] = []

    def make() -> Member:
        members.append(Member(lane.member()))
        return members[-1]

    yield make
    for member in members:
        member.log.close()


def poll_until(done: Callable[[], bool], *members: Member) -> None:
    until = time.monotonic() + 60
    while not done():
        assert time.monotonic() < until, "waited too long"
        for member in members:
            member.poll()


def test_records_come_in_order_with_their_keys(lane: LaneUnderTest, join: Callable[[], Member]) -> None:
    lane.write(0, b"a", b"b")
    lane.write(0, b"c")
    lane.write(3, b"z")
    member = join()
    poll_until(lambda: len(member.got) == 4, member)
    assert [d.value for d in member.got if d.partition == 0] == [b"a", b"b", b"c"]
    offsets = [d.offset for d in member.got if d.partition == 0]
    assert offsets == sorted(set(offsets))
    assert {d.key for d in member.got} == {b"k"}
    assert {start.offset for start in member.owned.values()} == {None}
    assert {p: start.end for p, start in member.owned.items()} == {0: 5, 1: 0, 2: 0, 3: 2}, "what others may have read"


def test_no_more_records_come_at_once_than_asked_for(lane: LaneUnderTest, join: Callable[[], Member]) -> None:
    lane.write(0, *(bytes([n]) for n in range(10)))
    member = join()
    poll_until(lambda: len(member.owned) == PARTITIONS, member)
    sizes: list[int] = []
    until = time.monotonic() + 60
    while sum(sizes) + len(member.got) < 10 and time.monotonic() < until:
        sizes.append(len(member.log.poll(3, 0.05)))
    assert sum(sizes) + len(member.got) == 10
    assert max(sizes, default=0) <= 3


def test_a_successor_reads_offset_and_metadata(lane: LaneUnderTest, join: Callable[[], Member]) -> None:
    lane.write(0, b"a", b"b", b"c")
    first = join()
    poll_until(lambda: len(first.got) == 3, first)
    middle = first.got[1].offset
    text = "x" * 2_800
    assert first.log.commit([Mark(0, middle, text), Mark(1, 0, "")]) is CommitOutcome.ACCEPTED
    first.log.close()
    second = join()
    poll_until(lambda: len(second.got) == 2, second)
    assert second.values == [b"b", b"c"]
    assert second.owned[0] == Start(0, middle, text)
    assert second.owned[1].offset == 0
    assert second.owned[2].offset is None


def test_what_is_revoked_may_still_be_committed(lane: LaneUnderTest, join: Callable[[], Member]) -> None:
    lane.write(0, b"a")
    first = join()
    poll_until(lambda: len(first.got) == 1, first)
    outcomes: list[CommitOutcome] = []
    first.on_revoke = lambda: outcomes.append(first.log.commit([Mark(0, first.got[0].offset + 1, "last words")]))
    first.log.close()
    assert outcomes == [CommitOutcome.ACCEPTED]
    assert first.owned == {}
    second = join()
    poll_until(lambda: len(second.owned) == PARTITIONS, second)
    assert second.owned[0].metadata == "last words"


def test_a_second_member_takes_a_share_and_nothing_is_owned_twice(
    lane: LaneUnderTest, join: Callable[[], Member]
) -> None:
    first = join()
    poll_until(lambda: len(first.owned) == PARTITIONS, first)
    second = join()
    both = (first, second)

    def shared() -> bool:
        assert not first.owned.keys() & second.owned.keys()
        return len(first.owned) == len(second.owned) == PARTITIONS // 2

    poll_until(shared, *both)
    for partition in range(PARTITIONS):
        lane.write(partition, bytes([partition]))
    poll_until(lambda: len(first.got) + len(second.got) == PARTITIONS, *both)
    assert {d.partition for d in first.got} == first.owned.keys()
    assert {d.partition for d in second.got} == second.owned.keys()
    assert first.log.commit([Mark(p, 1, "") for p in first.owned]) is CommitOutcome.ACCEPTED
    first.log.close()
    poll_until(lambda: len(second.owned) == PARTITIONS, second)
    assert "lost" not in first.events + second.events


def test_a_member_for_whom_no_partition_is_left_is_told_so(lane: LaneUnderTest, join: Callable[[], Member]) -> None:
    members = [join() for _ in range(PARTITIONS + 1)]
    poll_until(lambda: all("assigned" in member.events for member in members), *members)
    poll_until(lambda: sorted(len(member.owned) for member in members) == [0, *[1] * PARTITIONS], *members)


def test_a_paused_partition_holds_its_records_back(lane: LaneUnderTest, join: Callable[[], Member]) -> None:
    member = join()
    poll_until(lambda: len(member.owned) == PARTITIONS, member)
    member.log.pause([0])
    lane.write(0, b"held")
    lane.write(1, b"free")
    poll_until(lambda: member.values == [b"free"], member)
    for _ in range(5):
        member.poll()
    assert member.values == [b"free"]
    member.log.resume([0])
    poll_until(lambda: len(member.got) == 2, member)
    assert member.values == [b"free", b"held"]


def test_a_pause_loses_and_repeats_nothing(lane: LaneUnderTest, join: Callable[[], Member]) -> None:
    lane.write(0, *(b"%d" % n for n in range(500)))
    member = join()
    poll_until(lambda: len(member.owned) == PARTITIONS, member)
    until = time.monotonic() + 60
    while len(member.got) < 500 and time.monotonic() < until:
        before = len(member.got)
        member.poll(limit=90)
        if len(member.got) > before:
            member.log.pause([0])
            member.poll()
            member.log.resume([0])
    assert member.values == [b"%d" % n for n in range(500)]


def test_a_pause_does_not_outlive_its_assignment(lane: LaneUnderTest, join: Callable[[], Member]) -> None:
    member = join()
    poll_until(lambda: len(member.owned) == PARTITIONS, member)
    member.log.pause(range(PARTITIONS))
    other = join()
    poll_until(lambda: len(other.owned) == PARTITIONS // 2, member, other)
    been_away = set(other.owned)
    other.log.close()
    poll_until(lambda: len(member.owned) == PARTITIONS, member)
    for partition in range(PARTITIONS):
        lane.write(partition, bytes([partition]))
    poll_until(lambda: len(member.got) == PARTITIONS // 2, member)
    assert {d.partition for d in member.got} == been_away
    kept = {0, 1, 2, 3} - been_away
    member.log.resume(kept)
    poll_until(lambda: len(member.got) == PARTITIONS, member)
    assert {d.partition for d in member.got[PARTITIONS // 2 :]} == kept


def test_rejoining_revokes_everything_and_starts_from_what_was_committed(
    lane: LaneUnderTest, join: Callable[[], Member]
) -> None:
    lane.write(0, b"a", b"b")
    member = join()
    poll_until(lambda: len(member.got) == 2, member)
    assert member.log.commit([Mark(0, member.got[1].offset, "m")]) is CommitOutcome.ACCEPTED
    member.log.rejoin()
    assert (member.owned, member.events[-1]) == ({}, "revoked")
    poll_until(lambda: len(member.got) == 3, member)
    assert member.values == [b"a", b"b", b"b"]
    assert member.owned[0].metadata == "m"


@pytest.mark.real
@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_member_that_leaves_while_its_first_assignment_comes_does_so_in_peace(
    cluster: Endpoints, unique: str, protocol: str
) -> None:
    """It never polled, so the assignment is handed to it inside the close, where the group answers nothing any more."""
    lane = OnKafka(cluster.kafka_bootstrap, unique, protocol)
    member = Member(lane.member())
    admin = AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})
    until = time.monotonic() + 60
    try:
        while not assigned_of(admin, f"{unique}.lane.group"):
            assert time.monotonic() < until, "the group gives it nothing"
            time.sleep(0.1)
        time.sleep(1)  # the group's answer is on its way
    finally:
        member.log.close()
    assert member.owned == {}
    assert "assigned" not in member.events


def assigned_of(admin: AdminClient, group: str) -> int:
    """Return how many partitions the brokers say that the members of a group have."""
    try:
        found = admin.describe_consumer_groups([group])[group].result()
    except KafkaException:  # the group, or its coordinator, is not there yet
        return 0
    return sum(len(member.assignment.topic_partitions) for member in found.members)


def test_committing_nothing_is_accepted(join: Callable[[], Member]) -> None:
    assert join().log.commit([]) is CommitOutcome.ACCEPTED
