"""Fires occurrences that nothing stands in the way of, many in one go.

A burst is mostly such: they are on time, nothing of their jobs is active, parked, void or found damaged, their plans
ask for nothing but to dispatch them, and their lane is there. Of each is decided what ``FiringDesk`` would decide, in
the same order and with the same effects; but in loops that call next to nothing, for here a call is a tenth of what a
fire may cost.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from typing import Final, NamedTuple

from tocsin.domain.entries import Entry, EntryKey
from tocsin.domain.executions import dispatch_key_end
from tocsin.domain.instants import Micros
from tocsin.domain.shard_records import Active
from tocsin.engine.actives import Actives
from tocsin.engine.dispatch_desk import DispatchDesk, Route
from tocsin.engine.effects import Step
from tocsin.engine.parking import Parking
from tocsin.engine.readied import Readied, ReadyEntries
from tocsin.engine.set_asides import SetAsides
from tocsin.engine.shard_state import ShardState
from tocsin.engine.successors import Successors
from tocsin.ports.codec import ExecutionCodec
from tocsin.ports.shard_log import NewRecord

GOES_ON: Final = Active(b"", 0)[2:]
LAST: Final = Active(b"", 0, last=True)[2:]
"""What is known of an execution as it is dispatched, but for its record and when that was: of what recurs, and of what
its job ends with."""


class Fired(NamedTuple):
    """What was dispatched.

    Attributes:
        end: where in what is due it ended.
        size: about how many bytes it came to.
        following: of what recurs, with when what follows it is due.
    """

    end: int
    size: int
    following: list[tuple[Entry, Micros]]


class PlainFires:
    """The plain fires of one shard.

    Args:
        state, actives, dispatches, parking, set_asides, successors, codec: the shard's.
        fewest: fewer at once are left to be looked at one by one.
    """

    def __init__(
        self,
        state: ShardState,
        actives: Actives,
        dispatches: DispatchDesk,
        parking: Parking,
        set_asides: SetAsides,
        successors: Successors,
        codec: ExecutionCodec,
        fewest: int,
    ) -> None:
        self._fewest = fewest
        self._state = state
        self._actives = actives
        self._dispatches = dispatches
        self._parking = parking
        self._set_asides = set_asides
        self._successors = successors
        self._codec = codec
        self._ready = ReadyEntries(codec.unsent_lead(), fewest)

    def get_ready(self, entries: Sequence[Entry]) -> None:
        """Do what can be done for the next second's entries before they are due; see ``ReadyEntries``."""
        self._ready.get_ready(entries)

    def look_at(self, due: list[Entry]) -> Sequence[Readied | None]:
        """Return what there is to know of due entries beforehand, for ``fire``: nothing where they are too few."""
        return self._ready.of(due) if len(due) >= self._fewest else ()

    def fire(
        self,
        step: Step,
        readied: Sequence[Readied | None],
        begin: int,
        stamp: bytes,
        room: int,
        faults: Collection[EntryKey],
    ) -> Fired:
        """Dispatch what is plain of due entries, from one of them on and up to the first that is not.

        Args:
            step: it goes into this.
            readied: what ``look_at`` gave for what is due, in firing order.
            begin: where in it to begin.
            stamp: of this step's first attempts.
            room: it ends once about so many bytes are dispatched.
            faults: damaged rows.
        """
        if len(readied) - begin < self._fewest or self._set_asides.knows_any:
            return Fired(begin, 0, [])
        # Should it fail, nobody knows on which: then the shard goes on in smaller portions, in the end one by one.
        step.at_hand = None
        lead = self._codec.restamp(self._codec.unsent_lead(), stamp)
        key_end = dispatch_key_end(1, step.number)
        voids, parked, running = self._state.voids, self._parking.jobs(), self._actives.jobs()
        records: list[NewRecord] = []
        values: list[bytes] = []
        last_values: list[bytes] = []
        """Of what recurs not: with the end of each its job may end."""
        actives: list[Active] = []
        begun: dict[str, str] = {}
        """Execution by what ``Actives`` know a job by."""
        routes: dict[tuple[str, str], Route] = {}
        following: dict[tuple[str, Micros], Micros | None] = {}
        """When what follows is due, by plan and nominal time: the same for all jobs that share them."""
        followed: list[tuple[Entry, Micros]] = []
        lateness: list[Micros] = []
        size, now, made = 0, step.now, tuple.__new__
        # What is looked at does not change in here, but for what begins; and that is looked at as well.
        for one in islice(readied, begin, None):
            if one is None:
                break
            entry, job, job_id, execution_id, where, spread, key, rest, plan, run_at = one
            if (
                size >= room
                or job in running
                or job in begun
                or (voids and job_id in voids)
                or (parked and job_id in parked)
                or (faults and entry.key in faults)
            ):
                break
            route = routes.get(where)
            if route is None:
                route = self._dispatches.route(*where)
                if route is None:
                    break
                routes[where] = route
            topic, partitions = route
            value = lead + rest
            # As ``NewRecord`` and ``Active`` make them, for three fifths of what that costs.
            record = (topic, partitions[spread % len(partitions)], key + key_end, value, None)
            if plan:
                scheduled_for = entry.scheduled_for
                planned = plan, scheduled_for
                if planned not in following:
                    following[planned] = self._successors.plain_next(plan, scheduled_for, now)
                at = following[planned]
                if at is None or run_at != scheduled_for:
                    break
                followed.append((entry, at))
                values.append(value)
                actives.append(made(Active, (value, now) + GOES_ON))  # noqa: RUF005 - a list is made for a star
            else:
                last_values.append(value)
                actives.append(made(Active, (value, now) + LAST))  # noqa: RUF005
            records.append(made(NewRecord, record))
            begun[job] = execution_id
            lateness.append(now - run_at)
            size += len(value)
        if not actives:
            return Fired(begin, 0, [])
        end = begin + len(actives)
        self._actives.begin_all(begun, actives)
        step.records += records
        step.dispatched += values
        step.dispatched_last += last_values
        step.tally.lateness += lateness
        step.turn = True
        return Fired(end, size, followed)
