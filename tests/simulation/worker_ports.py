"""What a simulated worker stands on: its lane's group, its reports, and targets that behave as a script says."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.domain.fleet import Cancel
from tocsin.domain.sharding import shard_of
from tocsin.ports.dispatch_log import AssignmentListener, CommitOutcome, Delivery, Mark, Start
from tocsin.ports.shard_log import REPORTS, WORKER_CONTROL, executions
from tocsin.ports.targets import Attempt, AttemptEnd

if TYPE_CHECKING:
    from tests.simulation.nodes import WorkerNode

LANE = executions("default")


class Membership:
    """One stay of a worker in its group; a new one has nothing of the old."""


class SimDispatchLog:
    """Fulfils ``ports.dispatch_log.DispatchLog``."""

    def __init__(self, node: WorkerNode) -> None:
        self._node = node
        self._group = node.world.workers
        self._stay = Membership()
        self._listener: AssignmentListener | None = None
        self._positions: dict[int, int] = {}
        self._paused: set[int] = set()

    @property
    def stay(self) -> Membership:
        return self._stay

    def join(self, listener: AssignmentListener) -> None:
        self._listener = listener
        self._group.enter(self._stay)

    def poll(self, limit: int, wait_s: float) -> list[Delivery]:
        self._node.point("poll")
        self._reconcile()
        found: list[Delivery] = []
        for number, position in list(self._positions.items()):
            if number in self._paused or len(found) >= limit:
                continue
            records, after = self._node.world.broker.partition(LANE, number).read(position, limit - len(found))
            self._positions[number] = after
            found += [Delivery(number, record.offset, record.key, record.value) for record in records]
        return found

    def _reconcile(self) -> None:
        listener, group = self._listener, self._group
        assert listener is not None
        if not group.is_member(self._stay):
            lost = list(self._positions)
            self._positions.clear()
            self._stay = Membership()
            group.enter(self._stay)
            listener.lost(lost)
        group.catch_up(self._stay)
        going = [p for p in group.to_give_up(self._stay) if p in self._positions]
        if going:
            self._give_up(going)
        if group.is_member(self._stay):
            self._begin(group.take(self._stay))

    def _begin(self, partitions: list[int]) -> None:
        starts = []
        for number in partitions:
            offset, metadata = self._group.committed.get(number, (None, ""))
            self._positions[number] = offset or 0
            self._paused.discard(number)
            end = self._node.world.broker.partition(LANE, number).stable_end() if offset is None else 0
            starts.append(Start(number, offset, metadata, end))
        if starts:
            assert self._listener is not None
            self._listener.assigned(starts)

    def _give_up(self, partitions: Sequence[int]) -> None:
        assert self._listener is not None
        self._listener.revoked(partitions)
        for number in partitions:
            self._positions.pop(number, None)
        if self._group.is_member(self._stay):
            self._group.give_up(partitions)

    def commit(self, marks: Sequence[Mark]) -> CommitOutcome:
        if not marks:
            return CommitOutcome.ACCEPTED
        self._node.point("mark")
        fault = self._node.take_commit_fault()
        if fault is None:
            outcome = self._group.write(self._stay, marks)
            self._node.point("marked")
            return outcome
        self._node.world.tell(f"{self._node.name}: an offset commit is {fault}")
        if fault == "refused":
            return CommitOutcome.REFUSED
        if fault == "unknown, done":
            self._group.write(self._stay, marks)
        elif fault == "unknown, late":
            self._group.delay(self._stay, marks)
        return CommitOutcome.UNKNOWN

    def pause(self, partitions: Collection[int]) -> None:
        self._paused.update(partitions)

    def resume(self, partitions: Collection[int]) -> None:
        self._paused.difference_update(partitions)

    def rejoin(self) -> None:
        listener = self._listener
        assert listener is not None
        self.close()
        self.join(listener)

    def close(self) -> None:
        assert self._listener is not None
        held = list(self._positions)
        if held and self._group.is_member(self._stay):
            self._listener.revoked(held)
        elif held:
            self._listener.lost(held)
        self._positions.clear()
        self._group.leave(self._stay)
        self._stay = Membership()


class SentReport(NamedTuple):
    """A report under way."""

    ref: Any
    job_id: str
    value: bytes


class SimReportSink:
    """Fulfils ``ports.report_sink.ReportSink``: reports are appended in order, and acknowledged later."""

    def __init__(self, node: WorkerNode) -> None:
        self._node = node
        self._under_way: deque[SentReport] = deque()
        self._appended: list[Any] = []

    def send(self, ref: Any, job_id: str, report: bytes) -> None:
        self._node.point("report")
        self._under_way.append(SentReport(ref, job_id, report))

    def acknowledged(self, wait_s: float) -> list[Any]:
        if not self._under_way and not self._appended:
            return []
        self._node.point("acknowledged")
        world = self._node.world
        if world.reports_mood == "held":
            if world.chance.random() < 0.05:
                self._append(1)
            return []
        slow = world.reports_mood == "slow"
        self._append(world.chance.randrange(3) if slow else len(self._under_way))
        if slow and world.chance.random() < 0.5:
            return []
        acknowledged, self._appended = self._appended, []
        return acknowledged

    def _append(self, count: int) -> None:
        world = self._node.world
        for _ in range(min(count, len(self._under_way))):
            ref, job_id, value = self._under_way.popleft()
            world.broker.append(REPORTS, shard_of(job_id, world.shards), job_id.encode(), value)
            self._appended.append(ref)

    def close(self, wait_s: float) -> None:
        if self._node.world.reports_mood != "held":
            self._append(len(self._under_way))

    def die(self) -> None:
        """The process is gone; what it had handed to the network may still arrive."""
        self._append(self._node.world.chance.randrange(len(self._under_way) + 1))
        self._under_way.clear()


class SimCancelLog:
    """Fulfils ``ports.cancel_log.CancelLog``.

    Attributes:
        told: by execution, up to which token this worker was told not to start it.
    """

    def __init__(self, node: WorkerNode) -> None:
        self._world = node.world
        self._position = 0
        self.told: dict[str, int] = {}

    def load(self) -> list[Cancel]:
        return self.poll(1_000_000)

    def poll(self, limit: int) -> list[Cancel]:
        records, self._position = self._world.broker.partition(WORKER_CONTROL, 0).read(self._position, limit)
        cancels = [self._world.codec.decode_cancel(record.value) for record in records]
        for cancel in cancels:
            self.told[cancel.execution_id] = max(cancel.token, self.told.get(cancel.execution_id, -1))
        return cancels

    def close(self) -> None:
        """Nothing is held."""


class Script(NamedTuple):
    """How an attempt goes."""

    lasts_s: float
    kind: ReportKind
    stubborn: bool
    """It cannot be cancelled."""


def script_of(seed: int, execution_id: str, attempt: int, token: int) -> Script:
    """Return how a dispatch's attempt goes: the same in every replay."""
    draw = zlib.crc32(f"{seed}/{execution_id}/{attempt}/{token}".encode())
    lasts_s = (0, 0, 0, 0, 0.3, 1.5, 4.0, 7.0, 9.0, 40.0)[draw % 10]
    kind = (ReportKind.SUCCEEDED, ReportKind.SUCCEEDED, ReportKind.FAILED)[draw // 10 % 3]
    return Script(lasts_s, kind, draw // 30 % 8 == 0)


class SimRunner:
    """Fulfils ``ports.targets.TargetRunner``."""

    def __init__(self, node: WorkerNode) -> None:
        self._node = node
        self._running: dict[int, tuple[Attempt, Script, float, int]] = {}
        self._ended: list[AttemptEnd] = []

    def start(self, attempts: Sequence[Attempt]) -> None:
        node = self._node
        for attempt in attempts:
            node.point("start")
            head = attempt.execution.head
            node.world.started(node, attempt)
            script = script_of(node.world.seed, head.execution_id, head.attempt, head.token)
            timeout_s = attempt.execution.target.timeout_s  # type: ignore[union-attr]
            if script.lasts_s > timeout_s and not script.stubborn:
                script = Script(timeout_s, ReportKind.TIMED_OUT, False)
            until_s = node.machine.monotonic_s() + script.lasts_s
            self._running[id(attempt.ref)] = (attempt, script, until_s, node.machine.now())

    def ended(self) -> list[AttemptEnd]:
        now_s = self._node.machine.monotonic_s()
        for name, (attempt, script, until_s, started_at) in list(self._running.items()):
            if until_s <= now_s:
                del self._running[name]
                self._end(attempt, script.kind, started_at)
        ended, self._ended = self._ended, []
        return ended

    def _end(self, attempt: Attempt, kind: ReportKind, started_at: int) -> None:
        error = None if kind is ReportKind.SUCCEEDED else AttemptError("status", "answered 500", 500)
        head, world = attempt.execution.head, self._node.world
        draw = zlib.crc32(f"{world.seed}/{head.execution_id}/{head.attempt}".encode())
        if kind is ReportKind.FAILED and draw % 2:
            error = AttemptError("connection_refused", "nobody listens")
            world.oracle.ends.reached_nobody(head.execution_id)
        self._ended.append(AttemptEnd(attempt.ref, kind, started_at, self._node.machine.now(), error))

    def cancel(self, refs: Sequence[Any]) -> None:
        for ref in refs:
            found = self._running.get(id(ref))
            if found is not None and not found[1].stubborn:
                del self._running[id(ref)]
                self._end(found[0], ReportKind.CANCELLED, found[3])

    def close(self) -> None:
        self._running.clear()
