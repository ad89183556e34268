"""Fires what is due, in order: each occurrence is dispatched, skipped, or put among what is caught up with.

Rows of the store are looked at as they are admitted; what was filed here is known to be sound.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tocsin.domain.catch_up import SkipReason
from tocsin.domain.entries import Entry, EntryKey, Place
from tocsin.domain.firing import plan_of
from tocsin.domain.instants import SECOND, Micros, minute_of
from tocsin.domain.timers import is_timer
from tocsin.engine.alerts import tell_if_late
from tocsin.engine.catch_up import CatchUps, Missed
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.held import HeldEntries
from tocsin.engine.horizon import Horizon
from tocsin.engine.overlap import REFUSED, Overlaps, Way
from tocsin.engine.parking import Parking
from tocsin.engine.plain_fires import PlainFires
from tocsin.engine.set_asides import SetAsides
from tocsin.engine.shard_state import ShardState
from tocsin.engine.successors import Following, Successors
from tocsin.engine.time_wheel import TimeWheel
from tocsin.engine.timers import Timers

READY_AHEAD: Final[Micros] = 2 * SECOND
"""How long before a second that second's rows are sorted; what comes later is sorted in."""


class FiringDesk:
    """What is to come of one shard, and the firing of it."""

    def __init__(
        self,
        state: ShardState,
        dispatches: DispatchDesk,
        overlaps: Overlaps,
        successors: Successors,
        catch_ups: CatchUps,
        horizon: Horizon,
        held: HeldEntries,
        parking: Parking,
        set_asides: SetAsides,
        timers: Timers,
        plain: PlainFires,
        owed_min: int,
    ) -> None:
        self._state = state
        self._dispatches = dispatches
        self._overlaps = overlaps
        self._successors = successors
        self._catch_ups = catch_ups
        self._horizon = horizon
        self._held = held
        self._parking = parking
        self._set_asides = set_asides
        self._timers = timers
        self._plain = plain
        self._owed_min = owed_min
        self._owed: list[tuple[Entry, Micros]] = []
        """What fired in this step, in order, and when what follows it is due: it is filed when the next step begins."""
        self._wheel = TimeWheel()
        self._filed_first: tuple[Micros, str, Micros] | None = None
        """The first place at which something was filed since what is due was drained: only that can come between."""
        self._faults: dict[EntryKey, str] = {}
        """What is wrong with rows in the wheel; they become dead letters when they are due, and decided like others."""

    def next_due(self) -> Micros | None:
        """Return when the next row is due, or None; an instant that has passed while something is owed."""
        return 0 if self._owed else self._wheel.next_due()

    def get_ready(self, now: Micros) -> None:
        """Do what can be done for the next burst before it is due."""
        self._plain.get_ready(self._wheel.make_ready(now + READY_AHEAD))

    def admit(self, entries: Iterable[Entry]) -> None:
        """Put entries into the wheel, but for what is decided already: the store keeps fired rows for a while."""
        cursor = self._state.cursor
        self._wheel.add(entry for entry in entries if entry[:3] > cursor)

    def admit_rows(self, step: Step, rows: Iterable[Entry]) -> None:
        """Put rows of the store into the wheel, and note which of them are damaged."""
        cursor = self._state.cursor
        ahead = [row for row in rows if row[:3] > cursor]
        for row in ahead:
            if self._set_asides.knows(row) or is_timer(row):
                continue  # It is set aside when it is due, and until then not looked at again.
            step.at_hand = row
            fault = self._dispatches.fault_of(row)
            if fault is not None:
                self._faults[row.key] = fault
        self._wheel.add(ahead)

    def fire(self, step: Step, stamp: bytes, upto: Micros, count_max: int, bytes_max: int) -> None:
        """Decide what is due at or before an instant, up to the bounds, and move the cursor past it."""
        state = self._state
        before = state.cursor
        count, room = 0, bytes_max
        for entry in self._parking.released(step, count_max):
            if (fault := self._dispatches.fault_of(entry)) is not None:
                self._faults[entry.key] = fault
            room -= self._decide(step, entry, stamp, before)
            count += 1
        last: Place | None = None
        while count < count_max and room > 0:
            # Successors come at least a second later: within one, only those of what was filed late come between.
            due = self._wheel.drain_second(upto, count_max - count)
            if not due:
                break
            self._filed_first = None
            readied = self._plain.look_at(due)
            done = 0
            while done < len(due):
                begun = done
                done, size, following = self._plain.fire(step, readied, done, stamp, room, self._faults)
                room -= size
                self._file_following(step, following, upto)
                if done == begun:
                    room -= self._decide(step, due[done], stamp, before)
                    done += 1
                count += done - begun
                place = Place(*due[done - 1][:3])
                last = place if last is None else max(last, place)
                if done < len(due) and (self._is_preceded(due[done]) or (room <= 0 and due[done][:3] != last)):
                    # Either a turn's bytes are used up, or a successor of something that was filed late stands among
                    # what is still to come. That goes first: the cursor stands where a turn's bounds end it, and must
                    # have passed nothing undecided.
                    self._wheel.add(due[done:])
                    break
        next_due = self._wheel.next_due()
        if next_due is None or next_due > upto:
            state.cursor = max(state.cursor, Place.before(upto + 1))
        elif last is not None:
            state.cursor = max(state.cursor, last)

    def file_owed(self, step: Step) -> None:
        """File what follows the fires of the step before: first of all, so that nothing can tell that it was not."""
        if self._owed:
            step.inserts += [self._successors.row(entry, at) for entry, at in self._owed]
            step.turn = True
            self._owed = []

    def followed_upto(self, place: Place) -> Place:
        """Return the place up to which what follows is filed, at most a given one."""
        return min(place, Place(*self._owed[0][0][:2], self._owed[0][0].scheduled_for - 1)) if self._owed else place

    def _file_following(self, step: Step, following: list[tuple[Entry, Micros]], upto: Micros) -> None:
        """File what follows fires; where it is much, and none of it is due yet, in the next step, after these are out.

        Until then no watermark passes the fired rows, from which a successor of this owner would derive it again.
        """
        if len(following) >= self._owed_min and min(at for _, at in following) > upto:
            self._owed += following
            return
        for entry, at in following:
            self._file_next(step, self._successors.row(entry, at))

    def _is_preceded(self, entry: Entry) -> bool:
        """Tell whether something that was filed while what is due is decided comes before an entry of that."""
        return self._filed_first is not None and self._filed_first < entry[:3]

    def _decide(self, step: Step, entry: Entry, stamp: bytes, before: Place) -> int:
        """Decide one due entry, and file what follows it; return the size of what was dispatched."""
        void = self._state.voids.get(entry.job_id)
        if void is not None and entry.version < void.version:
            return 0
        timer = is_timer(entry)
        if not timer and self._parking.holds(entry.job_id):
            self._held.hold(step, entry)
            return 0
        step.at_hand = entry
        if self._set_asides.refuses(step, entry):
            return 0
        if timer:
            if (following_timer := self._timers.ring(step, entry)) is not None:
                self._file_next(step, following_timer)
            return 0
        fault = self._faults.pop(entry.key, None) if self._faults else None
        fault = fault or self._dispatches.fault_of_lane(entry.lane)
        if fault is not None:
            self._dispatches.set_aside(step, entry, fault)
            self._timers.suspend(step, entry, fault)
            return 0
        if not entry.plan:
            return self._run(step, entry, stamp, last=True)
        following = self._successors.follow(entry, step.now, before)
        while following.instead is not None:
            self._tell(step, entry, following)
            before = max(before, Place(*entry[:3]))
            entry = following.instead
            following = self._successors.follow(entry, step.now, before)
        size, last = 0, following.entry is None
        if following.backlog_upto is not None:
            size = self._fall_behind(step, entry, stamp, following.backlog_upto, last=last)
        elif following.runs:
            size = self._run(step, entry, stamp, last=last)
        elif last:
            self._file_next(step, self._timers.after_last(step, entry))
        self._file(step, entry, following)
        return size

    def _run(self, step: Step, entry: Entry, stamp: bytes, *, last: bool) -> int:
        """Dispatch an entry, or what its job wants where it may not run now; return the size of what was dispatched.

        ``last``: nothing of its job is to come. With its end the job may end; where it does not begin, a timer looks.
        """
        plan = plan_of(entry.plan)
        way = self._overlaps.admit(step, entry.execution_id, plan.overlap)
        if way in REFUSED:
            self._dispatches.skip(step, entry.execution, stamp, REFUSED[way], plan.alert_on)
            if last:
                self._file_next(step, self._timers.after_last(step, entry))
            return 0
        if plan.alert_on:
            tell_if_late(step, entry, plan)
        if way is Way.BEHIND:
            return self._overlaps.put_behind(step, entry.execution_id, entry.execution, last=last)
        step.tally.lateness.append(step.now - entry.run_at)
        step.turn = True
        return self._dispatches.fire(
            step,
            stamp,
            entry.tenant_id,
            entry.job_id,
            entry.execution_id,
            entry.lane,
            entry.execution,
            plan.max_duration,
            last=last,
        )

    def _fall_behind(self, step: Step, entry: Entry, stamp: bytes, upto: Micros, *, last: bool) -> int:
        """Put a missed entry, and what was missed since, among what is caught up with; a lone one may run at once."""
        plan = self._successors.plan(entry.plan)
        following = plan.next_after(entry.scheduled_for)
        alone = following is None or following > upto
        may_run = self._overlaps.look(entry.execution_id, plan.overlap) is Way.FREE
        if alone and may_run and self._catch_ups.is_up_to_date(entry):
            return self._run(step, entry, stamp, last=last)
        self._catch_ups.begin(step, Missed(entry, upto, plan.max_catch_up, SkipReason.MAX_CATCH_UP))
        if last:
            self._file_next(step, self._timers.after_last(step, entry))
        return 0

    def _file(self, step: Step, entry: Entry, following: Following) -> None:
        if following.name is not None:
            self._state.named[entry.job_id] = following.name
            step.named.append(following.name)
        self._tell(step, entry, following)
        if following.entry is not None:
            self._file_next(step, following.entry)

    def _tell(self, step: Step, entry: Entry, following: Following) -> None:
        """Publish what is not run."""
        if following.overdue is not None:
            wanted = plan_of(entry.plan).alert_on
            self._dispatches.skip_range(step, entry.execution, following.overdue, SkipReason.MISSED, wanted)
        if following.skipped is not None:
            wanted = plan_of(entry.plan).alert_on
            self._dispatches.skip_range(step, entry.execution, *following.skipped, wanted)

    def _file_next(self, step: Step, entry: Entry) -> None:
        """File the row that follows one that was decided."""
        step.inserts.append(entry)
        if self._horizon.has_begun(minute_of(entry.run_at)):
            self._wheel.add([entry])
            place = entry[:3]
            if self._filed_first is None or place < self._filed_first:
                self._filed_first = place
