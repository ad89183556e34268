"""Does to many executions what was decided of all of them: a job may have very many, so each step does a share.

What is decided holds from the decision on, though: what comes up to be started meanwhile asks here first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from heapq import nsmallest
from itertools import islice
from typing import Final, NamedTuple

from tocsin.domain.jobs import Job
from tocsin.domain.policies import Overlap
from tocsin.domain.shard_records import IDLE, Phase, WorkItem
from tocsin.engine.actives import Actives, job_of, shared_by
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.shard_state import ShardState
from tocsin.engine.stops import REPLACED, Stops
from tocsin.engine.work import Progress, Room, Work

KIND: Final = "sweep"
AT_ONCE_MAX: Final = 4
"""So few are swept by the decision itself. Mostly there are no more: one that runs, and one that waits for its end."""


class Deed(StrEnum):
    """What is done to each."""

    REPLACE = "replace"
    """It ends, for another takes its place."""
    DELETE = "delete"
    """It ends if it waits, and else fails for good: its job was deleted."""
    LET_GO = "let_go"
    """It waits no more for what is before it: its job has come to allow them to overlap."""


class Sweep(NamedTuple):
    """One decision.

    Attributes:
        of: the execution that replaces others; or the job, as ``job_of`` gives it.
        after: all executions up to this one are done with, in the order of their ids.
    """

    deed: Deed
    of: str
    after: str = ""


class Sweeps:
    """The sweeps of one shard."""

    def __init__(self, state: ShardState, actives: Actives, dispatches: DispatchDesk, stops: Stops, work: Work) -> None:
        self._actives = actives
        self._dispatches = dispatches
        self._stops = stops
        self._work = work
        self._replacing: dict[str, tuple[str, WorkItem]] = {}
        """By what they share: the execution that takes the place of others, as long as some are left to be told."""
        self._deleted: set[str] = set()
        """Jobs likewise."""
        for item in state.work.values():
            if item.kind == KIND and (sweep := _read(item)) is not None:
                self._note(sweep, item)
        work.register(KIND, self)

    def replace(self, step: Step, execution_id: str) -> None:
        """Have all end that are in the way of an execution. Where some are left it must be put behind them."""
        former, item = self._replacing.get(shared_by(execution_id), (None, None))
        if former is not None and self._stands_behind(former):
            # However fast they come, only one waits for the end of the many.
            self._stops.begin(step, former, REPLACED)
        others, sweep = self._actives.sharing(execution_id), Sweep(Deed.REPLACE, execution_id)
        if len(others) <= AT_ONCE_MAX:
            for other in sorted(others):
                self._stops.begin(step, other, REPLACED)
        elif item is None:
            self._begin(step, sweep)
        else:
            item = item._replace(data=_written(sweep))
            self._work.change(step, item)
            self._note(sweep, item)

    def is_waiting(self, job: Job) -> bool:
        """Tell whether something of a job is active, and all of it waits for its first dispatch, or for a retry."""
        found = [active for active in map(self._actives.get, self._actives.of_job(_key(job))) if active]
        return bool(found) and all(active.phase in IDLE and not active.is_made_again for active in found)

    def delete(self, step: Step, job: Job) -> None:
        """End what of a job waits to be dispatched, and let what runs fail for good."""
        key = _key(job)
        left = self._actives.of_job(key)
        if len(left) > AT_ONCE_MAX:
            self._begin(step, Sweep(Deed.DELETE, key))
            return
        for execution_id in left:
            self._stops.leave(step, execution_id)

    def is_left(self, execution_id: str) -> bool:
        """Tell whether an execution's job was deleted while very many of it were active: none is attempted again."""
        return job_of(execution_id) in self._deleted

    def let_go(self, step: Step, job: Job) -> None:
        """Let what of a job stands behind others go on beside them."""
        key = _key(job)
        if any(self._actives.behind_of(key)):
            self._begin(step, Sweep(Deed.LET_GO, key), job.job_id)

    def takes(self, step: Step, execution_id: str) -> bool:
        """Tell whether an execution that waits, and might start now, ends instead; it has ended then."""
        if not self._replacing and not self._deleted:
            return False
        if self.is_left(execution_id):
            return self._stops.leave(step, execution_id)
        successor, _ = self._replacing.get(shared_by(execution_id), (None, None))
        if successor in (None, execution_id) or not self._stands_behind(successor):
            return False
        self._stops.begin(step, execution_id, REPLACED)
        return True

    def go_on(self, step: Step, item: WorkItem, room: Room) -> Progress:
        sweep = _read(item)
        if sweep is None:
            raise ValueError("it names no deed")
        share = room.portions
        found = nsmallest(share, self._left(sweep)) if sweep.deed is not Deed.LET_GO else self._first(sweep, share)
        room.take()
        for execution_id in found:
            active = self._actives.get(execution_id)
            assert active is not None, "what is left was looked up in this step"
            room.take(len(active.execution))
            if sweep.deed is Deed.REPLACE:
                self._stops.begin(step, execution_id, REPLACED)
            elif sweep.deed is Deed.DELETE:
                self._stops.leave(step, execution_id)
                sweep = sweep._replace(after=execution_id)
            else:
                self._dispatches.let_go(step, execution_id)
            if room.used_up:
                return Progress(item._replace(data=_written(sweep)) if sweep.after else item)
        self._forget(sweep)
        return Progress(None)

    def job_changed(self, step: Step, item: WorkItem, job: Job) -> bool:
        return job.definition.overlap is Overlap.ALLOW

    def _left(self, sweep: Sweep) -> Iterable[str]:
        """Return what is still to be done, in no order."""
        if sweep.deed is Deed.DELETE:
            return (execution_id for execution_id in self._actives.of_job(sweep.of) if execution_id > sweep.after)
        if not self._stands_behind(sweep.of):
            return ()
        return self._actives.unstopped_before(sweep.of)

    def _first(self, sweep: Sweep, count: int) -> list[str]:
        return list(islice(self._actives.behind_of(sweep.of), count))

    def _stands_behind(self, execution_id: str | None) -> bool:
        """Tell whether what is to replace others waits for their end. Else it ended, or all of them did."""
        one = None if execution_id is None else self._actives.get(execution_id)
        return one is not None and one.phase == Phase.BEHIND

    def _begin(self, step: Step, sweep: Sweep, job_id: str | None = None) -> None:
        self._note(sweep, self._work.begin(step, KIND, job_id, _written(sweep)))

    def _note(self, sweep: Sweep, item: WorkItem) -> None:
        if sweep.deed is Deed.REPLACE:
            self._replacing[shared_by(sweep.of)] = sweep.of, item
        elif sweep.deed is Deed.DELETE:
            self._deleted.add(sweep.of)

    def _forget(self, sweep: Sweep) -> None:
        if sweep.deed is Deed.REPLACE:
            self._replacing.pop(shared_by(sweep.of), None)
        elif sweep.deed is Deed.DELETE:
            self._deleted.discard(sweep.of)


def _key(job: Job) -> str:
    return f"{job.job_id}.{job.created_version}"


def _written(sweep: Sweep) -> str:
    return json.dumps(sweep._asdict(), separators=(",", ":"))


def _read(item: WorkItem) -> Sweep | None:
    """Return what an item is about; None where it is damaged."""
    try:
        data = json.loads(item.data)
        sweep = Sweep(Deed(data["deed"]), data["of"], data["after"])
        if sweep.deed is Deed.REPLACE:
            shared_by(sweep.of)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return sweep
