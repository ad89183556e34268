"""The log in memory: what a broker keeps, and an owner's side of it. For tests; one process, no threads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tocsin.domain.errors import OwnershipLost, RecordRefused, TopicsMissing, TurnAborted
from tocsin.domain.instants import Micros
from tocsin.ports.clock import Clock
from tocsin.ports.shard_log import (
    COMMANDS,
    JOBS,
    REPORTS,
    SHARD_STATE,
    LogRecord,
    NewRecord,
    Polled,
    ShardTurn,
)
from tocsin.ports.takeover import JobsTail

RECORD_BYTES_MAX = 1_048_000
STATE_RECORD_BYTES_MAX = 2_097_000
"""What brokers take in one record, by the declared topics."""


class MemoryLog:
    """Topics of partitions of records, and who may still write. Shared by all owners of a test.

    Attributes:
        marker_gaps: leave an offset unused after every transaction, as Kafka's markers do.
        check_generations: refuse commits of members that are no longer in the group.
        generation: of the group; each new member begins another.
    """

    def __init__(self, clock: Clock, *, marker_gaps: bool = True) -> None:
        self.clock = clock
        self.marker_gaps = marker_gaps
        self.check_generations = True
        self.generation = 0
        self.fenced: set[str] = set()
        self.missing: set[str] = set()
        """Topics that were deleted."""
        self.hidden: set[tuple[str, int]] = set()
        """Partitions of states or jobs whose end a foreign transaction hides."""
        self.refuses: Callable[[NewRecord], str | None] = lambda record: None
        """Tells why brokers would refuse a record for what it is; what is too large fails a test instead."""
        self.group_offsets: dict[int, int] = {}
        self._records: defaultdict[tuple[str, int], list[LogRecord]] = defaultdict(list)
        self._ends: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._starts: defaultdict[tuple[str, int], int] = defaultdict(int)

    def append(self, topic: str, partition: int, key: str, value: bytes | None, timestamp: Micros | None = None) -> int:
        """Append one record and return its offset; its timestamp is now unless one is given."""
        place = (topic, partition)
        limit = STATE_RECORD_BYTES_MAX if topic == SHARD_STATE else RECORD_BYTES_MAX
        if len(key) + len(value or b"") > limit:
            raise AssertionError(f"brokers refuse so large a record: {topic}, {len(key)} + {len(value or b'')} bytes")
        offset = self._ends[place]
        # A broker keeps milliseconds.
        timestamp = (self.clock.now() if timestamp is None else timestamp) // 1000 * 1000
        self._records[place].append(LogRecord(partition, offset, timestamp, key.encode(), value))
        self._ends[place] = offset + 1
        return offset

    def skip(self, topic: str, partition: int) -> None:
        """Use up an offset without a record."""
        self._ends[topic, partition] += 1

    def read(self, topic: str, partition: int, start: int = 0) -> list[LogRecord]:
        return [record for record in self._records[topic, partition] if record.offset >= start]

    def all(self, topic: str) -> list[LogRecord]:
        """Return the records of all partitions of a topic."""
        return [r for (name, _), records in sorted(self._records.items()) if name == topic for r in records]

    def end(self, topic: str, partition: int) -> int:
        return self._ends[topic, partition]

    def start(self, topic: str, partition: int) -> int:
        return self._starts[topic, partition]

    def recreate(self, topic: str, partition: int) -> None:
        """Delete a topic's partition and make it anew: its offsets begin again."""
        for kept in (self._records, self._ends, self._starts):
            kept.pop((topic, partition), None)

    def delete_below(self, topic: str, partition: int, offset: int) -> None:
        place = (topic, partition)
        self._starts[place] = max(self._starts[place], offset)
        self._records[place] = self.read(topic, partition, offset)


class MemoryShardLog:
    """Fulfils ``ports.shard_log.ShardLog``. The shards that it owns are said by ``assign``, ``revoke`` and ``lose``."""

    def __init__(self, log: MemoryLog, owner: str) -> None:
        self._log = log
        self._owner = owner
        self._generation = log.generation
        self._positions: dict[tuple[str, int], int] = {}
        self._paused: set[int] = set()
        self._news = Polled()
        self._on_revoke: Callable[[set[int]], None] = lambda _: None
        self.hide_reports = False
        """Bring no reports, as a reader does that is held up."""
        self.fail_next: Exception | None = None
        """Raised by the next commit instead of committing."""

    def join(self, on_revoke: Callable[[set[int]], None]) -> None:
        self._on_revoke = on_revoke

    def assign(self, shards: Iterable[int]) -> None:
        """Give shards to this member; the group's generation goes on."""
        self.rejoin()
        self._news.assigned |= set(shards)

    def leave(self) -> None:
        self.revoke({shard for _, shard in self._positions})

    def rejoin(self) -> None:
        """Take part in the next generation, as members that stay do."""
        self._log.generation += 1
        self._generation = self._log.generation

    def follow(self) -> None:
        """Learn of the present generation without beginning another."""
        self._generation = self._log.generation

    def revoke(self, shards: Iterable[int]) -> None:
        """Take shards away politely."""
        self._on_revoke(set(shards))
        self._forget(shards)

    def lose(self, shards: Iterable[int]) -> None:
        """Take shards away without a word."""
        self._forget(shards)
        self._news.lost |= set(shards)

    def _forget(self, shards: Iterable[int]) -> None:
        for shard in shards:
            self._positions.pop((COMMANDS, shard), None)
            self._positions.pop((REPORTS, shard), None)
            self._news.assigned.discard(shard)

    def begin(self, starts: Mapping[int, tuple[int, int]]) -> None:
        for shard, (command, report) in starts.items():
            self._positions[COMMANDS, shard] = command
            self._positions[REPORTS, shard] = report

    def renew(self, transactional_id: str) -> None:
        self._owner = transactional_id

    def reports_end(self, shard: int) -> int:
        return self._log.end(REPORTS, shard)

    def poll(self, wait_s: float, commands_max: int, reports_max: int) -> Polled:
        polled, self._news = self._news, Polled()
        polled.commands = self._take(COMMANDS, commands_max)
        polled.reports = [] if self.hide_reports else self._take(REPORTS, reports_max)
        for (topic, shard), position in self._positions.items():
            if topic == REPORTS and not self.hide_reports and not self._log.read(REPORTS, shard, position):
                polled.reports_seen[shard] = self._log.end(REPORTS, shard)
        return polled

    def pause(self, shard: int) -> None:
        self._paused.add(shard)

    def resume(self, shard: int) -> None:
        self._paused.discard(shard)

    def send_ahead(self, turn: ShardTurn) -> None:
        """Nothing here takes time, so nothing is gained by it."""

    def commit(self, turns: Sequence[ShardTurn]) -> dict[int, int]:
        if self.fail_next is not None:
            error, self.fail_next = self.fail_next, None
            raise error
        if self._owner in self._log.fenced:
            raise OwnershipLost("a turn was not committed: a successor fenced this owner")
        self._check_records(turns)
        if self._log.check_generations and self._generation != self._log.generation:
            raise TurnAborted("a turn was not committed: this owner's generation is over")
        jobs_end: dict[int, int] = {}
        touched: set[tuple[str, int]] = set()
        for turn in turns:
            for record in [*turn.records, *turn.jobs]:
                offset = self._log.append(record.topic, record.partition, record.key, record.value, record.timestamp)
                touched.add((record.topic, record.partition))
                if record.topic == JOBS:
                    jobs_end[turn.shard] = offset + 1
            self._log.group_offsets[turn.shard] = turn.commands_offset
        if self._log.marker_gaps:
            for topic, partition in touched:
                self._log.skip(topic, partition)
        return jobs_end

    def _check_records(self, turns: Sequence[ShardTurn]) -> None:
        for turn in turns:
            for record in [*turn.records, *turn.jobs]:
                if record.topic in self._log.missing:
                    raise TopicsMissing([record.topic])
                problem = self._log.refuses(record)
                if problem:
                    raise RecordRefused(turn.shard, record.topic, record.key, problem)

    def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        return {topic: 4 for topic in topics if topic not in self._log.missing and not topic.startswith("nowhere")}

    def trim(self, topic: str, shard: int, below: int, older_than: Micros) -> None:
        young = [record.offset for record in self._log.read(topic, shard) if record.timestamp >= older_than]
        self._log.delete_below(topic, shard, min([below, *young]))

    def close(self, leave: bool) -> None:
        self._positions.clear()

    def _take(self, topic: str, limit: int) -> list[LogRecord]:
        taken: list[LogRecord] = []
        for (name, shard), position in self._positions.items():
            if name != topic or (topic == COMMANDS and shard in self._paused):
                continue
            records = self._log.read(topic, shard, position)[: limit - len(taken)]
            if records:
                self._positions[name, shard] = records[-1].offset + 1
            taken += records
        return taken


class MemoryTakeover:
    """Fulfils ``ports.takeover.Takeover``."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    def fence(self, owner: str) -> None:
        self._log.fenced.add(owner)

    def wait_for_offsets(self, shards: Sequence[int]) -> None:
        """Transactions here are done at once, so none is ever pending."""

    def read_states(self, shards: Sequence[int], *, stable: bool = False) -> dict[int, dict[str, bytes]]:
        states: dict[int, dict[str, bytes]] = {}
        for shard in shards:
            if (SHARD_STATE, shard) in self._log.hidden and not stable:
                continue
            latest = {(r.key or b"").decode(): r.value for r in self._log.read(SHARD_STATE, shard)}
            states[shard] = {key: value for key, value in latest.items() if value is not None}
        return states

    def read_jobs(self, starts: Mapping[int, int]) -> dict[int, JobsTail]:
        hidden = self._log.hidden
        return {shard: self._jobs_tail(shard, start) for shard, start in starts.items() if (JOBS, shard) not in hidden}

    def hidden(self, shards: Sequence[int]) -> set[int]:
        return {shard for shard in shards if {(SHARD_STATE, shard), (JOBS, shard)} & self._log.hidden}

    def _jobs_tail(self, shard: int, start: int) -> JobsTail:
        records = [((r.key or b"").decode(), r.value) for r in self._log.read(JOBS, shard, start)]
        return JobsTail(records, self._log.end(JOBS, shard))

    def has_run(self, shard: int) -> bool:
        committed = shard in self._log.group_offsets or bool(self._log.read(JOBS, shard))
        return self._log.start(COMMANDS, shard) > 0 or committed
