"""A cluster in memory, driven step by step: the real loop, engine, takeover and codec on fakes."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import CollectorRegistry

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.memory.schedule_store import MemoryScheduleStore, MemoryTables
from tocsin.adapters.memory.shard_log import MemoryLog, MemoryShardLog, MemoryTakeover
from tocsin.adapters.metrics import PrometheusMeter
from tocsin.domain import ids
from tocsin.domain.commands import Command, CommandOutcome
from tocsin.domain.executions import AttemptError, AttemptReport, Execution
from tocsin.domain.instants import SECOND, format_rfc3339
from tocsin.domain.sharding import shard_of
from tocsin.engine.shard_engine import EngineLimits, Lanes, ShardEngine
from tocsin.ports.shard_log import COMMANDS, DEAD_LETTERS, EVENTS, OUTCOMES, REPORTS, executions
from tocsin.roles.trigger.loop import LoopLimits, TriggerLoop
from tocsin.roles.trigger.takeover import ClusterFacts, take_over
from tocsin.testing import SettableClock

CODEC = AvroCodec()
TARGET = {"type": "http", "url": "https://example.test/run"}


class World:
    """One cluster. ``start`` makes a new owner, which takes over from whoever was there; a crash needs no call."""

    def __init__(self, shards: int = 2, limits: EngineLimits | None = None) -> None:
        self.clock = SettableClock()
        self.log = MemoryLog(self.clock)
        self.tables = MemoryTables()
        self.shards = shards
        self.limits = limits or EngineLimits()
        self.starts = 0
        self._ids = 0
        self.loop: TriggerLoop
        self.store: MemoryScheduleStore
        self.engines: dict[int, ShardEngine]

    def start(self) -> TriggerLoop:
        self.starts += 1
        owner = f"owner-{self.starts}"
        restored = take_over(
            MemoryTakeover(self.log), range(self.shards), CODEC, ClusterFacts(1, self.shards), self.clock.now()
        )
        self.engines = {
            shard: ShardEngine(legacy.state, owner, CODEC, Lanes({"default": 4}, 2), self.limits, 1)
            for shard, legacy in restored.items()
        }
        shard_log = MemoryShardLog(self.log, owner)
        shard_log.begin({s: (e.state.commands_offset, e.state.reports_offset) for s, e in self.engines.items()})
        self.store = MemoryScheduleStore(self.tables)
        meter = PrometheusMeter(CollectorRegistry())
        self.loop = TriggerLoop(self.engines, shard_log, self.store, self.clock, meter, LoopLimits())
        self.loop.adopt(restored)
        return self.loop

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

    def create(self, *, in_s: float | None = None, at: int | None = None, job_id: str | None = None) -> str:
        """Send a create; return the job's id."""
        self._ids += 1
        job_id = job_id or ids.made_job_id(f"{self._ids:032x}")
        run_at = at if at is not None else self.clock.now() + round((in_s or 0) * SECOND)
        definition = {"run_at": format_rfc3339(run_at), "target": TARGET}
        self.send(Command("create", f"c{self._ids}", job_id, None, 0, definition))
        return job_id

    def delete(self, job_id: str) -> str:
        """Send a delete; return the command's id."""
        self._ids += 1
        command_id = f"c{self._ids}"
        self.send(Command("delete", command_id, job_id, None, 0))
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

    def dead_letters(self) -> list[str]:
        return [CODEC.decode_dead_letter(record.value).kind for record in self.log.all(DEAD_LETTERS)]
