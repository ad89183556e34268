"""The oracle's own idea of jobs: what commands make of them, and which occurrences are owed.

It is written from the contract, not from the engine; only the evaluation of schedules is the domain's, which has its
own oracle elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any, Final

from tests.simulation.broker import Violation
from tests.simulation.ends import Ends
from tests.simulation.known_job import (
    CLOCKS_APART,
    EPOCH,
    SHARDS,
    TOLD_BY_COMMANDS,
    Asked,
    Cursors,
    Known,
    Refusal,
    times_of,
)
from tests.simulation.overlaps import Overlaps
from tests.simulation.zoned_jobs import ZoneChanges, edit_late, give_way, move
from tocsin.domain import ids
from tocsin.domain.catch_up import CatchUp, SkipReason
from tocsin.domain.commands import CommandOutcome, OutcomeDetail
from tocsin.domain.definitions import JobDefinition, parse, to_mapping, within_group
from tocsin.domain.entries import Place
from tocsin.domain.errors import InvalidInput
from tocsin.domain.executions import AttemptHead, ExecutionEvent
from tocsin.domain.firing import plan_of, plan_text
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.policies import Overlap
from tocsin.domain.schedules import Delay, RunAt, one_off_at
from tocsin.domain.sharding import shard_of

WAYS: Final = {"overlap": "taken", "queue_full": "full"}
"""Of an occurrence that is skipped for what is active: its way, by the reason."""


class Jobs:
    """All jobs that commands have made."""

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self._of: defaultdict[int, list[Known]] = defaultdict(list)
        self.zones = ZoneChanges(self._of)
        self._decided_by: dict[tuple[str, int], int] = {}
        """By job and shard: the offset of the last command that was decided about it."""
        self._latest: dict[int, Micros] = {}
        """By shard: the latest instant of any of its turns; an owner may be behind its predecessor's work."""
        self._fired_late: dict[str, tuple[Micros, bool]] = {}
        """By job: the instant of the last turn that fired it, and whether that was beyond its patience."""

    def definition_of(self, job_id: str) -> dict[str, Any] | None:
        known = self.known.get(ids.full_job_id(ids.DEFAULT_TENANT, job_id) or "")
        return None if known is None else known.body

    def version_of(self, job_id: str) -> int:
        known = self.known.get(ids.full_job_id(ids.DEFAULT_TENANT, job_id) or "")
        return 7 if known is None else known.version

    # Commands

    def answered(self, asked: Asked, outcome: CommandOutcome, cursors: Cursors, ends: Ends, now: Micros) -> str | None:
        """A command was decided: it must have been decided so. Returns the execution that it dispatches, if any."""
        job_id, command = outcome.job_id, asked.command
        last = self._decided_by.get((job_id, asked.shard), -1)
        if asked.offset < last:
            raise Violation(f"{job_id}: commands were decided out of order: {asked.offset} after {last}")
        self._decided_by[job_id, asked.shard] = asked.offset
        triggered: str | None = None
        before = self.known.get(job_id)
        try:
            if command.kind == "trigger":
                detail, triggered = self._trigger(asked, job_id, ends, now)
            elif command.kind == "cancel":
                detail = self._cancel(asked, job_id, ends, now)
            else:
                detail = self._carry_out(asked, job_id, cursors, outcome, ends)
            accepted = True
        except Refusal as refusal:
            detail, accepted = refusal.detail, False
        except InvalidInput:
            detail, accepted = OutcomeDetail.INVALID, False
        if (outcome.accepted, outcome.detail) != (accepted, detail):
            said = f"{outcome.accepted}, {outcome.detail} {outcome.faults}"
            raise Violation(f"{asked.command_id} {command.kind} {job_id}: should be {detail}, is {said}; {before}")
        after = self.known.get(job_id)
        if accepted and after is not None and outcome.version != after.version and command.kind != "cancel":
            raise Violation(f"{asked.command_id}: version {outcome.version}, should be {after.version}")
        return triggered

    def by_owner(self, asked: Asked, state: str, ends: Ends) -> None:
        """An owner has changed a job by a command of its own: it may, where nothing is to come and nothing runs."""
        job = self.known.get(asked.job_id)
        text = f"{asked.command_id} {asked.command.kind} {asked.job_id}"
        if job is not None and asked.command.kind == "move":
            move(job, asked, state)
            return
        if job is None or asked.command.if_version != job.version or asked.command.kind == "suspend":
            raise Violation(f"{text} was carried out on {job}")
        comes = job.once if job.is_one_off else job.plan.next_after(job.done.run_at - 1)
        busy = ends.has_job_of(f"{job.job_id}.{job.created_version}.0")
        ended = state in ("FINISHED", "DELETED")
        if job.state not in ("ACTIVE", "FINISHED") or comes is not None or job.late or (ended and busy):
            raise Violation(f"{text} was carried out, though {comes} is to come or something runs: {job}")
        job.become(ids.version_of(EPOCH, asked.offset), state)

    def _carry_out(
        self, asked: Asked, job_id: str, cursors: Cursors, outcome: CommandOutcome, ends: Ends
    ) -> OutcomeDetail:
        command = asked.command
        if shard_of(job_id, SHARDS) != asked.shard:
            raise Refusal(OutcomeDetail.INVALID)
        if command.kind == "create":
            self._check_id(asked, job_id)
            return self._create(asked, job_id, parse(command.definition or {}), cursors)
        if command.kind not in ("update", "pause", "resume", "delete"):
            raise Refusal(OutcomeDetail.INVALID)
        job = self._existing(asked, job_id)
        version = ids.version_of(EPOCH, asked.offset)
        if command.kind == "update":
            former = job.definition.overlap
            detail = self._update(asked, job, parse(command.definition or {}), version, cursors, outcome)
            if detail is OutcomeDetail.UPDATED:
                self._settle(job, ends)
                if job.definition.overlap is Overlap.ALLOW and former is not Overlap.ALLOW:
                    ends.overlaps.allowed(f"{job_id}.{job.created_version}")
            return detail
        if command.kind == "delete":
            fired = job.is_one_off and job.once is None
            job.become(version, "DELETED")
            cancelled, running = ends.deleted(f"{job_id}.{job.created_version}")
            if not fired:
                return OutcomeDetail.PREVENTED
            return OutcomeDetail.RETRY_CANCELLED if cancelled and not running else OutcomeDetail.ALREADY_FIRED
        if command.kind == "pause":
            if job.state == "FINISHED":
                raise Refusal(OutcomeDetail.FINISHED)
            if job.state == "PAUSED":
                return OutcomeDetail.UNCHANGED
            job.become(version, "PAUSED")
            return OutcomeDetail.PAUSED
        if job.state != "PAUSED":
            return OutcomeDetail.UNCHANGED
        job.become(version, "ACTIVE")
        if job.is_one_off:
            job.is_late = job.once is not None and job.place(job.once) <= cursors.after
        else:
            job.owe_from(asked.at, cursors)
        self._settle(job, ends)
        return OutcomeDetail.RESUMED

    def _settle(self, job: Known, ends: Ends) -> None:
        """A one-off of which nothing is to come, and nothing runs, is finished at once."""
        busy = ends.has_job_of(f"{job.job_id}.{job.created_version}.0")
        if job.is_one_off and job.once is None and job.state == "ACTIVE" and not busy:
            job.state = "FINISHED"

    def _check_id(self, asked: Asked, job_id: str) -> None:
        command = asked.command
        if command.job_id is not None and ids.full_job_id(ids.DEFAULT_TENANT, command.job_id) != job_id:
            raise Refusal(OutcomeDetail.INVALID)

    def _existing(self, asked: Asked, job_id: str) -> Known:
        job, wanted = self.known.get(job_id), asked.command.if_version
        if job is None or job.state == "DELETED":
            raise Refusal(OutcomeDetail.NOT_FOUND)
        if wanted is not None and wanted != job.version:
            raise Refusal(OutcomeDetail.STALE_VERSION)
        return job

    def _create(self, asked: Asked, job_id: str, definition: JobDefinition, cursors: Cursors) -> OutcomeDetail:
        former = self.known.get(job_id)
        body = to_mapping(definition)
        if former is not None and former.state != "DELETED":
            if former.body == body:
                return OutcomeDetail.EXISTED
            raise Refusal(OutcomeDetail.CONFLICT)
        version = ids.version_of(EPOCH, asked.offset)
        plan = plan_of(plan_text(definition, job_id, asked.at))
        job = Known(job_id, asked.shard, version, version, asked.at, "ACTIVE", definition, body, plan)
        job.go_by(self.zones.of[asked.shard])
        if job.is_one_off:
            self._set_once(job, one_off_at(definition.schedule, asked.at, job_id), cursors)  # type: ignore[arg-type]
        else:
            job.base = job.done = Place.before(asked.at + 1)
            # If the first one is late, those up to the cursor are decided with it, whenever that is.
            job.late = set(times_of(job.plan, asked.at, cursors.after.run_at))
        if former is not None:
            self._of[asked.shard].remove(former)
            job.stood_upto = former.stood_upto
        self.known[job_id] = job
        self._of[asked.shard].append(job)
        return OutcomeDetail.CREATED

    def _set_once(self, job: Known, at: Micros, cursors: Cursors) -> None:
        job.once, job.is_late = at, job.place(at) <= cursors.after

    def _update(
        self,
        asked: Asked,
        job: Known,
        definition: JobDefinition,
        version: int,
        cursors: Cursors,
        outcome: CommandOutcome,
    ) -> OutcomeDetail:
        key = job.definition.idempotency_key
        if definition.idempotency_key not in (None, key):
            raise Refusal(OutcomeDetail.INVALID)
        definition = within_group(definition, job.definition.concurrency_group)
        definition = replace(definition, idempotency_key=key)
        if definition == job.definition:
            return OutcomeDetail.UNCHANGED
        same = definition.schedule == job.definition.schedule
        one_off = isinstance(definition.schedule, RunAt | Delay)
        if one_off and job.is_one_off and job.once is None and not same:
            raise Refusal(OutcomeDetail.FINISHED)
        if one_off and not same:
            at = one_off_at(definition.schedule, asked.at, job.job_id)  # type: ignore[arg-type]
            is_past = job.place(at) <= cursors.before
            if not outcome.accepted:
                # A late run may stand for more than the cursor has passed, at most for all up to its turn.
                is_past = job.place(at) <= cursors.after or at <= job.stood_upto
                is_past = is_past or (_catches_up(job) and at <= outcome.decided_at)
            if at < asked.at or is_past:
                raise Refusal(OutcomeDetail.INVALID)
            job.late = set()
            self._set_once(job, at, cursors)
        elif not one_off:
            job.once = None
        if same:
            edit_late(job)
        if not same and _catches_up(job) and not job.is_one_off:
            # What began to be caught up with stood for all up to its turn, and no event need have told of it yet.
            job.begun_upto = outcome.decided_at
        job.define(definition)
        job.become(version, "ACTIVE" if job.state == "FINISHED" else job.state)
        if not one_off and not same:
            job.owe_from(asked.at, cursors)
        return OutcomeDetail.UPDATED

    def _cancel(self, asked: Asked, job_id: str, ends: Ends, now: Micros) -> OutcomeDetail:
        execution_id = asked.command.execution_id or ""
        if shard_of(job_id, SHARDS) != asked.shard or not execution_id.startswith(f"{job_id}."):
            raise Refusal(OutcomeDetail.INVALID)
        detail = ends.overlaps.cancelled(execution_id, now)
        if detail is None:
            raise Refusal(OutcomeDetail.ENDED)
        return detail

    def _trigger(self, asked: Asked, job_id: str, ends: Ends, now: Micros) -> tuple[OutcomeDetail, str | None]:
        job = self._existing(asked, job_id)
        execution_id = ids.triggered_execution_id(job_id, job.created_version, asked.at, asked.command_id)
        if ends.is_active(execution_id):
            return OutcomeDetail.TRIGGERED, None
        way = ends.overlaps.asked_for(execution_id, job.definition.overlap, now)
        if way in ("full", "taken"):
            raise Refusal(OutcomeDetail.RUNNING)
        return (OutcomeDetail.QUEUED, None) if way == "behind" else (OutcomeDetail.TRIGGERED, execution_id)

    # Occurrences

    def fired(self, head: AttemptHead, now: Micros, before: Place, overlaps: Overlaps, way: str) -> None:
        """An occurrence was dispatched, or stands behind others (``way``)."""
        job = self._decide(head, head.scheduled_for, before)
        if head.job_version != job.version:
            raise Violation(f"{head.execution_id} fired under version {head.job_version}, the job is at {job.version}")
        overlaps.admitted(head.execution_id, job.definition.overlap, way)
        self._note_late(job, head.scheduled_for, now)

    def skipped(self, event: ExecutionEvent, upto: Micros, now: Micros, before: Place, overlaps: Overlaps) -> None:
        """Occurrences were decided not to run."""
        first = event.head.scheduled_for
        if event.reason in TOLD_BY_COMMANDS:
            self._taken_back(event, upto, now)
            return
        job = self._of_execution(event.head.execution_id)
        if event.reason in WAYS:
            overlaps.admitted(event.head.execution_id, job.definition.overlap, WAYS[event.reason])
            self._decide(event.head, first, before)
            self._note_late(job, first, now)
            return
        if event.reason == "moved":
            give_way(job, first, max(now, before.run_at))
            return
        times = [first] if upto == first else [first, *times_of(job.plan, first, upto)]
        if event.skipped_count not in (None, len(times)):
            raise Violation(f"{event.head.execution_id}: {event.skipped_count} skipped, should be {len(times)}")
        late = self._fired_late.get(job.job_id)
        if (
            event.reason == "missed"
            and late != (now, True)
            and not (job.is_loose or job.moving or set(times) <= job.late)
        ):
            raise Violation(f"{event.head.execution_id} counts as missed, though nothing was late")
        for at in times:
            self._decide(event.head, at, before)
        job.stood_upto = now

    def _taken_back(self, event: ExecutionEvent, upto: Micros, now: Micros) -> None:
        """A command kept occurrences from running; which of them, depends on the cursor that it met."""
        name = ids.parse_execution_id(event.head.execution_id)
        job = self.known.get(name.job_id)
        if job is None or job.created_version != name.created_version:
            return
        if event.reason == SkipReason.PAUSED:
            now += CLOCKS_APART  # a resume's time is the broker's
        plan = job.plans.get(event.head.job_version)
        if plan is None:
            raise Violation(f"{event.head.execution_id} is told of version {event.head.job_version}, which never was")
        self._take_back(job, event.head.scheduled_for, now)
        for at in times_of(plan, event.head.scheduled_for, upto):
            self._take_back(job, at, now)

    def _take_back(self, job: Known, at: Micros, now: Micros) -> None:
        if at in job.decided - job.doubtful or at > now:
            raise Violation(f"{job.job_id} at {at} was taken back, but was decided or is to come")
        job.doubtful.discard(at)
        job.decided.add(at)
        job.late.discard(at)

    def _note_late(self, job: Known, at: Micros, now: Micros) -> None:
        late = now - at > job.definition.catch_up.misfire_after_s * SECOND
        self._fired_late[job.job_id] = (now, late)
        if late:
            job.stood_upto = now

    def _of_execution(self, execution_id: str) -> Known:
        name = ids.parse_execution_id(execution_id)
        job = self.known.get(name.job_id)
        if job is None or job.created_version != name.created_version:
            raise Violation(f"{execution_id} is of a job that is not there")
        return job

    def _decide(self, head: AttemptHead, at: Micros, before: Place) -> Known:
        job, text = self._of_execution(head.execution_id), f"{head.execution_id} at {at}"
        if job.state != "ACTIVE":
            raise Violation(f"{text} was decided, but the job is {job.state}")
        if at > max(self._latest[job.shard], before.run_at):
            # A successor's clock may be behind the cursor that it found; what lies between is told with the rest.
            raise Violation(f"{text} was decided before its time")
        if at in job.decided:
            raise Violation(f"{text} was decided twice")
        if job.is_one_off:
            if job.once != at:
                raise Violation(f"{text} was decided, but due is {job.once}")
            job.once = None
        elif at in job.moving and not job.is_owed(at) and job.is_overdue(at, Place.before(self._latest[job.shard] + 1)):
            first = job.moved(job.moving[at])
            assert first is not None
            job.decided.add(first)
            job.late.discard(first)
        elif not job.is_owed(at) or job.place(at) <= job.base:
            raise Violation(f"{text} was decided, but is not owed: {job}")
        elif job.place(at) <= before and at not in job.late | job.maybe and not (job.is_loose or _catches_up(job)):
            raise Violation(f"{text} was decided behind the cursor {before}")
        job.decided.add(at)
        job.late.discard(at)
        if job.place(at) > before and not job.late:
            job.is_loose = False
        return job

    def begins(self, shard: int, at: Micros, cursor: Place, parked: set[str]) -> None:
        """A turn begins, which takes the cursor on: what it passes of jobs that wait is decided late, maybe here.

        A cursor goes on without a turn, too, so how far it was when a job's commands were decided is not told.
        """
        self._latest[shard] = max(at, self._latest.get(shard, 0))
        for job in self._of[shard]:
            if job.state == "ACTIVE" and not job.is_one_off and (job.late or job.job_id in parked):
                times = times_of(job.plan, job.done.run_at - 1, cursor.run_at)
                job.late |= {at for at in times if job.done < job.place(at) <= cursor} - job.decided - job.maybe

    def passed(self, shard: int, cursor: Place, parked: set[str]) -> None:
        """A cursor has gone on: all up to it is decided, but for what is held back because commands are parked."""
        for job in self._of[shard]:
            if job.state != "ACTIVE":
                continue
            if job.is_one_off:
                if job.once is not None and not job.is_late and job.place(job.once) <= cursor:
                    if job.job_id in parked:
                        job.is_late = True
                        continue
                    raise Violation(
                        f"{job.job_id}: the cursor {cursor} passed its time {job.once}, and it did not fire"
                    )
                continue
            at = job.plan.next_after(job.done.run_at - 1)
            if job.job_id in parked and any(job.place(at) <= cursor for at in job.maybe - job.decided):
                job.is_loose = True
            while at is not None and job.place(at) <= cursor:
                if job.place(at) > job.done and at not in job.decided | job.late | job.maybe:
                    if job.job_id in parked or job.late or job.is_loose or _catches_up(job) or job.stands_behind(at):
                        job.late.add(at)
                        at = job.plan.next_after(at)
                        continue
                    if at > job.begun_upto:
                        raise Violation(f"{job.job_id}: the cursor {cursor} passed its occurrence at {at}: {job}")
                at = job.plan.next_after(at)
            job.done = max(job.done, cursor)
            job.maybe = {at for at in job.maybe if job.place(at) > cursor}

    def undecided(self, *, held: bool = False) -> list[str]:
        """Return what was late when it was asked for, and is not decided.

        Args:
            held: leave out what a backlog may still have.
        """
        active = [job for job in self.known.values() if job.state == "ACTIVE" and not (held and _catches_up(job))]
        late = [f"{job.job_id} at {job.once}" for job in active if job.once is not None and job.is_late]
        return late + [f"{job.job_id} at {sorted(job.late)}" for job in active if job.late]


def _catches_up(job: Known) -> bool:
    """Tell whether what a job missed is run behind the cursor, one after another."""
    return job.definition.catch_up.mode is CatchUp.FIRE_ALL
