"""Moving what is filed after the zone data have changed, job by job from the jobs log, while firing goes on.

Only occurrences from the change on can move; of each job that is at most one row. Its owner gives itself a command,
which makes a version with a row at the new time; the old row is shadowed by it like that of any edit. Nothing depends
on how soon this is done: a row that comes due unmoved fires, or gives way to its later time, see ``zone_rules``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from tocsin.domain.alerts import Alert, AlertKind
from tocsin.domain.commands import CommandKind
from tocsin.domain.entries import EntryKey
from tocsin.domain.errors import Undecodable
from tocsin.domain.instants import DAY, SECOND, Micros, format_rfc3339
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.recurrence import TZDATA_VERSION, CronError
from tocsin.domain.schedules import Cron
from tocsin.domain.shard_records import MOVE_FILED, REBUILD_INDEX, REPORT_MOVES, WorkItem
from tocsin.engine.effects import Step
from tocsin.engine.filing import Filing
from tocsin.engine.own_commands import OWN, OwnCommands, OwnNote
from tocsin.engine.shard_state import ShardState
from tocsin.engine.work import Progress, Room, Work
from tocsin.engine.zone_rules import SHIFT_MAX, ZoneRules
from tocsin.ports.codec import RecordCodec
from tocsin.ports.jobs_log import JobsPage, JobsRecord

PAGE: Final = "zone data: a page of the jobs log"
UNDER_WAY_MAX: Final = 1_000
"""With so many own commands that are not decided, no more are given."""
LOOK_AGAIN: Final[Micros] = SECOND
OVER_AFTER: Final[Micros] = SHIFT_MAX + DAY
"""So long after a change no row can come that it moved: a shift, and the width of a job's window."""


class ZoneChange:
    """The change of one shard's zone data: a later one takes the place of an earlier."""

    def __init__(
        self, state: ShardState, work: Work, zones: ZoneRules, filing: Filing, own: OwnCommands, codec: RecordCodec
    ) -> None:
        self._state = state
        self._work = work
        self._zones = zones
        self._filing = filing
        self._own = own
        self._codec = codec
        self._page: JobsPage | None = None
        work.register(MOVE_FILED, self)
        work.register(REPORT_MOVES, _Report(self))

    def begin(self, step: Step, after_s: float) -> None:
        """Begin to move what is filed, where this owner has other zone data than its predecessors."""
        former = self._zones.former
        if self._zones.begin(step, round(after_s * SECOND)):
            step.work_done += [item.id for item in self._state.work.values() if item.kind == MOVE_FILED]
            data = {"from": former, "to": TZDATA_VERSION, "next": 0, "end": None, "seen": -1}
            self._work.begin(
                step, MOVE_FILED, None, json.dumps({**data, "looked": 0, "moved": 0, "damaged": 0, "done": False})
            )

    def report(self, step: Step, command_id: str) -> None:
        """Have it written into the state what the change of the zone data has come to, once it is done."""
        data = {"command_id": command_id, "release": TZDATA_VERSION, "done": False}
        self._work.begin(step, REPORT_MOVES, None, json.dumps(data))

    def page_read(self, page: JobsPage) -> None:
        """A page has come."""
        self._page = page
        self._work.wake(PAGE)

    def job_changed(self, step: Step, item: WorkItem, job: Job) -> bool:
        return True

    def go_on(self, step: Step, item: WorkItem, room: Room) -> Progress:
        data = json.loads(item.data)
        if data["done"]:
            return self._rest(step, item)
        room.take()
        under_way = self._under_way()
        if data["end"] is not None and data["next"] >= data["end"]:
            if under_way:
                return Progress(item, step.now + LOOK_AGAIN)
            said = f"zone data {data['from']} to {data['to']}: {data['moved']} of {data['looked']} jobs were moved"
            step.alerts.append(Alert(AlertKind.MOVED, step.now, message=said))
            return Progress(item._replace(data=json.dumps({**data, "done": True})))
        if under_way >= UNDER_WAY_MAX or any(one.kind == REBUILD_INDEX for one in self._state.work.values()):
            # The log is read by one at a time, and a rebuild comes first.
            return Progress(item, step.now + LOOK_AGAIN)
        page = self._page
        if page is None or page.start != data["next"]:
            step.jobs_page = data["next"]
            return Progress(item, waits_for=PAGE)
        for record in page.records:
            if record.offset > data["seen"]:
                if room.used_up or under_way >= UNDER_WAY_MAX:
                    return Progress(item._replace(data=json.dumps(data)))
                under_way += self._look(step, data, record, room)
        self._page = None
        data["next"], data["end"] = page.next, page.end
        return Progress(item._replace(data=json.dumps(data)))

    def move(self, step: Step, former: Job, version: int, at: Micros) -> Job | None:
        """Make the version of a job that has its row at the new time; None where it stays where it is."""
        present = self._filed(former)
        key = self._filing.moved_key(former, present)
        if present is None or key is None or key == present:
            return None
        replaced = self._filing.replaced_by_next(former)
        job = replace(former, version=version, updated_at=at, entry=key._replace(version=version), replaced=replaced)
        self._filing.file(step, job, former)
        was, becomes = format_rfc3339(present.run_at), format_rfc3339(key.run_at)
        said = f"runs at {becomes} instead of {was}, by the zone data {TZDATA_VERSION}"
        step.alerts.append(Alert(AlertKind.MOVED, step.now, job.tenant_id, job.job_id, message=said))
        for item in [item for item in self._state.work.values() if item.kind == MOVE_FILED]:
            data = json.loads(item.data)
            counted = item._replace(data=json.dumps({**data, "moved": data["moved"] + 1}))
            self._state.work[item.id] = counted
            step.work.append(counted)
        return job

    def standing(self) -> dict[str, Any] | None:
        """Return how far the change is, or was; None where there is none that anybody remembers."""
        items = [json.loads(item.data) for item in self._state.work.values() if item.kind == MOVE_FILED]
        return items[-1] if items else None

    def _under_way(self) -> int:
        """Return how many jobs are told to move, and have not."""
        notes = [item for item in self._state.work.values() if item.kind == OWN]
        return sum(OwnNote(*json.loads(note.data)).kind == CommandKind.MOVE for note in notes)

    def _rest(self, step: Step, item: WorkItem) -> Progress:
        """Keep the old data until nothing can be asked of them any more."""
        ends = max((at for at in self._zones.instants()), default=0) + OVER_AFTER
        if self._state.successors_upto.run_at < ends:
            return Progress(item, max(step.now + LOOK_AGAIN, ends))
        self._zones.over(step)
        return Progress(None)

    def _look(self, step: Step, data: dict[str, Any], record: JobsRecord, room: Room) -> int:
        """Look at a job's last snapshot; return 1 where it is told to move."""
        room.take(len(record.snapshot))
        data["seen"] = record.offset
        try:
            job = self._codec.decode_job(record.snapshot)
            present = None if self._is_replaced(job) else self._filed(job)
            key = self._filing.moved_key(job, present)
        except (Undecodable, CronError, ValueError):
            data["damaged"] += 1
            return 0
        data["looked"] += 1
        if present is None or key is None or key == present:
            return 0
        note = OwnNote(CommandKind.MOVE, job.job_id, job.version, None, (present.run_at, key.run_at))
        self._own.send(step, note, job.tenant_id)
        return 1

    def _is_replaced(self, job: Job) -> bool:
        void = self._state.voids.get(job.job_id)
        return void is not None and void.version > job.version

    def _filed(self, job: Job) -> EntryKey | None:
        """Return the row of a job that may have to move, None where there is none."""
        may_move = job.state is JobState.ACTIVE and not job.has_ended and isinstance(job.definition.schedule, Cron)
        return self._filing.present_key(job) if may_move else None


class _Report:
    """Says in the state what a change has come to, where a command asked for it."""

    def __init__(self, change: ZoneChange) -> None:
        self._change = change

    def job_changed(self, step: Step, item: WorkItem, job: Job) -> bool:
        return True

    def go_on(self, step: Step, item: WorkItem, room: Room) -> Progress:
        room.take()
        data = json.loads(item.data)
        if data["done"]:
            return Progress(None)
        standing = self._change.standing()
        if standing is not None:
            data.update(standing)
        else:
            data["done"] = True
        said = json.dumps(data)
        return Progress(item if said == item.data else item._replace(data=said), step.now + LOOK_AGAIN)
