"""Ends many jobs by one command: those that are at their end, and those that were finished long enough ago.

What ends in a turn travels together, in one command of the owner to itself, and is decided behind everything that
somebody waits for: job by job, as their rows come, a bounded share in each step, and behind a flood of reports. The
item that holds them needs no progress of its own: a job that was decided has another version, and is left alone by
whoever begins anew.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import Final

from tocsin.domain.commands import CommandKind, OutcomeDetail
from tocsin.domain.errors import Undecodable
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.recurrence import CronError
from tocsin.domain.shard_records import EndNote, WorkItem
from tocsin.engine.catch_up import HasJobs
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.job_commands import Answer, Order
from tocsin.engine.job_ends import JobEnds
from tocsin.engine.job_rows import JobRows
from tocsin.engine.outbox import Outbox
from tocsin.engine.own_commands import OwnNote
from tocsin.engine.suspects import JOB, Suspect
from tocsin.engine.work import Progress, Room, Work

KIND: Final = "ended_jobs"
ROWS: Final = "ended jobs: a row"
NEXT: Final = "ended jobs: the end of an item"
AT_HAND_MAX: Final = 128
"""So many jobs are looked at in a step, and so many rows of them are read at once. Nobody waits for them, and what is
due must not be late for them."""
FLOOD: Final = 16
"""Where so many executions of a shard end in a step, more are on their way, and somebody waits for their events."""
FLOOD_MAX: Final[Micros] = 10 * SECOND
"""So long ends of jobs give way to a flood; then they have their share in each step, however long it lasts."""
GIVES_WAY: Final[Micros] = SECOND // 4
"""A flood is over where none was seen for so long."""
LOOK_AGAIN: Final[Micros] = SECOND
"""How long an item rests while the store has very much to write, or while commands of its jobs are parked."""


@dataclass(slots=True)
class _Left:
    """What is left of an item."""

    version: int
    """Of the command: what becomes of the jobs has it."""
    at: Micros
    jobs: deque[EndNote]


class EndedJobs:
    """The jobs of one shard whose ends are to be decided."""

    def __init__(
        self, work: Work, ends: JobEnds, rows: JobRows, outbox: Outbox, dispatches: DispatchDesk, unwritten_max: int
    ) -> None:
        self._work = work
        self._ends = ends
        self._rows = rows
        self._outbox = outbox
        self._dispatches = dispatches
        self._unwritten_max = unwritten_max
        self._left: dict[str, _Left] = {}
        """By item, the oldest first; read from the item where nothing is known of it."""
        self._flood_since: Micros = 0
        self._flood_at: Micros = 0
        """When a flood began, and when it was seen last."""
        self._parking: HasJobs | None = None
        work.register(KIND, self)

    def stand_behind(self, parking: HasJobs) -> None:
        """Decide nothing of a job whose commands are parked: they may stand before ours in the log, and would make a
        version that is older than what we made."""
        self._parking = parking

    def begin(self, step: Step, order: Order, note: OwnNote) -> Answer:
        """Decide of each job of a command, from this step on."""
        data = {"version": order.version, "at": order.at, "jobs": note.jobs}
        self._work.begin(step, KIND, None, json.dumps(data, separators=(",", ":")))
        return Answer(True, OutcomeDetail.BEGUN)

    def row_read(self) -> None:
        """The row of some job has come."""
        self._work.wake(ROWS)

    def job_changed(self, step: Step, item: WorkItem, job: Job) -> bool:
        return True

    def go_on(self, step: Step, item: WorkItem, room: Room) -> Progress:
        if self._outbox.bytes >= self._unwritten_max:
            room.take()
            return Progress(item, step.now + LOOK_AGAIN)
        if self._gives_way(step.now):
            room.take()
            return Progress(item, step.now + GIVES_WAY)
        left = self._left.get(item.id) or self._left.setdefault(item.id, _read(item))
        if self._oldest() != item.id:
            room.take()
            return Progress(item, waits_for=NEXT)
        unread: list[EndNote] = []
        parked: list[EndNote] = []
        decided = 0
        while left.jobs and decided + len(unread) < AT_HAND_MAX and not room.used_up:
            note = left.jobs.popleft()
            if self._parking is not None and self._parking.has(note.job_id):
                parked.append(note)
            elif self._is_at_hand(step, note.job_id):
                before = len(step.jobs)
                self._decide(step, note, left)
                room.take(sum(len(record.value or b"") for record in step.jobs[before:]))
                decided += 1
                step.turn = True
            else:
                unread.append(note)
        left.jobs.extendleft(reversed(unread))
        left.jobs.extend(parked)
        if not left.jobs:
            del self._left[item.id]
            self._work.wake(NEXT)
            return Progress(None)
        if decided or room.used_up:
            return Progress(item)
        room.take()
        return Progress(item, step.now + LOOK_AGAIN) if parked else Progress(item, waits_for=ROWS)

    def note_ended(self, step: Step) -> None:
        """Note that much ends, if so: to be called in each step, before work goes on."""
        if len(step.ended) >= FLOOD:
            if step.now - self._flood_at > GIVES_WAY:
                self._flood_since = step.now
            self._flood_at = step.now

    def _gives_way(self, now: Micros) -> bool:
        """Tell whether ends of jobs wait for a flood to be over."""
        return now - self._flood_at <= GIVES_WAY and now - self._flood_since < FLOOD_MAX

    def _oldest(self) -> str:
        """Return the item that goes on: one at a time, so that what is read and decided at once has a bound."""
        while not self._work.has(oldest := next(iter(self._left))):
            del self._left[oldest]
        return oldest

    def _is_at_hand(self, step: Step, job_id: str) -> bool:
        """Tell whether it is known what a job is now; its row is asked for where it is not."""
        if self._outbox.job(job_id) is not None or self._rows.get(job_id) is not None:
            return True
        if not self._rows.is_asked(job_id):
            self._rows.ask(job_id, step.now, aside=True)
            step.job_reads.append(job_id)
        return False

    def _decide(self, step: Step, note: EndNote, left: _Left) -> None:
        job, row = self._outbox.job(note.job_id), self._rows.get(note.job_id)
        if job is None and row is not None:
            job = row.job
            if row.damage is not None:
                self._dispatches.tell_of_job(step, note.job_id, f"has a damaged row: {row.damage}")
        if job is None or job.version != note.version or job.state is JobState.DELETED:
            return
        step.at_hand, mark = Suspect(JOB, note.job_id), step.mark()
        try:
            finishes = note.kind == CommandKind.FINISH
            (self._ends.finish if finishes else self._ends.remove)(step, job, left.version, left.at)
        except (CronError, Undecodable, ValueError, TypeError, KeyError, ArithmeticError) as error:
            # No job may keep the others from their ends.
            step.back_to(mark)
            self._dispatches.tell_of_job(step, note.job_id, f"cannot be ended: {type(error).__name__}: {error}"[:1000])
        if self._outbox.job(note.job_id) is not None:
            self._rows.forget(note.job_id)


def _read(item: WorkItem) -> _Left:
    data = json.loads(item.data)
    return _Left(data["version"], data["at"], deque(EndNote(*note) for note in data["jobs"]))
