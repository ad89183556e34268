"""Runs what was missed, one occurrence after another, oldest first, at a bounded rate, behind what is due in time.

What a job has missed is one work item, begun in the turn that decided it; the turn that dispatches an occurrence also
moves the item past it, so each is decided exactly once, whoever owns the shard. Under every policy of overlap but
``allow`` an occurrence waits for the end of what its job has active, instead of being skipped or taking its place: a
run that is late may as well be a little later. Under ``queue`` it stands behind with all others, once there is room.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from tocsin.domain.catch_up import SkipReason
from tocsin.domain.entries import Entry
from tocsin.domain.firing import plan_of
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.shard_records import WorkItem
from tocsin.engine.actives import shared_by
from tocsin.engine.alerts import tell_if_late
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.overlap import REFUSED, Overlaps, Way
from tocsin.engine.successors import Successors, with_first
from tocsin.engine.work import Progress, Room, Work, end_of_work
from tocsin.ports.codec import ExecutionCodec

KIND: Final = "catch_up"
LOOK_AGAIN: Final[Micros] = SECOND
"""How long a backlog sleeps while commands of its job are parked."""
BACKLOGS_MAX: Final = 16
"""Of one job; what is missed while it has so many is not run."""
ENDED_BY: Final = {
    JobState.ACTIVE: SkipReason.UPDATED,
    JobState.PAUSED: SkipReason.PAUSED,
    JobState.DELETED: SkipReason.DELETED,
}
"""What a new version of a job says of what its former one has not caught up with. A job that finishes goes on."""


@dataclass(frozen=True, slots=True)
class CatchUpLimits:
    """How fast missed occurrences are run.

    Attributes:
        per_s: of a shard, each second.
        job_per_s: of a job, each second.
    """

    per_s: float = 100.0
    job_per_s: float = 10.0


class HasJobs(Protocol):
    """What knows of jobs that something is the matter with: here, that their commands are parked."""

    def has(self, job_id: str) -> bool: ...


class Missed(NamedTuple):
    """What a job has missed.

    Attributes:
        entry: a row of the oldest.
        upto: the last instant at which one may be.
        left: how many are run at most.
        rest: why those beyond are not.
    """

    entry: Entry
    upto: Micros
    left: int
    rest: SkipReason


class CatchUps:
    """The backlogs of one shard."""

    def __init__(
        self,
        work: Work,
        dispatches: DispatchDesk,
        overlaps: Overlaps,
        successors: Successors,
        codec: ExecutionCodec,
        limits: CatchUpLimits,
    ) -> None:
        self._codec = codec
        self._work = work
        self._dispatches = dispatches
        self._overlaps = overlaps
        self._successors = successors
        self._spacing = round(SECOND / limits.per_s)
        self._job_spacing = round(SECOND / limits.job_per_s)
        self._next_slot: Micros = 0
        """When the shard may run another; each item that may go on is given a slot, and sleeps until then."""
        self._slots: dict[str, Micros] = {}
        self._parking: HasJobs | None = None
        work.register(KIND, self)

    def stand_behind(self, parking: HasJobs) -> None:
        """Run nothing of a job whose commands are parked: they are decided first."""
        self._parking = parking

    def is_up_to_date(self, entry: Entry) -> bool:
        """Tell whether the job of an entry has nothing to catch up with."""
        return not self._work.of_job(entry.job_id, KIND)

    def begin(self, step: Step, backlog: Missed) -> None:
        """Catch up with what a job has missed, from the step that decides it on."""
        job_id = backlog.entry.job_id
        if len(self._work.of_job(job_id, KIND)) >= BACKLOGS_MAX:
            self._skip(step, backlog.entry, backlog.upto, SkipReason.MAX_CATCH_UP)
        else:
            self._work.begin(step, KIND, job_id, _written(backlog))

    def go_on(self, step: Step, item: WorkItem, room: Room) -> Progress:
        """Run the next missed occurrence, once its turn has come."""
        if self._work.of_job(item.job_id or "", KIND)[0].id != item.id:
            room.take()
            return Progress(item, waits_for=end_of_work(item.job_id))
        backlog = _read(item)
        entry = backlog.entry
        if self._parking is not None and self._parking.has(entry.job_id):
            room.take()
            return Progress(item, step.now + LOOK_AGAIN)
        way = self._overlaps.look(entry.execution_id, plan_of(entry.plan).overlap)
        if way in REFUSED:
            self._slots.pop(item.id, None)
            room.take()
            return Progress(item, waits_for=shared_by(entry.execution_id))
        slot = self._slots.get(item.id)
        if slot is None:
            slot = self._slots[item.id] = max(self._next_slot, step.now)
            self._next_slot = slot + self._spacing
        if slot > step.now:
            room.take()
            return Progress(item, slot)
        return self._run(step, item, backlog, room, way)

    def job_changed(self, step: Step, item: WorkItem, job: Job) -> bool:
        """End a backlog with its version of the job, and say what of it is not run."""
        reason = ENDED_BY.get(job.state)
        if reason is None:
            return True
        backlog = _read(item)
        self._skip(step, backlog.entry, backlog.upto, reason)
        self._slots.pop(item.id, None)
        return False

    def _run(self, step: Step, item: WorkItem, backlog: Missed, room: Room, way: Way) -> Progress:
        """Dispatch the oldest of a backlog, or let it stand behind what is active."""
        entry = backlog.entry
        following = self._successors.plan(entry.plan).next_after(entry.scheduled_for)
        rest = None
        if following is not None and following <= backlog.upto:
            rest = self._successors.row(entry, following)
        plan = plan_of(entry.plan)
        if plan.alert_on:
            tell_if_late(step, entry, plan)
        if way is Way.BEHIND:
            size = self._overlaps.put_behind(step, entry.execution_id, entry.execution)
        else:
            stamp, duration = self._codec.stamp(1, step.number, 0), plan.max_duration
            size = self._dispatches.fire(
                step, stamp, entry.tenant_id, entry.job_id, entry.execution_id, entry.lane, entry.execution, duration
            )
        step.turn = True
        room.take(size)
        del self._slots[item.id]
        if rest is not None and backlog.left > 1:
            data = _written(backlog._replace(entry=rest, left=backlog.left - 1))
            return Progress(item._replace(data=data), step.now + self._job_spacing)
        if rest is not None:
            self._skip(step, rest, backlog.upto, backlog.rest)
        return Progress(None)

    def _skip(self, step: Step, oldest: Entry, upto: Micros, reason: SkipReason) -> None:
        """Publish that an occurrence and those after it, up to an instant, are not run."""
        plan, first = self._successors.plan(oldest.plan), oldest.scheduled_for
        passed = with_first(first, self._successors.passed(plan, first, upto, step.now))
        self._dispatches.skip_range(step, oldest.execution, passed, reason, plan.alert_on)


def _written(backlog: Missed) -> str:
    """Return a backlog as an item's data. The row's place follows from what is kept."""
    entry = backlog.entry
    return json.dumps(
        {
            "oldest": entry.scheduled_for,
            "upto": backlog.upto,
            "left": backlog.left,
            "rest": backlog.rest,
            "version": entry.version,
            "execution_id": entry.execution_id,
            "tenant_id": entry.tenant_id,
            "lane": entry.lane,
            "plan": entry.plan,
            "execution": b64encode(entry.execution).decode(),
        },
        separators=(",", ":"),
    )


def _read(item: WorkItem) -> Missed:
    data: dict[str, Any] = json.loads(item.data)
    entry = Entry(
        data["oldest"],
        item.job_id or "",
        data["oldest"],
        data["version"],
        data["execution_id"],
        data["tenant_id"],
        data["lane"],
        b64decode(data["execution"]),
        data["plan"],
    )
    return Missed(entry, data["upto"], data["left"], SkipReason(data["rest"]))
