"""A cluster in memory, driven step by step: the real loop, engine, takeover and codec on fakes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from prometheus_client import CollectorRegistry

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.memory.fleet_log import MemoryFleetLog
from tocsin.adapters.memory.jobs_log import MemoryJobsLog
from tocsin.adapters.memory.pools import MemoryPoolRoll
from tocsin.adapters.memory.schedule_store import MemoryScheduleStore, MemoryTables
from tocsin.adapters.memory.shard_log import MemoryLog, MemoryShardLog, MemoryTakeover
from tocsin.adapters.metrics import PrometheusMeter
from tocsin.domain import ids
from tocsin.domain.alerts import Alert
from tocsin.domain.commands import Command, CommandOutcome
from tocsin.domain.executions import AttemptError, AttemptReport, Execution
from tocsin.domain.instants import SECOND, format_rfc3339
from tocsin.domain.shard_records import WorkItem
from tocsin.domain.sharding import shard_of
from tocsin.engine.dispatch_desk import Lanes
from tocsin.engine.shard_engine import EngineLimits, ShardEngine
from tocsin.engine.zone_rules import TABLES
from tocsin.ports.shard_log import COMMANDS, DEAD_LETTERS, EVENTS, OUTCOMES, REPORTS, executions
from tocsin.roles.pools import PoolBook
from tocsin.roles.trigger.fleet import FleetReader
from tocsin.roles.trigger.loop import LoopLimits, TriggerLoop
from tocsin.roles.trigger.takeover import ClusterFacts, Restorer
from tocsin.testing import SettableClock

CODEC = AvroCodec()
TARGET = {"type": "http", "url": "https://example.test/run"}


@dataclass
class Node:
    """One trigger process."""

    loop: TriggerLoop
    log: MemoryShardLog
    store: MemoryScheduleStore
    beats: MemoryFleetLog
    name: str
    meter: PrometheusMeter


class World:
    """One cluster. ``start`` makes a new owner, which takes over from whoever was there; a crash needs no call."""

    def __init__(self, shards: int = 2, limits: EngineLimits | None = None, codec: AvroCodec = CODEC) -> None:
        self.codec = codec
        self.clock = SettableClock()
        self.log = MemoryLog(self.clock)
        self.tables = MemoryTables()
        self.shards = shards
        self.limits = limits or EngineLimits()
        self.lanes = Lanes({"default": 4, "message": 4}, 2)
        self.roll = MemoryPoolRoll()
        self.book = PoolBook(self.roll)
        self.loop_limits = LoopLimits()
        self.told: list[Alert] = []
        """Alerts from outside of turns."""
        self.starts = 0
        self._ids = 0
        self.loop: TriggerLoop
        self.shard_log: MemoryShardLog
        self.store: MemoryScheduleStore
        self.beats: MemoryFleetLog
        self.name: str
        self.meter: PrometheusMeter

    def start(self, *, aware: bool = True) -> TriggerLoop:
        """Start a process that gets all shards, without a word to whoever had them.

        Args:
            aware: the former owner learns of it when it polls next; otherwise only from what it is refused.
        """
        node = self.node()
        if self.starts > 1 and aware:
            self.shard_log.lose(range(self.shards))  # which it learns when it polls, and not before
        node.log.assign(range(self.shards))
        self.loop, self.shard_log, self.store = node.loop, node.log, node.store
        self.beats, self.name, self.meter = node.beats, node.name, node.meter
        self.loop.turn()
        return self.loop

    def be_taken_over(self, chance: Random, zombie_turns: int) -> None:
        """Start a process that gets all shards; the former one may know, or go on for a while and commit nothing."""
        zombie = self.loop
        self.start(aware=chance.random() < 0.5)
        self.settle(1)
        for _ in range(chance.choice([0, zombie_turns])):
            self.clock.advance(0.2)
            zombie.turn()

    def node(self) -> Node:
        """Start a process without any shard."""
        self.starts += 1
        name = f"trigger-{self.starts}"
        owners = (f"owner-{self.starts}.{n}" for n in itertools.count())
        log = MemoryShardLog(self.log, "")
        store = MemoryScheduleStore(self.tables)
        beats = MemoryFleetLog()
        watch = FleetReader(beats, name)
        meter = PrometheusMeter(CollectorRegistry())
        restore = Restorer(
            MemoryTakeover(self.log), self.codec, ClusterFacts(1, self.shards), self.lanes, self.limits, 1, self.clock
        )
        jobs_log = MemoryJobsLog(self.log)
        limits, owner = self.loop_limits, lambda: next(owners)
        parts = (watch, self.clock, meter, limits, jobs_log, self.lanes, self.book, self.told.extend)
        loop = TriggerLoop(log, store, restore, owner, *parts)
        loop.join()
        return Node(loop, log, store, beats, name, meter)

    @property
    def engines(self) -> Mapping[int, ShardEngine]:
        return self.loop.engines

    def run(self, seconds: float, step_s: float = 0.25) -> None:
        """Turn the loop while time goes on."""
        end = self.clock.now() + round(seconds * SECOND)
        self.settle()
        while self.clock.now() < end:
            self.clock.advance(min(step_s, (end - self.clock.now()) / SECOND))
            self.settle()

    def settle(self, turns: int = 6) -> None:
        """Turn the loop a few times while the clock stands."""
        for _ in range(turns):
            self.loop.turn()

    def _new_id(self) -> str:
        """Make an id as a gateway does: it begins with the milliseconds of its making."""
        return ids.made_job_id(f"{self.clock.now() // 1000:012x}{self._ids:020x}")

    def create(self, *, in_s: float | None = None, at: int | None = None, job_id: str | None = None) -> str:
        """Send a create; return the job's id."""
        self._ids += 1
        job_id = job_id or self._new_id()
        run_at = at if at is not None else self.clock.now() + round((in_s or 0) * SECOND)
        definition = {"run_at": format_rfc3339(run_at), "target": TARGET}
        self.send(Command("create", f"c{self._ids}", job_id, None, 0, definition))
        return job_id

    def recur(self, schedule: dict[str, object], **fields: object) -> str:
        """Send a create of a recurring job; return the job's id."""
        self._ids += 1
        job_id = self._new_id()
        definition = {"schedule": schedule, "target": TARGET, **fields}
        self.send(Command("create", f"c{self._ids}", job_id, None, 0, definition))
        return job_id

    def delete(self, job_id: str) -> str:
        """Send a delete; return the command's id."""
        return self.order("delete", job_id)

    def order(self, kind: str, job_id: str, **fields: object) -> str:
        """Send any command about a job; return the command's id."""
        self._ids += 1
        command_id = f"c{self._ids}"
        full = ids.full_job_id(str(fields.get("tenant_id", "default")), job_id) or job_id
        at = shard_of(full, self.shards)
        self.send(Command(kind, command_id, job_id, reply_partition=0, **fields), at)  # type: ignore[arg-type]
        return command_id

    def order_at(self, shard: int, kind: str, job_id: str, **fields: object) -> None:
        """Send a command to a shard, be it the right one or not."""
        self.send(Command(kind, job_id=job_id, reply_partition=0, **fields), shard)  # type: ignore[arg-type]

    def create_manual(self) -> str:
        """Send a create of a job without a schedule; return the job's id."""
        self._ids += 1
        job_id = self._new_id()
        self.send(Command("create", f"c{self._ids}", job_id, None, 0, {"target": TARGET}))
        return job_id

    def create_keyed(self, definition: dict[str, object]) -> str:
        """Send a create under an idempotency key; return the command's id."""
        self._ids += 1
        command_id = f"c{self._ids}"
        at = shard_of(ids.keyed_job_id("default", str(definition["idempotency_key"])), self.shards)
        self.send(Command("create", command_id, None, None, 0, definition), at)
        return command_id

    def send(self, command: Command, shard: int | None = None) -> None:
        job_id = command.job_id or ""
        at = shard if shard is not None else shard_of(job_id, self.shards)
        self.log.append(COMMANDS, at, job_id, CODEC.encode_command(command))

    def report(self, execution: Execution, kind: str = "SUCCEEDED", **changes: object) -> None:
        """Send a worker's report of a dispatch."""
        error = None if kind == "SUCCEEDED" else AttemptError("status", "answered 500", 500)
        report = AttemptReport(execution.head, execution.head_bytes, kind, "worker-1", 1, 2, error=error)
        shard = shard_of(execution.head.job_id, self.shards)
        self.log.append(REPORTS, shard, execution.head.job_id, CODEC.encode_report(replace(report, **changes)))  # type: ignore[arg-type]

    def executions(self) -> list[Execution]:
        return [CODEC.decode_execution(record.value) for record in self.log.all(executions("default"))]

    def fired(self) -> list[str]:
        """Ids of the jobs whose executions were dispatched, one for each dispatch."""
        return [execution.head.job_id for execution in self.executions()]

    def outcomes(self) -> dict[str, CommandOutcome]:
        found = [CODEC.decode_outcome(record.value) for record in self.log.all(OUTCOMES)]
        return {outcome.command_id: outcome for outcome in found}

    def states(self) -> dict[str, str]:
        """Latest state of each execution that has an event."""
        events = [CODEC.decode_event(record.value) for record in self.log.all(EVENTS)]
        return {event.head.execution_id: event.state for event in events}

    def skipped(self) -> list[tuple[int, int]]:
        """First and last nominal time of each range that an event says is skipped."""
        events = [CODEC.decode_event(record.value) for record in self.log.all(EVENTS)]
        return [(e.head.scheduled_for, e.skipped_upto or e.head.scheduled_for) for e in events if e.state == "SKIPPED"]

    def dead_letters(self) -> list[str]:
        return [CODEC.decode_dead_letter(record.value).kind for record in self.log.all(DEAD_LETTERS)]


def work_of(engine: ShardEngine) -> list[WorkItem]:
    """Return the work of an owner that is under way, which excludes the zone data that it keeps among it."""
    return [item for item in engine.state.work.values() if item.kind != TABLES]
