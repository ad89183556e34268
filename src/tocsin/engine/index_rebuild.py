"""Writing the index anew from the jobs log, a page at a time, while firing goes on.

Of each job the last snapshot says which row it has; its job row and that row are written again. A page counts as done
only when the store has acknowledged it, so a successor begins with the page at which its predecessor was. The mark is
written last: where it is, all rows are.

Rows of replaced versions must not come back. A snapshot that a later one replaced is left out by whoever reads the
log; one that is replaced while the rebuild goes on is shadowed by a void, and no void is forgotten meanwhile.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from tocsin.domain.errors import Undecodable
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.recurrence import CronError
from tocsin.domain.shard_records import REBUILD_INDEX, WorkItem
from tocsin.engine.effects import Step
from tocsin.engine.filing import Filing
from tocsin.engine.outbox import Outbox
from tocsin.engine.shard_state import ShardState
from tocsin.engine.work import Progress, Room, Work
from tocsin.ports.codec import RecordCodec
from tocsin.ports.jobs_log import JobsPage, JobsRecord
from tocsin.ports.schedule_store import JobRow

PAGE: Final = "rebuild: a page of the jobs log"
WRITTEN: Final = "rebuild: the store's acknowledgement"


class _Unwritten(NamedTuple):
    """What must be acknowledged before an item goes on."""

    item_id: str
    turn: int
    data: dict[str, Any] | None
    """How the item goes on then; None: it is done."""


class IndexRebuild:
    """The rebuilds of one shard: one at a time, a later one replaces an earlier."""

    def __init__(self, state: ShardState, work: Work, outbox: Outbox, filing: Filing, codec: RecordCodec) -> None:
        self._state = state
        self._work = work
        self._outbox = outbox
        self._filing = filing
        self._codec = codec
        self._page: JobsPage | None = None
        """Read and not written whole; a successor reads it again."""
        self._at = 0
        self._damaged = 0
        self._unwritten: _Unwritten | None = None
        work.register(REBUILD_INDEX, self)

    def begin(self, step: Step, command_id: str) -> None:
        """Begin with the first page; a rebuild under way ends."""
        known = [*self._state.work.values(), *step.work]
        step.work_done += [item.id for item in known if item.kind == REBUILD_INDEX]
        data = {"command_id": command_id, "next": 0, "end": None, "jobs": 0, "damaged": 0}
        self._work.begin(step, REBUILD_INDEX, None, json.dumps(data))

    def page_read(self, page: JobsPage) -> None:
        """A page has come."""
        self._page, self._at, self._damaged = page, 0, 0
        self._work.wake(PAGE)

    def acknowledged(self) -> None:
        """The store has acknowledged something."""
        self._work.wake(WRITTEN)

    def job_changed(self, step: Step, item: WorkItem, job: Job) -> bool:
        return True

    def go_on(self, step: Step, item: WorkItem, room: Room) -> Progress:
        unwritten = self._unwritten
        if unwritten is not None and unwritten.item_id == item.id:
            if not self._outbox.is_written(unwritten.turn):
                return Progress(item, waits_for=WRITTEN)
            self._unwritten = None
            room.take()
            return Progress(None if unwritten.data is None else item._replace(data=json.dumps(unwritten.data)))
        data = json.loads(item.data)
        if data["end"] is not None and data["next"] >= data["end"]:
            step.write_mark = step.turn = True
            return self._wait(step, item, None)
        page = self._page
        if page is None or page.start != data["next"]:
            step.jobs_page = data["next"]
            return Progress(item, waits_for=PAGE)
        while self._at < len(page.records) and not room.used_up:
            self._rewrite(step, page.records[self._at], room)
            self._at += 1
        if self._at < len(page.records):
            return Progress(item)
        self._page = None
        data["next"], data["end"] = page.next, page.end
        data["jobs"] += len(page.records)
        data["damaged"] += self._damaged
        return self._wait(step, item, data)

    def _wait(self, step: Step, item: WorkItem, data: dict[str, Any] | None) -> Progress:
        # Turns that had nothing to write count as acknowledged with those before them.
        step.turn = True
        self._unwritten = _Unwritten(item.id, step.number, data)
        return Progress(item, waits_for=WRITTEN)

    def _rewrite(self, step: Step, record: JobsRecord, room: Room) -> None:
        """Write a job's row, and the one that it has in the index."""
        room.take(len(record.snapshot))
        try:
            job = self._codec.decode_job(record.snapshot)
            void = self._state.voids.get(job.job_id)
            if void is not None and void.version > job.version:
                return
            check = self._filing.end_check_of(job)
            entries = self._filing.present_entries(job) if check is None else (check,)
        except (Undecodable, CronError, ValueError):
            # One damaged snapshot must not keep the others from their rows; its bytes stay in the log.
            self._damaged += 1
            return
        step.turn = True
        step.deletes.extend(job.replaced)
        snapshot = None if job.state is JobState.DELETED else record.snapshot
        step.job_rows.append(JobRow(job.job_id, job.version, snapshot))
        step.inserts.extend(entries)
