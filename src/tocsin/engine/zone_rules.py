"""When jobs are due while zone data change: by the old data before the change, by the new ones from it on.

For an owner that has other data than its shard's rows were filed by, the change is one more change of each zone's
clock, at an instant that it fixes and writes into the state. So an occurrence before it is the same by both, a wall
time that comes once more is not run once more, and one that is passed over is run when the clocks change. What was
decided under former owners is asked of the data that those had, so that a row which they filed is found again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tocsin.domain import ids
from tocsin.domain.entries import Entry, Place
from tocsin.domain.firing import FiringPlan, plan_of
from tocsin.domain.instants import DAY, MINUTE, SECOND, Micros, minute_of
from tocsin.domain.recurrence import TZDATA_VERSION, CronPlan
from tocsin.domain.recurrence.timeline import Timeline
from tocsin.domain.recurrence.tzif import ZoneTable
from tocsin.domain.recurrence.zone_tables import (
    differing,
    present_text,
    read_tables,
    timeline_of,
    write_tables,
)
from tocsin.domain.shard_records import WorkItem
from tocsin.engine.effects import Step
from tocsin.engine.shard_state import ShardState

TABLES: Final = "zone_tables"
"""Kind, and id, of the work item that keeps the zone data by which rows are filed; nothing goes on with it."""
ERA: Final = "zone_era"
"""Kind of the work items that keep what became of former data. Likewise."""
ERAS_MAX: Final = 8
"""With more changes that are not over, the oldest is forgotten."""
SHIFT_MAX: Final = 2 * DAY
"""No change of a zone's clock moves a wall time further."""
PLANS_MAX: Final = 16_384


@dataclass(frozen=True, slots=True)
class Era:
    """A change of the zone data.

    Attributes:
        cursor: all at or before it was decided by the old data.
        at: from here on the new data count, µs, a whole second; None until the owner has fixed it.
        version: all versions of jobs below it were made by owners that did not know of the change,
        parked: but for those of commands that were parked then.
        old: zones that are otherwise in the new data, as they were.
    """

    cursor: Place
    at: Micros | None
    version: int
    parked: frozenset[int]
    old: Mapping[str, ZoneTable]

    def is_known_to(self, version: int) -> bool:
        """Tell whether the owner knew of the change that made a version of a job."""
        return version >= self.version or version in self.parked


class Moved(NamedTuple):
    """Where an occurrence belongs that was filed by former data; ``at`` None: past the end of its schedule."""

    at: Micros | None


class ZoneRules:
    """The zone data of one shard."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._eras = [_era_of(item) for item in state.work.values() if item.kind == ERA]
        self._plans: dict[tuple[str, int], FiringPlan] = {}
        kept = state.work.get(TABLES)
        self.former: str | None = None if kept is None else json.loads(kept.data)["release"]
        """The release by which the state's rows are filed; None where nobody ever wrote it down."""
        if kept is not None and self.former != TZDATA_VERSION:
            old = differing(json.loads(kept.data)["tables"], max(0, state.cursor.run_at - SHIFT_MAX) // DAY * 86_400)
            self._eras.append(Era(state.cursor, None, 0, frozenset(), old))

    def begin(self, step: Step, after: Micros) -> bool:
        """Write down the data of this process where the state has others, or none; tell whether any zone changes.

        Args:
            step: the first of this owner.
            after: how long after now the new data count, µs.
        """
        if self.former == TZDATA_VERSION:
            return False
        tables = json.dumps({"release": TZDATA_VERSION, "tables": present_text()})
        self._keep(step, WorkItem(TABLES, TABLES, None, tables))
        first, self.former = self.former is None, TZDATA_VERSION
        if first:
            return False
        pending = self._eras.pop()
        if not pending.old:
            return False
        # Past all that any former owner's ``now`` has chosen, and on a whole minute, for people to read.
        at = (minute_of(max(step.now, self._state.cursor.run_at) + after) + 1) * MINUTE
        epoch, parked = self._state.epoch, list(self._state.parked)
        version = ids.version_of(epoch, self._state.commands_offset)
        versions = frozenset(ids.version_of(epoch, offset) for offset in parked)
        era = Era(pending.cursor, at, version, versions, pending.old)
        self._eras.append(era)
        self._plans.clear()
        for item in [item for item in self._state.work.values() if item.kind == ERA][: 1 - ERAS_MAX]:
            self._drop(step, item)
            self._eras.pop(0)
        data = {
            "at": at,
            "cursor": era.cursor,
            "version": version,
            "parked": sorted(versions),
            "old": write_tables(era.old),
        }
        self._keep(step, WorkItem(f"{ERA}.{step.number}", ERA, None, json.dumps(data)))
        return True

    @property
    def changing(self) -> bool:
        """Rows that were filed by other data may still come, or be asked for."""
        return bool(self._eras)

    def instants(self) -> list[Micros]:
        """Return from when on the data of each change count."""
        return [era.at for era in self._eras if era.at is not None]

    def over(self, step: Step) -> None:
        """Forget all changes: no row is asked for any more that was filed, or decided, by other data."""
        for item in [item for item in self._state.work.values() if item.kind == ERA]:
            self._drop(step, item)
        self._eras.clear()
        self._plans.clear()

    def plan(self, text: str) -> FiringPlan:
        """Return what a plan's text means, by all the data that count."""
        return self._plan(text, len(self._eras)) if self._eras else plan_of(text)

    def concerns(self, text: str) -> bool:
        """Tell whether a plan's zone changes."""
        return bool(self._eras) and self._zone(text) is not None

    def following(self, text: str, job_id: str, scheduled_for: Micros, place: Place) -> Micros | None:
        """Return the first occurrence past the cursor after one that stands, or stood, at a place; that one itself
        where it stands past the cursor; None where there is none."""
        cursor, at = self._state.cursor, scheduled_for
        for n, era in enumerate(self._eras):
            if place <= era.cursor < cursor:
                found = self._plan(text, n).first_past(at, job_id, era.cursor)
                if found is None:
                    return None
                at, place = found, Place(found, job_id, found)
        if place > cursor:
            return at
        if not self._eras:
            return plan_of(text).first_past(at, job_id, cursor)
        known = next((n for n, era in enumerate(self._eras) if place <= era.cursor), len(self._eras))
        return self._plan(text, known).first_past(at, job_id, cursor)

    def moved(
        self, text: str, job_id: str, scheduled_for: Micros, version: int, *, by_version: bool = False
    ) -> Moved | None:
        """Return where an undecided occurrence belongs by the data that count now; None where it stays as it is.

        Args:
            text: its plan.
            job_id: its job.
            scheduled_for: its nominal time, by whatever data it was filed.
            version: of the job, by which it was filed.
            by_version: the very command of that version chose it; otherwise it may have followed another.
        """
        if not self.concerns(text):
            return None
        plan, eras = self.plan(text), self._eras_of(text, scheduled_for)
        for n, at in eras:
            known = self._eras[n].is_known_to(version)
            if not known and (by_version or self._was_next(text, n, job_id, scheduled_for)):
                # What the schedule has between the change and this, nobody has looked at.
                first = plan.next_after(at - 1)
                return None if first == scheduled_for else Moved(first)
        if not eras or plan.next_after(scheduled_for - 1) == scheduled_for:
            return None
        return Moved(plan.next_after(eras[-1][1] - 1))

    def is_too_early(self, entry: Entry) -> bool:
        """Tell whether a row that is due was filed by old data, and by the new ones is due later: its successor."""
        moved = self._moved_row(entry)
        return moved is not None and (moved.at is None or moved.at > entry.scheduled_for)

    def overdue(self, entry: Entry) -> tuple[Micros, Micros] | None:
        """Return the range of what a row stands for that is due, was filed by old data, and by the new ones was due
        before; its own time, where the new data have it as well, is not in it."""
        moved = self._moved_row(entry)
        if moved is None or moved.at is None or moved.at > entry.scheduled_for:
            return None
        known = self.plan(entry.plan).next_after(entry.scheduled_for - 1) == entry.scheduled_for
        return (moved.at if known else moved.at + 1), entry.scheduled_for - 1

    def _moved_row(self, entry: Entry) -> Moved | None:
        if not self._eras or not entry.plan:
            return None
        return self.moved(entry.plan, entry.job_id, entry.scheduled_for, entry.version)

    def _eras_of(self, text: str, scheduled_for: Micros) -> list[tuple[int, Micros]]:
        """Return the changes that an occurrence comes after, and the first instant at which it could be by each."""
        offset = plan_of(text).offset
        found = [(n, era.at + offset) for n, era in enumerate(self._eras) if era.at is not None]
        return [(n, at) for n, at in found if at <= scheduled_for]

    def _was_next(self, text: str, n: int, job_id: str, scheduled_for: Micros) -> bool:
        """Tell whether an occurrence was the next one, by the data of then, as a change came."""
        era, name = self._eras[n], self._state.named.get(job_id)
        # A name whose occurrence is decided stays for a while; by then the schedule alone had the next one.
        if name is not None and _is_past(name.scheduled_for, job_id, era.cursor):
            # No former owner's clock had come to the change, so what was chosen later, was so by the new data.
            return name.scheduled_for == scheduled_for and era.at is not None and name.chosen_at < era.at
        return self._plan(text, n).first_past(0, job_id, era.cursor) == scheduled_for

    def _plan(self, text: str, eras: int) -> FiringPlan:
        """Return what a text means to an owner that knows so many of the changes."""
        zone = self._zone(text)
        if zone is None:
            return plan_of(text)
        known = self._plans.get((text, eras))
        if known is None:
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            plan = plan_of(text)
            cron = plan.recurrence
            assert isinstance(cron, CronPlan)
            changed = CronPlan(cron.fields, zone, self._timeline(cron, eras), cron.dst, cron.calendar)
            known = self._plans[text, eras] = replace(plan, recurrence=changed)
        return known

    def _zone(self, text: str) -> str | None:
        """Return the zone of a plan, where it is one that changes."""
        cron = plan_of(text).recurrence
        if isinstance(cron, CronPlan) and any(cron.timezone in era.old for era in self._eras):
            return cron.timezone
        return None

    def _timeline(self, cron: CronPlan, eras: int) -> Timeline:
        timeline = self._data(cron, 0)
        for n, era in enumerate(self._eras[:eras]):
            if era.at is not None and cron.timezone in era.old:
                timeline = timeline.joined(self._data(cron, n + 1), era.at // SECOND)
        return timeline

    def _data(self, cron: CronPlan, eras: int) -> Timeline:
        """Return a zone as it was in the data after so many changes."""
        for era in self._eras[eras:]:
            if cron.timezone in era.old:
                return timeline_of(era.old[cron.timezone])
        return cron.timeline

    def _keep(self, step: Step, item: WorkItem) -> None:
        self._state.work[item.id] = item
        step.work.append(item)
        step.turn = True

    def _drop(self, step: Step, item: WorkItem) -> None:
        del self._state.work[item.id]
        step.work_done.append(item.id)
        step.turn = True


def _era_of(item: WorkItem) -> Era:
    data = json.loads(item.data)
    return Era(Place(*data["cursor"]), data["at"], data["version"], frozenset(data["parked"]), read_tables(data["old"]))


def _is_past(scheduled_for: Micros | None, job_id: str, cursor: Place) -> bool:
    """Tell whether a cursor has not come to an occurrence; to none that is past the end of its schedule."""
    return scheduled_for is None or Place(scheduled_for, job_id, scheduled_for) > cursor
