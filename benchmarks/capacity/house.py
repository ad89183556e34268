"""One owner with its real loop, engine and codec, on a log and a store that cost next to nothing and count.

What a broker's or a store's client would cost on top is not in it. No servers, no threads; time is set.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.memory.fleet_log import MemoryFleetLog
from tocsin.adapters.memory.jobs_log import MemoryJobsLog
from tocsin.adapters.memory.shard_log import MemoryLog, MemoryTakeover
from tocsin.adapters.metrics import PrometheusMeter
from tocsin.domain.entries import Entry
from tocsin.domain.instants import SECOND, Micros, minute_of
from tocsin.engine.dispatch_desk import Lanes
from tocsin.engine.shard_engine import EngineLimits
from tocsin.ports.schedule_store import BucketPage, Completion, JobRead, StoreWrites, WritesDone
from tocsin.ports.shard_log import COMMANDS, JOBS, REPORTS, LogRecord, NewRecord, Polled, ShardTurn
from tocsin.roles.trigger.fleet import FleetReader
from tocsin.roles.trigger.loop import LoopLimits, TriggerLoop
from tocsin.roles.trigger.takeover import ClusterFacts, Restorer
from tocsin.testing import SettableClock

CODEC: Final = AvroCodec()
SHARD: Final = 0
LANE_PARTITIONS: Final = 16
TENANT_SPREAD: Final = 8


class CountingLog:
    """Fulfils ``ports.shard_log.ShardLog`` for one shard: keeps the turns, and hands records over once."""

    def __init__(self, clock: SettableClock) -> None:
        self.turns: list[ShardTurn] = []
        self._clock = clock
        self._arriving: dict[str, deque[LogRecord]] = {COMMANDS: deque(), REPORTS: deque()}
        self._ends: Counter[str] = Counter()
        self._news = Polled(assigned={SHARD})
        self.kept: list[NewRecord] | None = None
        """The owner's commands to itself, where they are kept from it."""

    def append(self, topic: str, key: str, value: bytes | None) -> None:
        """Append what the owner is to read."""
        now = self._clock.now() // 1000 * 1000
        self._arriving[topic].append(LogRecord(SHARD, self._ends[topic], now, key.encode(), value))
        self._ends[topic] += 1

    def keep_own(self) -> None:
        """Keep from the owner what it commands itself, until that is handed over."""
        self.kept = []

    def hand_over(self) -> None:
        """Let the owner read what was kept from it."""
        kept, self.kept = self.kept, None
        for record in kept or []:
            self.append(record.topic, record.key, record.value)

    def join(self, on_revoke: Callable[[set[int]], None]) -> None: ...

    def leave(self) -> None: ...

    def begin(self, starts: Mapping[int, tuple[int, int]]) -> None: ...

    def renew(self, transactional_id: str) -> None: ...

    def reports_end(self, shard: int) -> int:
        return self._ends[REPORTS]

    def poll(self, wait_s: float, commands_max: int, reports_max: int) -> Polled:
        polled, self._news = self._news, Polled()
        polled.commands = self._taken(COMMANDS, commands_max)
        polled.reports = self._taken(REPORTS, reports_max)
        if not polled.reports:
            polled.reports_seen[SHARD] = self._ends[REPORTS]
        return polled

    def _taken(self, topic: str, limit: int) -> list[LogRecord]:
        waiting = self._arriving[topic]
        return [waiting.popleft() for _ in range(min(limit, len(waiting)))]

    def pause(self, shard: int) -> None: ...

    def resume(self, shard: int) -> None: ...

    def send_ahead(self, turn: ShardTurn) -> None: ...

    def commit(self, turns: Sequence[ShardTurn]) -> dict[int, int]:
        self.turns += turns
        ends: dict[int, int] = {}
        for turn in turns:
            if turn.jobs:
                self._ends[JOBS] += len(turn.jobs)
                ends[turn.shard] = self._ends[JOBS]
            for record in turn.records:
                if record.topic == COMMANDS and self.kept is not None:
                    self.kept.append(record)
                elif record.topic == COMMANDS:
                    self.append(COMMANDS, record.key, record.value)
        return ends

    def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        return dict.fromkeys(topics, LANE_PARTITIONS)

    def trim(self, topic: str, shard: int, below: int, older_than: Micros) -> None: ...

    def close(self, leave: bool) -> None: ...


class CountingStore:
    """Fulfils ``ports.schedule_store.ScheduleStore``: acknowledges at once, and reads rows back as others."""

    def __init__(self) -> None:
        self.writes: list[StoreWrites] = []
        self._rows: defaultdict[int, dict[object, Entry]] = defaultdict(dict)
        self._jobs: dict[str, bytes | None] = {}
        self._done: deque[Completion] = deque()

    def begin_bucket_read(self, shard: int, minute: int) -> None:
        self._done.append(BucketPage(shard, minute, [_as_read(e) for e in self._rows.pop(minute, {}).values()], True))

    def begin_job_read(self, shard: int, job_id: str) -> None:
        self._done.append(JobRead(shard, job_id, self._jobs.get(job_id)))

    def begin_job_reads(self, shard: int, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            self.begin_job_read(shard, job_id)

    def begin_writes(self, shard: int, turn: int, writes: StoreWrites) -> None:
        self.writes.append(writes)
        self._done.append(WritesDone(shard, turn))

    def keep(self) -> None:
        """Let what was written so far be read."""
        for writes in self.writes:
            for entry in writes.inserts:
                self._rows[minute_of(entry.run_at)][entry.key] = entry
            for key in writes.deletes:
                self._rows[key.bucket_minute].pop(key, None)
            self._jobs.update({row.job_id: row.snapshot for row in writes.jobs})

    def drop(self) -> None:
        """Forget what was written and not read yet."""
        self._rows.clear()
        self._jobs.clear()

    def completed(self, limit: int) -> list[Completion]:
        return [self._done.popleft() for _ in range(min(limit, len(self._done)))]

    def forget(self, shard: int) -> None: ...

    def close(self) -> None: ...


def _as_read(entry: Entry) -> Entry:
    """Return a row whose values are its own, as a driver makes them."""
    return Entry(*(value.encode().decode() if isinstance(value, str) else value for value in entry))._replace(
        execution=bytes(bytearray(entry.execution))
    )


@dataclass
class Counted:
    """What some phase of a house came to.

    Attributes:
        cpu_s: of the loop, all its turns.
        records, bytes: by topic; keys are counted among the bytes.
        store: operations, by statement.
        store_bytes: of the values written, by statement.
    """

    cpu_s: float = 0.0
    turns: int = 0
    records: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    store: Counter[str] = field(default_factory=Counter)
    store_bytes: Counter[str] = field(default_factory=Counter)
    values: dict[str, list[NewRecord]] = field(default_factory=dict)
    """The records themselves, by topic."""

    def take(self, turns: Sequence[ShardTurn], writes: Sequence[StoreWrites]) -> None:
        for record in (record for turn in turns for record in [*turn.records, *turn.jobs]):
            self.records[record.topic] += 1
            self.bytes[record.topic] += len(record.key.encode()) + len(record.value or b"")
            self.values.setdefault(record.topic, []).append(record)
        for one in writes:
            self._put("insert_entry", len(one.inserts), sum(map(entry_bytes, one.inserts)))
            self._put("delete_entry", len(one.deletes), 0)
            kept = [row for row in one.jobs if row.snapshot is not None]
            self._put("upsert_job", len(kept), sum(len(row.job_id) + 8 + len(row.snapshot or b"") for row in kept))
            self._put("delete_job", len(one.jobs) - len(kept), 0)

    def _put(self, statement: str, count: int, size: int) -> None:
        if count:
            self.store[statement] += count
            self.store_bytes[statement] += size


def entry_bytes(entry: Entry) -> int:
    """Return the bytes of a row's values, as they go to the store: three numbers, texts and the execution."""
    texts = (entry.job_id, entry.execution_id, entry.tenant_id, entry.lane, entry.plan)
    return 3 * 8 + sum(len(text.encode()) for text in texts) + len(entry.execution)


class House:
    """One owner of one shard."""

    def __init__(self) -> None:
        self.clock = SettableClock()
        self.log = CountingLog(self.clock)
        self.store = CountingStore()
        memory = MemoryLog(self.clock)
        lanes = Lanes({"default": LANE_PARTITIONS, "message": LANE_PARTITIONS}, TENANT_SPREAD)
        facts = ClusterFacts(1, 1)
        restore = Restorer(MemoryTakeover(memory), CODEC, facts, lanes, EngineLimits(), 1, self.clock)
        fleet = FleetReader(MemoryFleetLog(), "house")
        meter = PrometheusMeter(CollectorRegistry())
        self.loop = TriggerLoop(
            self.log, self.store, restore, lambda: "house", fleet, self.clock, meter, LoopLimits(),
            MemoryJobsLog(memory), lanes,
        )  # fmt: skip
        self.loop.join()
        self.turn(4)
        self._forget()

    def turn(self, turns: int) -> float:
        """Turn the loop; return the CPU time that it took, s."""
        before_s = time.thread_time()
        for _ in range(turns):
            self.loop.turn()
        return time.thread_time() - before_s

    def settle(self) -> tuple[float, int]:
        """Turn until a turn commits nothing; return the CPU time of all turns, and how many committed."""
        used_s, turns = 0.0, 0
        while True:
            before = len(self.log.turns)
            used_s += self.turn(2)
            if len(self.log.turns) == before:
                return used_s, turns
            turns += len(self.log.turns) - before

    @contextmanager
    def phase(self) -> Iterator[Counted]:
        """Count what happens within."""
        counted = Counted()
        yield counted
        counted.take(self.log.turns, self.store.writes)
        self._forget()

    def run(self, counted: Counted, until: Micros, step_s: float = 20.0) -> None:
        """Let time go on to an instant, and settle now and then."""
        while True:
            used_s, turns = self.settle()
            counted.cpu_s += used_s
            counted.turns += turns
            if self.clock.now() >= until:
                return
            self.clock.set(min(until, self.clock.now() + round(step_s * SECOND)))

    def _forget(self) -> None:
        self.store.keep()
        self.log.turns.clear()
        self.store.writes.clear()
