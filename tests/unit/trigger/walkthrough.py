"""One job's way through the running code, as text: what docs/walkthrough.md shows and its test compares.

``python -m tests.unit.trigger.walkthrough`` writes the present trace into the document.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.unit.trigger.world import CODEC, World
from tests.unit.worker.worker_world import Worker
from tests.unit.worker.worker_world import World as Lane
from tocsin.adapters.memory.dispatch_log import MemoryLane
from tocsin.adapters.memory.targets import MemoryTargetRunner
from tocsin.domain.entries import Entry, Place
from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.domain.instants import MINUTE, SECOND, format_rfc3339
from tocsin.domain.shard_records import Active, WorkItem
from tocsin.domain.sharding import shard_of
from tocsin.domain.timers import is_timer
from tocsin.engine.offset_metadata import decode_marks
from tocsin.engine.ring import is_delta_key
from tocsin.engine.zone_rules import TABLES
from tocsin.ports.shard_log import (
    COMMANDS,
    DEAD_LETTERS,
    EVENTS,
    JOBS,
    OUTCOMES,
    REPORTS,
    SHARD_STATE,
    LogRecord,
    executions,
)
from tocsin.ports.targets import Attempt, AttemptEnd
from tocsin.testing import SettableClock

DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "walkthrough.md"
BLOCK: Final = re.compile(r"<!-- trace: ([a-z-]+) -->\n```yaml\n(.*?)```\n", re.DOTALL)
LANE: Final = executions("default")
PARTITIONS: Final = 4
TOPICS: Final = (COMMANDS, SHARD_STATE, JOBS, OUTCOMES, LANE, REPORTS, EVENTS, DEAD_LETTERS)
SHOWN: Final = ("execution", "published_at", "phase")
INSTANTS: Final = ("scheduled_for", "run_at", "at", "after", "pending")


class SharedClock(SettableClock):
    """One clock for the trigger and the workers, which also count seconds."""

    @property
    def seconds(self) -> float:
        return self.now() / SECOND

    @seconds.setter
    def seconds(self, value: float) -> None:
        self.set(round(value * SECOND))

    def monotonic_s(self) -> float:
        return self.seconds


class TimedRunner(MemoryTargetRunner):
    """Targets that end when they are told to, and remember when they were called."""

    def __init__(self, clock: SharedClock) -> None:
        super().__init__(clock)
        self._called_at: dict[int, int] = {}

    def start(self, attempts: Sequence[Attempt]) -> None:
        self._called_at |= {id(attempt): self._clock.now() for attempt in attempts}
        super().start(attempts)

    def finish(
        self, *attempts: Attempt, kind: ReportKind = ReportKind.SUCCEEDED, error: AttemptError | None = None
    ) -> None:
        for attempt in attempts:
            self.running.remove(attempt)
            called_at = self._called_at[id(attempt)]
            self._ended.append(AttemptEnd(attempt.ref, kind, called_at, self._clock.now(), error))


class Walk:
    """A cluster of one shard, with workers, that writes down what became new since it was last asked."""

    def __init__(self) -> None:
        self.world = World(shards=1)
        self.clock = self.world.clock = self.world.log.clock = SharedClock()
        self.lane = Lane(PARTITIONS)
        self.lane.clock = self.clock  # type: ignore[assignment]
        self.lane.lane = MemoryLane(PARTITIONS)
        self._told: dict[tuple[str, int], int] = {}
        self._rows: dict[tuple[Any, ...], Entry] = {}
        self._jobs: dict[str, bytes | None] = {}
        self._marks: dict[int, tuple[int, str]] = {}
        self._carried: dict[str, int] = {}

    def worker(self, name: str) -> Worker:
        return Worker(self.lane, name, self.lane.limits, TimedRunner(self.clock))

    def to_workers(self) -> None:
        """Let workers read what the trigger committed."""
        for partition in range(PARTITIONS):
            for record in self.world.log.read(LANE, partition, self.lane.lane.ends[partition]):
                self.lane.lane.leave_gap(partition, record.offset - self.lane.lane.ends[partition])
                self.lane.lane.append(partition, record.key, record.value)

    def to_owner(self, worker: Worker) -> None:
        """Let the owner read what a worker reported."""
        for sent in worker.sink.log[self._carried.get(worker.name, 0) :]:
            self.world.log.append(REPORTS, shard_of(sent.job_id, 1), sent.job_id, sent.report)
        self._carried[worker.name] = len(worker.sink.log)

    def news(self) -> str:
        """Return everything that became durable since the last call."""
        parts = [self._record(topic, record) for topic in TOPICS for record in self._new_records(topic)]
        parts += self._index_news() + self._job_row_news() + self._offset_news()
        return "\n".join(parts) or "nothing new\n"

    def _new_records(self, topic: str) -> list[LogRecord]:
        found = []
        for partition in range(PARTITIONS):
            start = self._told.get((topic, partition), 0)
            found += self.world.log.read(topic, partition, start)
            self._told[topic, partition] = self.world.log.end(topic, partition)
        return found

    def _record(self, topic: str, record: LogRecord) -> str:
        key = (record.key or b"").decode()
        value = None if record.value is None else _decoded(topic, key, record.value)
        return _text(f"{topic}[{record.partition}] offset {record.offset}", {"key": key, "value": value})

    def _index_news(self) -> list[str]:
        rows = {
            (minute, shard, *key): entry
            for (minute, shard), bucket in self.world.tables.index.items()
            for key, entry in bucket.items()
        }
        new = [self._index_row(place, rows[place]) for place in sorted(rows.keys() - self._rows.keys())]
        gone = [
            _text("schedule_index, deleted", _index_key(place)) for place in sorted(self._rows.keys() - rows.keys())
        ]
        self._rows = rows
        return new + gone

    def _index_row(self, place: tuple[Any, ...], entry: Entry) -> str:
        rest: dict[str, Any] = {"lane": entry.lane, "plan": entry.plan or "(a one-off with default policies)"}
        if not is_timer(entry):
            rest["execution"] = _plain(CODEC.decode_execution(entry.execution))
        return _text("schedule_index, written", _index_key(place) | rest)

    def _job_row_news(self) -> list[str]:
        rows = {job_id: row.snapshot for job_id, row in self.world.tables.jobs.items()}
        changed = [job_id for job_id in sorted(rows) if rows[job_id] != self._jobs.get(job_id, b"")]
        versions = {job_id: self.world.tables.jobs[job_id].version for job_id in changed}
        self._jobs = rows
        return [
            _text(
                "jobs table, written",
                {"job_id": job_id, "timestamp": versions[job_id], "snapshot": "the bytes of the record on jobs"},
            )
            for job_id in changed
        ]

    def _offset_news(self) -> list[str]:
        news = []
        for partition, committed in sorted(self.lane.lane.committed.items()):
            if committed != self._marks.get(partition):
                offset, metadata = committed
                marks = decode_marks(metadata)
                value = {
                    "offset": offset,
                    "metadata": metadata,
                    "settled": sorted(offset + at for at in marks.settled),
                    "begun": sorted(offset + at for at in marks.begun),
                    "takeovers": marks.takeovers,
                }
                news.append(f"offsets of worker.default for {LANE}[{partition}]:\n" + _yaml(value, 2))
                self._marks[partition] = committed
        return news


def _index_key(place: tuple[Any, ...]) -> dict[str, Any]:
    minute, shard, run_at, job_id, version, scheduled_for = place
    return {
        "partition key": f"({format_rfc3339(minute * MINUTE)[:16]}, shard {shard})",
        "run_at": format_rfc3339(run_at),
        "job_id": job_id,
        "version": version,
        "scheduled_for": format_rfc3339(scheduled_for),
    }


def _decoded(topic: str, key: str, value: bytes) -> Any:
    if topic == SHARD_STATE:
        return _plain(CODEC.decode_delta(value) if is_delta_key(key) else CODEC.decode_chunk(value))
    decode: dict[str, Any] = {
        COMMANDS: CODEC.decode_command,
        JOBS: CODEC.decode_job,
        OUTCOMES: CODEC.decode_outcome,
        LANE: CODEC.decode_execution,
        REPORTS: CODEC.decode_report,
        EVENTS: CODEC.decode_event,
        DEAD_LETTERS: CODEC.decode_dead_letter,
    }
    return _plain(decode[topic](value))


def _plain(value: Any, name: str = "") -> Any:
    """Return a decoded record as YAML writes it: without what is absent, and with instants as people read them."""
    if is_dataclass(value) and not isinstance(value, type):
        pairs = [(field.name, getattr(value, field.name)) for field in fields(value)]
        return _mapping(pairs)
    if isinstance(value, Place):
        at = format_rfc3339(value.run_at)
        return f"{at}, {value.job_id}, {format_rfc3339(value.scheduled_for)}" if value.job_id else f"just before {at}"
    if isinstance(value, Active):
        default = Active(value.execution, value.published_at)
        return _mapping((n, v) for n, v, d in zip(value._fields, value, default, strict=True) if v != d or n in SHOWN)
    if isinstance(value, WorkItem) and value.kind == TABLES:
        # Whatever release this is: the document shows what happens, not what the zones are.
        value = value._replace(data="the release of the zone data, and the zones from 2025 on, packed")
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _mapping(zip(value._fields, value, strict=True))
    if isinstance(value, tuple | list):
        return [_plain(item, name) for item in value]
    if isinstance(value, dict):
        return _mapping(value.items())
    if isinstance(value, bytes):
        return _bytes(value, name)
    if isinstance(value, int) and not isinstance(value, bool) and (name.endswith("_at") or name in INSTANTS):
        return format_rfc3339(value)
    return value if isinstance(value, bool | int | float | None) else str(value)


def _mapping(pairs: Any) -> dict[str, Any]:
    kept = {name: value for name, value in pairs if name != "head_bytes" and not _is_empty(value)}
    for name in ("spread_s", "last"):
        if not kept.get(name):
            kept.pop(name, None)
    return {name: _plain(value, name) for name, value in kept.items()}


def _is_empty(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, tuple | list | dict | str) and not value)


def _bytes(value: bytes, name: str) -> str:
    if name == "job":
        return "the bytes of the record on jobs"
    if name == "value":
        return "the bytes of the record on commands"
    head = CODEC.decode_head(value)
    return f"the bytes of {head.execution_id}, attempt {head.attempt}, token {head.token}"


def _text(title: str, value: dict[str, Any]) -> str:
    return f"{title}:\n" + _yaml(value, 2)


def _yaml(value: Any, indent: int) -> str:
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=200, default_flow_style=False)
    return "".join(f"{' ' * indent}{line}\n" for line in text.splitlines())


def trace() -> dict[str, str]:
    """Return what each section of the document shows."""
    told: dict[str, str] = {}
    walk = Walk()
    world = walk.world
    world.start()
    world.settle()
    told["first-turn"] = walk.news()
    _one_off(walk, told)
    _recurring(walk, told)
    return told


def _one_off(walk: Walk, told: dict[str, str]) -> None:
    world = walk.world
    world.create(in_s=8)
    told["command"] = walk.news()
    world.settle()
    told["decided"] = walk.news()
    world.run(8)
    told["fired"] = walk.news()
    walk.to_workers()
    first = walk.worker("worker-a")
    first.steps()
    assert len(first.running) == 1, "the attempt runs, and its worker is killed now"
    told["marked"] = walk.news()
    walk.clock.advance(10)
    walk.lane.lane.expel(first.log)
    second = walk.worker("worker-b")
    second.steps(3)
    assert second.started == [], "a successor repeats nothing on its own account"
    walk.to_owner(second)
    told["taken-over"] = walk.news()
    world.settle()
    told["dispatched-again"] = walk.news()
    walk.to_workers()
    second.steps()
    told["marked-again"] = walk.news()
    walk.clock.advance(0.25)
    second.finish(*set(second.running))
    second.steps(2)
    walk.to_owner(second)
    told["reported"] = walk.news()
    world.settle(1)
    told["ended"] = walk.news()
    world.settle()
    told["finished"] = walk.news()
    first.finish(*set(first.running))
    first.steps(1)
    walk.to_owner(first)
    world.settle()
    told["too-late"] = walk.news()


def _recurring(walk: Walk, told: dict[str, str]) -> None:
    world = walk.world
    world.recur({"cron": "*/15 * * * *", "timezone": "Asia/Kolkata"}, name="report")
    world.settle()
    told["recurring-created"] = walk.news()
    world.run(15 * 60 - walk.clock.now() / SECOND % 900 - 1, 15)
    walk.news()
    world.store.held = True
    world.run(1)
    told["recurring-fired"] = walk.news()
    world.start()
    world.settle()
    told["recurring-taken-over"] = walk.news()


def written(document: str, told: dict[str, str]) -> str:
    """Return a document with the trace in place of what its blocks hold."""
    return BLOCK.sub(lambda m: f"<!-- trace: {m[1]} -->\n```yaml\n{told[m[1]]}```\n", document)


def main() -> None:
    DOCUMENT.write_text(written(DOCUMENT.read_text(), trace()))


if __name__ == "__main__":
    main()
