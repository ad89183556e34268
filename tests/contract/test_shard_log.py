"""What an owner's log promises, asked of the real broker and of the one in memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.shard_log import KafkaShardLog, group_generation
from tocsin.adapters.kafka.takeover import KafkaTakeover
from tocsin.adapters.memory.shard_log import MemoryLog, MemoryShardLog, MemoryTakeover
from tocsin.domain.errors import OwnershipLost, RecordRefused, Refused, TopicsMissing, TurnAborted
from tocsin.ports.shard_log import (
    COMMANDS,
    JOBS,
    REPORTS,
    SHARD_STATE,
    NewRecord,
    Polled,
    ShardLog,
    ShardTurn,
)
from tocsin.ports.takeover import Takeover
from tocsin.testing import SettableClock

SHARDS = 2
TOPICS = (COMMANDS, REPORTS, JOBS, SHARD_STATE)


@dataclass
class Broker:
    """One broker's topics, and how to get at them."""

    open: Callable[[str], ShardLog]
    """Make a log for a new owner that has joined and reads from the start."""
    takeover: Takeover
    append: Callable[[str, int, str, bytes], None]
    drop: Callable[[str], None]
    """Delete a topic."""


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.real)])
def broker(request: pytest.FixtureRequest, unique: str) -> Iterator[Broker]:
    if request.param == "memory":
        yield _memory_broker()
        return
    bootstrap = request.getfixturevalue("cluster").kafka_bootstrap
    opened: list[KafkaShardLog] = []
    yield _kafka_broker(bootstrap, TopicNames(f"{unique}."), opened)
    for shard_log in opened:
        shard_log.close(leave=True)


def _memory_broker() -> Broker:
    log = MemoryLog(SettableClock())
    log.missing.add("executions.gone")

    def open_log(owner: str) -> ShardLog:
        shard_log = MemoryShardLog(log, owner)
        shard_log.assign(range(SHARDS))
        assert shard_log.poll(0, 1, 1).assigned == set(range(SHARDS))
        shard_log.begin(dict.fromkeys(range(SHARDS), (0, 0)))
        return shard_log

    def append(topic: str, shard: int, key: str, value: bytes) -> None:
        log.append(topic, shard, key, value)

    log.refuses = lambda record: "is too large" if len(record.value or b"") > 1_048_588 else None
    return Broker(open_log, MemoryTakeover(log), append, log.missing.add)


def _kafka_broker(bootstrap: str, names: TopicNames, opened: list[KafkaShardLog]) -> Broker:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(names.prefix + topic, SHARDS, 1) for topic in TOPICS]).values():
        future.result(20)
    producer = Producer({"bootstrap.servers": bootstrap})

    def open_log(owner: str) -> ShardLog:
        for former in opened:
            former.close(leave=True)
        opened.clear()
        shard_log = KafkaShardLog(bootstrap, names, owner, session_timeout_s=6)
        shard_log.renew(owner)
        shard_log.join(lambda shards: None)
        assigned: set[int] = set()
        while len(assigned) < SHARDS:
            assigned |= shard_log.poll(0.1, 1, 1).assigned
        shard_log.begin(dict.fromkeys(range(SHARDS), (0, 0)))
        opened.append(shard_log)
        return shard_log

    def append(topic: str, shard: int, key: str, value: bytes) -> None:
        producer.produce(names.prefix + topic, value, key, shard)
        assert producer.flush(20) == 0

    def drop(topic: str) -> None:
        admin.delete_topics([names.prefix + topic])[names.prefix + topic].result(20)
        while names.prefix + topic in admin.list_topics(timeout=20).topics:
            time.sleep(0.05)  # The broker says so before it has forgotten.

    return Broker(open_log, KafkaTakeover(bootstrap, names, "takeover", {}), append, drop)


def _turn(shard: int, number: int, *, state: bytes = b"state", jobs: int = 0, offset: int = 0) -> ShardTurn:
    records = [NewRecord(SHARD_STATE, shard, f"d/{number}/0", state)]
    return ShardTurn(
        shard, number, records, [NewRecord(JOBS, shard, f"job-{n}", b"snapshot") for n in range(jobs)], offset
    )


def _poll_until(shard_log: ShardLog, commands: int, reports: int) -> Polled:
    """Poll until so much has come; the test's time limit is the only one."""
    got = Polled()
    while len(got.commands) < commands or len(got.reports) < reports:
        polled = shard_log.poll(0.1, 100, 100)
        got.commands += polled.commands
        got.reports += polled.reports
    return got


def test_brings_commands_and_reports_of_every_shard_in_order(broker: Broker) -> None:
    shard_log = broker.open("a")
    for n in range(5):
        broker.append(COMMANDS, n % 2, "k", b"c%d" % n)
        broker.append(REPORTS, 1, "k", b"r%d" % n)
    got = _poll_until(shard_log, 5, 5)
    assert [r.value for r in got.commands if r.partition == 0] == [b"c0", b"c2", b"c4"]
    assert [r.value for r in got.reports] == [b"r0", b"r1", b"r2", b"r3", b"r4"]
    assert all(record.timestamp > 10**15 for record in got.commands)
    assert not got.lost


def test_a_commit_makes_everything_visible_and_tells_where_the_jobs_end(broker: Broker) -> None:
    shard_log = broker.open("a")
    assert broker.takeover.has_run(0) is False
    first = shard_log.commit([_turn(0, 1, jobs=3), _turn(1, 1)])
    assert set(first) == {0}, "only shards that produced jobs have an end"
    second = shard_log.commit([_turn(0, 2, state=b"newer", jobs=1)])
    tail = broker.takeover.read_jobs({0: first[0], 1: 0})[0]
    assert [key for key, _ in tail.records] == ["job-0"], "only what came after the first turn's end"
    assert tail.end >= second[0]
    assert len(broker.takeover.read_jobs({0: 0})[0].records) == 4
    states = broker.takeover.read_states(range(SHARDS))
    assert states[0] == {"d/1/0": b"state", "d/2/0": b"newer"}
    assert states[1] == {"d/1/0": b"state"}
    assert broker.takeover.has_run(0) is True
    assert broker.takeover.has_run(1) is True, "it committed offsets, if nothing else"


def test_what_is_sent_ahead_is_committed_with_its_turn_and_once(broker: Broker) -> None:
    shard_log = broker.open("a")
    first, second = _turn(0, 1, jobs=2), _turn(1, 1)
    shard_log.send_ahead(first)
    ends = shard_log.commit([first, second])
    assert broker.takeover.read_states([0, 1]) == {0: {"d/1/0": b"state"}, 1: {"d/1/0": b"state"}}
    assert len(broker.takeover.read_jobs({0: 0})[0].records) == 2
    again = shard_log.commit([_turn(0, 2, jobs=1)])
    assert again[0] > ends[0]


def test_what_is_sent_ahead_and_not_committed_is_dropped(broker: Broker) -> None:
    """The very records count: a shard that was restored since may have a turn of the same number."""
    shard_log = broker.open("a")
    shard_log.send_ahead(_turn(0, 1, state=b"never"))
    shard_log.commit([_turn(0, 1, state=b"decided anew")])
    shard_log.send_ahead(_turn(0, 2))
    shard_log.commit([_turn(1, 1)])
    assert broker.takeover.read_states([0, 1]) == {0: {"d/1/0": b"decided anew"}, 1: {"d/1/0": b"state"}}


def test_an_owner_that_is_fenced_after_it_sent_ahead_commits_nothing(broker: Broker) -> None:
    shard_log = broker.open("a")
    turn = _turn(0, 1)
    shard_log.send_ahead(turn)
    broker.takeover.fence("a")
    with pytest.raises(OwnershipLost):
        shard_log.commit([turn])
    broker.takeover.wait_for_offsets(range(SHARDS))
    assert broker.takeover.read_states([0]) == {0: {}}


def test_reading_from_the_end_of_a_log_ends(broker: Broker) -> None:
    shard_log = broker.open("a")
    end = shard_log.commit([_turn(0, 1, jobs=1)])[0]
    tail = broker.takeover.read_jobs({0: end})[0]
    assert tail.records == []
    assert broker.takeover.read_jobs({0: tail.end})[0].records == []


def test_a_fenced_owner_commits_nothing_more(broker: Broker) -> None:
    shard_log = broker.open("a")
    shard_log.commit([_turn(0, 1)])
    broker.takeover.fence("a")
    with pytest.raises(OwnershipLost):
        shard_log.commit([_turn(0, 2)])
    broker.takeover.wait_for_offsets(range(SHARDS))
    assert broker.takeover.read_states([0])[0] == {"d/1/0": b"state"}


def test_a_successor_commits_where_the_fenced_one_ended(broker: Broker) -> None:
    broker.open("a").commit([_turn(0, 1)])
    broker.takeover.fence("a")
    broker.takeover.wait_for_offsets(range(SHARDS))
    broker.open("b").commit([_turn(0, 2)])
    assert set(broker.takeover.read_states([0])[0]) == {"d/1/0", "d/2/0"}


def test_a_paused_shard_brings_no_commands_but_reports(broker: Broker) -> None:
    shard_log = broker.open("a")
    shard_log.pause(0)
    broker.append(COMMANDS, 0, "k", b"waits")
    broker.append(COMMANDS, 1, "k", b"comes")
    broker.append(REPORTS, 0, "k", b"report")
    assert [r.value for r in _poll_until(shard_log, 1, 1).commands] == [b"comes"]
    shard_log.resume(0)
    assert [r.value for r in _poll_until(shard_log, 1, 0).commands] == [b"waits"]


def test_old_applied_records_are_deleted_and_others_stay(broker: Broker) -> None:
    shard_log = broker.open("a")
    for n in range(4):
        broker.append(COMMANDS, 0, "k", b"%d" % n)
    _poll_until(shard_log, 4, 0)
    shard_log.trim(COMMANDS, 0, 3, older_than=0)
    assert broker.takeover.has_run(0) is False, "nothing is older than the epoch"
    shard_log.trim(COMMANDS, 0, 3, older_than=4_000_000_000_000_000)
    while not broker.takeover.has_run(0):
        pass  # deletion is asynchronous on the real broker; the test's time limit is the only one


def test_the_readers_position_says_that_no_report_is_left(broker: Broker) -> None:
    shard_log = broker.open("a")
    for n in range(3):
        broker.append(REPORTS, 0, "k", b"r%d" % n)
    end = shard_log.reports_end(0)
    assert end >= 3
    seen, reports = 0, 0
    while seen < end:
        polled = shard_log.poll(0.1, 10, 10)
        reports += len(polled.reports)
        seen = max(seen, polled.reports_seen.get(0, 0))
    assert reports == 3, "all of them came before the position did"


def test_a_record_keeps_the_timestamp_that_it_is_given(broker: Broker) -> None:
    shard_log = broker.open("a")
    forwarded = NewRecord(COMMANDS, 1, "k", b"forwarded", 1_700_000_000_123_000)
    shard_log.commit([ShardTurn(0, 1, [forwarded], [], 0)])
    [record] = _poll_until(shard_log, 1, 0).commands
    assert (record.partition, record.value, record.timestamp) == (1, b"forwarded", 1_700_000_000_123_000)


@pytest.mark.real
def test_a_member_of_a_past_generation_commits_nothing_and_may_send_again(
    request: pytest.FixtureRequest, unique: str
) -> None:
    """Two members on a real broker: the turn that meets the rebalance is aborted, and lands when it is sent again."""
    bootstrap = request.getfixturevalue("cluster").kafka_bootstrap
    names, opened = TopicNames(f"{unique}."), []
    broker = _kafka_broker(bootstrap, names, opened)
    first = broker.open("a")
    first.commit([_turn(0, 1), _turn(1, 1)])
    second = KafkaShardLog(bootstrap, names, "b", session_timeout_s=6)
    second.renew("b")
    second.join(lambda shards: None)
    number, refused, got = 1, 0, set[int]()
    released: set[int] = set()
    assert isinstance(first, KafkaShardLog)
    first._on_revoke = released.update
    while not got:
        got |= second.poll(0.05, 1, 1).assigned
        for _ in range(3):
            try:
                mine = {0, 1} - released
                first.commit([_turn(shard, number + 1) for shard in mine])
                number += 1
            except TurnAborted:
                refused += 1
        first.poll(0.05, 1, 1)
    assert got == released, "what one gave up, the other got"
    [kept] = {0, 1} - released
    first.commit([_turn(kept, number + 1)])
    states = broker.takeover.read_states([kept])[kept]
    assert sorted(int(key.split("/")[1]) for key in states) == list(range(1, number + 2)), "none missing, none twice"
    second.close(leave=True)
    # A subscribed consumer that is only dropped blocks whoever collects it.
    first.close(leave=True)


@pytest.mark.real
def test_what_is_appended_while_reading_begins_is_not_passed_over(request: pytest.FixtureRequest, unique: str) -> None:
    """A fresh reader each time: what its client still finds out in the background must not move where it reads."""
    bootstrap = request.getfixturevalue("cluster").kafka_bootstrap
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    shards, records = 8, 30
    for n in range(6):
        names = TopicNames(f"{unique}.{n}.")
        topics = [NewTopic(names.prefix + topic, shards, 1) for topic in TOPICS]
        for future in admin.create_topics(topics).values():
            future.result(20)
        shard_log = KafkaShardLog(bootstrap, names, "owner", session_timeout_s=6)
        try:
            shard_log.join(lambda shards: None)
            assigned: set[int] = set()
            while len(assigned) < shards:
                assigned |= shard_log.poll(0.05, 1, 1).assigned
            shard_log.begin(dict.fromkeys(range(shards), (0, 0)))
            for sent in range(records):
                for shard in range(shards):
                    producer.produce(names.commands, b"%d" % sent, "k", shard)
                assert producer.flush(20) == 0
            got = _poll_until(shard_log, shards * records, 0)
            for shard in range(shards):
                read = [int(r.value or b"") for r in got.commands if r.partition == shard]
                assert read == list(range(records)), f"shard {shard}"
        finally:
            shard_log.close(leave=True)


@pytest.mark.real
def test_the_true_end_is_seen_behind_an_open_transaction(request: pytest.FixtureRequest, unique: str) -> None:
    """A read_committed reader's own idea of the end would stop before the open transaction, and miss what follows.

    While it is open its shard is left out, and the others are read.
    """
    bootstrap = request.getfixturevalue("cluster").kafka_bootstrap
    names = TopicNames(f"{unique}.")
    _kafka_broker(bootstrap, names, [])
    hanging = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique, "transaction.timeout.ms": 60_000})
    hanging.init_transactions(20)
    hanging.begin_transaction()
    hanging.produce(names.shard_state, b"never committed", "d/1/0", 0)
    hanging.flush(20)
    other = Producer({"bootstrap.servers": bootstrap})
    other.produce(names.shard_state, b"committed behind it", "d/2/0", 0)
    other.produce(names.shard_state, b"of another shard", "d/1/0", 1)
    assert other.flush(20) == 0
    takeover = KafkaTakeover(bootstrap, names, "takeover", {})
    assert takeover.hidden([0, 1]) == {0}
    assert takeover.read_states([0, 1], stable=True) == {0: {}, 1: {"d/1/0": b"of another shard"}}
    assert takeover.read_states([0, 1]) == {1: {"d/1/0": b"of another shard"}}
    hanging.abort_transaction(20)
    state = takeover.read_states([0])[0]
    assert state == {"d/2/0": b"committed behind it"}, "the aborted record is out, what stands behind it is in"
    assert takeover.hidden([0, 1]) == set()


@pytest.mark.parametrize(
    ("metadata", "generation"),
    [(b"CGMDv2:\xff\xff\xff\xffgroup\0\0\1", -1), (b"CGMDv2:\x07\x00\x00\x00group\0member\0\1", 7)],
)
def test_reads_the_generation_out_of_group_metadata(metadata: bytes, generation: int) -> None:
    assert group_generation(metadata) == generation


def test_refuses_group_metadata_of_an_unknown_form() -> None:
    with pytest.raises(Refused, match="unknown form"):
        group_generation(b"CGMDv3:....")


def _too_large(shard: int, number: int) -> ShardTurn:
    """A turn with a record in its middle that the topic does not take, as it is no larger than the client's bound."""
    records = [NewRecord(REPORTS, shard, f"k{n}", os.urandom(1_200_000 if n == 3 else 10)) for n in range(6)]
    return ShardTurn(shard, number, records, [], 0)


@pytest.mark.parametrize("ahead", [False, True])
def test_a_record_that_is_too_large_is_named_and_the_others_can_be_committed_afterwards(
    broker: Broker, ahead: bool
) -> None:
    shard_log = broker.open("a")
    turns = [_turn(0, 1), _too_large(1, 1)]
    if ahead:
        for turn in turns:
            shard_log.send_ahead(turn)
    with pytest.raises(RecordRefused, match="k3") as refused:
        _send_until_decided(shard_log, turns)
    assert (refused.value.shard, refused.value.topic) == (1, REPORTS)
    shard_log.commit(turns[:1])
    assert broker.takeover.read_states([0, 1]) == {0: {"d/1/0": b"state"}, 1: {}}


@pytest.mark.parametrize("ahead", [False, True])
def test_a_record_larger_than_any_topic_takes_is_named_too(broker: Broker, ahead: bool) -> None:
    shard_log = broker.open("a")
    turn = _turn(0, 1, state=b"s" * 4_000_000)
    if ahead:
        shard_log.send_ahead(turn)
    with pytest.raises(RecordRefused) as refused:
        _send_until_decided(shard_log, [turn])
    assert (refused.value.shard, refused.value.topic) == (0, SHARD_STATE)
    shard_log.commit([_turn(1, 1)])


def test_a_missing_topic_is_named_and_not_taken_for_a_fence(broker: Broker) -> None:
    shard_log = broker.open("a")
    assert shard_log.partition_counts([JOBS, "nowhere"]).keys() == {JOBS}
    lost = NewRecord("executions.gone", 0, "k", b"v")
    with pytest.raises(TopicsMissing) as missing:
        _send_until_decided(shard_log, [ShardTurn(0, 1, [lost], [], 0)])
    assert missing.value.topics == ("executions.gone",)


def test_a_topic_that_is_deleted_while_it_is_written_to_is_named(broker: Broker) -> None:
    shard_log = broker.open("a")
    shard_log.commit([ShardTurn(0, 1, [NewRecord(SHARD_STATE, 0, "d/1/0", b"s")], [], 0)])
    broker.drop(SHARD_STATE)
    with pytest.raises(TopicsMissing) as missing:
        _send_until_decided(shard_log, [ShardTurn(0, 2, [NewRecord(SHARD_STATE, 0, "d/2/0", b"s")], [], 0)])
    assert missing.value.topics == (SHARD_STATE,)


def _send_until_decided(shard_log: ShardLog, turns: list[ShardTurn]) -> None:
    """Send a turn again while that is what the log says; it may have to look closer, but not for ever."""
    for _ in range(3):
        try:
            shard_log.commit(turns)
            return
        except TurnAborted:
            shard_log.poll(0.1, 1, 1)
    raise AssertionError("a turn that cannot be committed was never decided")
