"""Fires one-offs that nothing stands in the way of, many in one go.

A burst is mostly such: their policies are the default ones, nothing of their jobs is active, parked, void or found
damaged, and their lane is there. Of each is decided what ``FiringDesk`` would decide of it, in the same order and with
the same effects; but in loops that call next to nothing, for here a call is a tenth of what a fire may cost.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from typing import Final
from zlib import crc32

from tocsin.domain.entries import Entry, EntryKey
from tocsin.domain.executions import dispatch_key_end
from tocsin.engine.actives import Actives
from tocsin.engine.dispatch_desk import DispatchDesk, Route
from tocsin.engine.effects import Step
from tocsin.engine.parking import Parking
from tocsin.engine.set_asides import SetAsides
from tocsin.engine.shard_state import ShardState
from tocsin.ports.codec import ExecutionCodec
from tocsin.ports.shard_log import NewRecord

DOTS: Final = 2
"""In the id of an execution that its job's schedule asked for: before the first version of its job, and behind it."""


class PlainFires:
    """The plain fires of one shard.

    Args:
        state, actives, dispatches, parking, set_asides, codec: the shard's.
        fewest: fewer at once are left to be looked at one by one.
    """

    def __init__(
        self,
        state: ShardState,
        actives: Actives,
        dispatches: DispatchDesk,
        parking: Parking,
        set_asides: SetAsides,
        codec: ExecutionCodec,
        fewest: int,
    ) -> None:
        self._fewest = fewest
        self._state = state
        self._actives = actives
        self._dispatches = dispatches
        self._parking = parking
        self._set_asides = set_asides
        self._codec = codec

    def fire(
        self, step: Step, due: Sequence[Entry], begin: int, stamp: bytes, room: int, faults: Collection[EntryKey]
    ) -> tuple[int, int]:
        """Dispatch what is plain of due entries, from one of them on and up to the first that is not.

        Args:
            step: it goes into this.
            due: in firing order.
            begin: where in it to begin.
            stamp: of this step's first attempts.
            room: it ends once about so many bytes are dispatched.
            faults: damaged rows.

        Returns:
            Where it ended, and about how many bytes were dispatched.
        """
        if len(due) - begin < self._fewest or due[begin].plan or self._set_asides.knows_any:
            return begin, 0
        # Should it fail, nobody knows on which: then the shard goes on in smaller portions, in the end one by one.
        step.at_hand = None
        unsent = self._codec.unsent_lead()
        lead, rest = self._codec.restamp(unsent, stamp), len(unsent)
        key_end = dispatch_key_end(1, step.number)
        voids, parked, running = self._state.voids, self._parking.jobs(), self._actives.jobs()
        records: list[NewRecord] = []
        values: list[bytes] = []
        begun: dict[str, str] = {}
        """Execution by what ``Actives`` know a job by."""
        routes: dict[tuple[str, str], Route | None] = {}
        size = 0
        # What is looked at does not change in here, but for what begins; and that is looked at as well.
        for entry in islice(due, begin, None):
            _, job_id, _, _, execution_id, tenant_id, lane, execution, plan = entry
            job = execution_id.rpartition(".")[0]
            if (
                plan
                or size >= room
                or job in running
                or job in begun
                or job_id in voids
                or job_id in parked
                or "~" in job_id
                or execution_id.count(".") != DOTS
                or not execution.startswith(unsent)
                or (faults and entry.key in faults)
            ):
                break
            place = lane, tenant_id
            if place not in routes:
                routes[place] = self._dispatches.route(lane, tenant_id)
            route = routes[place]
            if route is None:
                break
            topic, partitions = route
            value = lead + execution[rest:]
            partition = partitions[crc32(job_id.encode()) % len(partitions)]
            records.append(NewRecord(topic, partition, f"{tenant_id}|{execution_id}{key_end}", value))
            values.append(value)
            begun[job] = execution_id
            size += len(value)
        if not values:
            return begin, 0
        end = begin + len(values)
        now = step.now
        self._actives.begin_all(begun, values, now)
        step.records += records
        step.dispatched += values
        step.tally.lateness += [now - entry.run_at for entry in islice(due, begin, end)]
        step.turn = True
        return end, size
