"""The owner's loop: poll, step every shard, commit once, then write.

It decides nothing: that is the engine's. It has no clock, thread or sleep of its own, so it can be stepped from
outside. Any sign that the process may have lost a shard ends it; its successor starts from the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from tocsin.domain.errors import Refused
from tocsin.domain.instants import DAY, SECOND, Micros
from tocsin.engine.effects import Step
from tocsin.engine.shard_engine import ShardEngine
from tocsin.ports.clock import Clock
from tocsin.ports.meters import TriggerMeter
from tocsin.ports.schedule_store import Completion, ScheduleStore
from tocsin.ports.shard_log import COMMANDS, REPORTS, LogRecord, ShardLog
from tocsin.roles.trigger.takeover import Restored

log = structlog.get_logger()

TRIM_EVERY: Micros = 3_600 * SECOND


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """Bounds of one turn of the loop.

    Attributes:
        commands_max, reports_max: records taken in by one poll.
        commands_waiting_max: commands of a shard read ahead before its partition pauses.
        completions_max: completions of the store taken in by one turn.
        wait_max_s: the longest wait for the first command.
        log_kept_days: applied commands and reports younger than this are kept in the log.
    """

    commands_max: int = 1_000
    reports_max: int = 5_000
    commands_waiting_max: int = 20_000
    completions_max: int = 1_000
    wait_max_s: float = 0.02
    log_kept_days: float = 7.0


@dataclass(slots=True)
class Arrived:
    """What one turn brings to one shard."""

    commands: list[LogRecord] = field(default_factory=list)
    reports: list[LogRecord] = field(default_factory=list)
    completions: list[Completion] = field(default_factory=list)


class TriggerLoop:
    """Drives the engines of all shards that this process owns."""

    def __init__(
        self,
        engines: dict[int, ShardEngine],
        shard_log: ShardLog,
        store: ScheduleStore,
        clock: Clock,
        meter: TriggerMeter,
        limits: LoopLimits,
    ) -> None:
        self._engines = engines
        self._log = shard_log
        self._store = store
        self._clock = clock
        self._meter = meter
        self._limits = limits
        self._paused: set[int] = set()
        self._trimmed_at = clock.now()
        self._wait_s = 0.0
        meter.owned(len(engines))

    def adopt(self, restored: dict[int, Restored]) -> None:
        """Begin the writes that the predecessors may not have finished. Called once, before the first turn."""
        for shard, legacy in restored.items():
            writes = self._engines[shard].adopt_jobs(legacy.jobs, legacy.jobs_end)
            self._store.begin_writes(shard, 0, writes)

    def turn(self) -> None:
        """Do one turn.

        Raises:
            Refused: the process must end; nothing in its memory counts any more.
        """
        polled = self._log.poll(self._wait_s, self._limits.commands_max, self._limits.reports_max)
        if polled.revoked:
            raise Refused("partitions were revoked from this trigger; a successor takes over from the log")
        arrived: dict[int, Arrived] = {shard: Arrived() for shard in self._engines}
        for record in polled.commands:
            arrived[record.partition].commands.append(record)
        for record in polled.reports:
            arrived[record.partition].reports.append(record)
        for completion in self._store.completed(self._limits.completions_max):
            arrived[completion.shard].completions.append(completion)
        now = self._clock.now()
        steps = {
            shard: engine.step(now, arrived[shard].commands, arrived[shard].reports, arrived[shard].completions)
            for shard, engine in self._engines.items()
        }
        self._commit({shard: step for shard, step in steps.items() if step.turn})
        committed_at = self._clock.now()
        self._ask_store(steps)
        self._hold_back()
        self._measure(now, committed_at, steps)
        self._wait_s = self._wait(now, steps)

    def trim(self) -> None:
        """Delete commands and reports that are applied and old; done now and then, for the log keeps them otherwise."""
        now = self._clock.now()
        if now < self._trimmed_at + TRIM_EVERY:
            return
        self._trimmed_at = now
        older_than = now - int(self._limits.log_kept_days * DAY)
        for shard, engine in self._engines.items():
            self._log.trim(COMMANDS, shard, engine.state.commands_offset, older_than)
            self._log.trim(REPORTS, shard, engine.state.reports_offset, older_than)

    def _commit(self, steps: dict[int, Step]) -> None:
        """Commit first, index after: the store only ever learns of what is decided for good."""
        if not steps:
            return
        jobs_ends = self._log.commit([self._engines[shard].turn(step) for shard, step in steps.items()])
        for shard, step in steps.items():
            writes = self._engines[shard].committed(step, jobs_ends.get(shard))
            if step.snapshots:
                self._store.begin_writes(shard, step.number, writes)

    def _ask_store(self, steps: dict[int, Step]) -> None:
        for shard, step in steps.items():
            for minute in step.bucket_reads:
                self._store.begin_bucket_read(shard, minute)
            for job_id in step.job_reads:
                self._store.begin_job_read(shard, job_id)

    def _hold_back(self) -> None:
        """Pause a shard's commands while too many wait, and resume at half: pausing drops what was prefetched."""
        for shard, engine in self._engines.items():
            waiting = engine.commands_waiting
            if shard not in self._paused and waiting > self._limits.commands_waiting_max:
                self._log.pause(shard)
                self._paused.add(shard)
            elif shard in self._paused and waiting <= self._limits.commands_waiting_max // 2:
                self._log.resume(shard)
                self._paused.discard(shard)

    def _wait(self, now: Micros, steps: dict[int, Step]) -> float:
        """Return how long the next poll may wait: until the next entry is due, and not at all while work is at hand."""
        busy = any(step.dispatched or step.tally.commands or step.tally.reports for step in steps.values())
        if busy:
            return 0.0
        wake = min((engine.next_wake(now) for engine in self._engines.values()), default=now)
        return min(self._limits.wait_max_s, max(0.0, (wake - self._clock.now()) / SECOND))

    def _measure(self, now: Micros, committed_at: Micros, steps: dict[int, Step]) -> None:
        meter = self._meter
        if any(step.turn for step in steps.values()):
            meter.turn((committed_at - now) / SECOND)
        for shard, step in steps.items():
            if not step.turn:
                continue
            tally = step.tally
            engine = self._engines[shard]
            if tally.lateness:
                meter.fired(shard, [(late + committed_at - now) / SECOND for late in tally.lateness])
            for kind, accepted in tally.commands:
                meter.command_decided(kind, accepted)
            for state, count in tally.completed.items():
                meter.completed(state, count)
            meter.stale_reports(tally.stale_reports)
            meter.redelivered(tally.redelivered)
            for kind, count in tally.dead_letters.items():
                meter.dead_letters(kind, count)
            meter.cursor_age(shard, max(0.0, (now - engine.state.cursor.run_at) / SECOND))
            meter.unwritten_turns(shard, engine.unwritten_turns)
