"""A worker in a world of memory: one lane, its reports, its targets, and a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tocsin.adapters.avro.codec import AvroCodec
from tocsin.adapters.memory.cancel_log import MemoryCancelLog
from tocsin.adapters.memory.dispatch_log import MemoryDispatchLog, MemoryLane
from tocsin.adapters.memory.report_sink import MemoryReportSink
from tocsin.adapters.memory.targets import MemoryTargetRunner
from tocsin.domain.executions import AttemptHead, AttemptReport, dispatch_key
from tocsin.domain.fleet import Cancel
from tocsin.domain.ids import execution_id
from tocsin.domain.targets import HttpTarget, MessageTarget, Target
from tocsin.engine.offset_metadata import Marks, decode_marks
from tocsin.roles.worker import WorkerLimits, WorkerLoop

CODEC = AvroCodec()
LIMITS = WorkerLimits(running_max=4, tenant_running_max=1_000, read_ahead_records_max=20)


class HandClock:
    """Seconds and microseconds that pass only when told."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now(self) -> int:
        return int(self.seconds * 1_000_000)

    def monotonic_s(self) -> float:
        return self.seconds


class CountingMeter:
    """Fulfils ``WorkerMeter``; remembers what was counted."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def _add(self, name: str, count: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + count

    def started(self, first: int, redelivered: int) -> None:
        self._add("first", first)
        self._add("redelivered", redelivered)

    def finished(self, kind: str, durations_s: Sequence[float]) -> None:
        self._add(f"finished {kind}", len(durations_s))

    def reported(self, count: int) -> None:
        self._add("reported", count)

    def leased(self, count: int) -> None:
        self._add("leased", count)

    def returned(self, reason: str, count: int) -> None:
        self._add(f"returned {reason}", count)

    def breakers(self, count: int) -> None:
        self.counts["breakers"] = count

    def running(self, count: int) -> None:
        self.counts["running"] = count

    def unsettled(self, count: int) -> None:
        self.counts["unsettled"] = count

    def commit(self, duration_s: float, refused: bool) -> None:
        self._add("refused" if refused else "commits")

    def undecodable(self) -> None:
        self._add("undecodable")


class HandoverSink(MemoryReportSink):
    """A sink whose waits make time pass, as real ones do."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__()
        self._clock = clock

    def acknowledged(self, wait_s: float) -> list[Any]:
        self._clock.seconds += wait_s
        return super().acknowledged(wait_s)


class Worker:
    """One worker process."""

    def __init__(self, world: World, name: str, limits: WorkerLimits, runner: MemoryTargetRunner | None = None) -> None:
        self.name = name
        self.log = MemoryDispatchLog(world.lane)
        self.runner = runner or MemoryTargetRunner(world.clock)
        self.sink = HandoverSink(world.clock)
        self.meter = CountingMeter()
        self.loop = WorkerLoop(
            name,
            {"default": self.log},
            self.runner,
            self.sink,
            CODEC,
            world.clock,
            world.clock.monotonic_s,
            self.meter,
            limits,
            MemoryCancelLog(world.cancels),
        )
        self.loop.join()

    def steps(self, count: int = 1) -> None:
        for _ in range(count):
            self.loop.step()

    def must_recycle(self) -> bool:
        return self.loop.must_recycle

    def is_drained(self) -> bool:
        return self.loop.is_drained

    @property
    def started(self) -> list[str]:
        return [attempt.execution.head.job_id for attempt in self.runner.started]

    def finish(self, job: str, **end: Any) -> None:
        """End the running attempts of a job."""
        self.runner.finish(*[a for a in self.runner.running if a.execution.head.job_id == job], **end)

    def drain(self, count: int = 1) -> None:
        for _ in range(count):
            self.loop.drain()

    @property
    def running(self) -> list[str]:
        return [attempt.execution.head.job_id for attempt in self.runner.running]

    @property
    def said(self) -> list[tuple[str, str, str | None]]:
        """Job, kind and reason of every durable report."""
        return [(r.head.job_id, r.kind, r.reason) for r in self.reports]

    @property
    def redelivered(self) -> list[str]:
        return [attempt.execution.head.job_id for attempt in self.runner.started if attempt.redelivered]

    @property
    def reports(self) -> list[AttemptReport]:
        return [CODEC.decode_report(sent.report) for sent in self.sink.log]


class World:
    """The lane and the time that all workers share."""

    def __init__(self, partitions: int = 1, **limits: Any) -> None:
        self.clock = HandClock()
        self.lane = MemoryLane(partitions)
        self.cancels: list[Cancel] = []
        self.limits = replace(LIMITS, **limits)

    def worker(self, name: str = "w1") -> Worker:
        return Worker(self, name, self.limits)

    def dispatch(
        self,
        *names: str,
        partition: int = 0,
        timeout_s: float = 30.0,
        losses: int = 0,
        token: int = 3,
        tenant: str = "acme",
        url: str = "http://target.test/",
    ) -> None:
        for name in names:
            self._write(name, HttpTarget(url, timeout_s=timeout_s), partition, losses, token, tenant)

    def dispatch_message(self, name: str) -> None:
        self._write(name, MessageTarget("orders"), partition=0, losses=0, token=3)

    def _write(self, name: str, target: Target, partition: int, losses: int, token: int, tenant: str = "acme") -> None:
        identity = execution_id(name, 7, 5_000_000)
        head = AttemptHead(1, token, losses, identity, name, tenant, 7, 5_000_000, 5_000_000)
        key = dispatch_key(tenant, identity, 1, token).encode()
        self.lane.append(partition, key, CODEC.encode_execution(head, target))

    def marks(self, partition: int = 0) -> Marks:
        return decode_marks(self.lane.committed[partition][1])

    def offset(self, partition: int = 0) -> int:
        return self.lane.committed[partition][0]
