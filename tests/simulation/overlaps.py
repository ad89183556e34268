"""The oracle's own idea of executions that are in each other's way, and of those that are not to go on.

Kept apart from who reports what (``ends``): here is who may start beside whom, who waits behind whom, and what ends a
run that was cancelled, replaced or too long.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from tests.simulation.broker import Violation
from tocsin.domain.commands import OutcomeDetail
from tocsin.domain.executions import ExecutionEvent
from tocsin.domain.fleet import Cancel
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.policies import Overlap
from tocsin.domain.shard_records import Active, Phase

if TYPE_CHECKING:
    from tests.simulation.ends import Ends, Running

BEHIND_MAX: Final = 3
"""How many may stand behind others; the owners of a run have the same bound."""
AT_ONCE_MAX: Final = 4
"""With more in the way, what replaces them stands behind them, and the turn ends them after that."""
IDLE: Final = ("waiting", "behind")


class Overlaps:
    """Who is in whose way, over all executions of ``ends``."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._told: dict[str, tuple[str, str]] = {}
        """By execution: state and reason of the event by which a turn must tell what a command has ended."""
        self._to_tell: dict[str, int] = {}
        """By execution: the token up to which a turn must tell workers not to start it."""
        self._cleared: dict[str, str] = {}
        """By what they share: an execution that was ended for a successor, which the turn has yet to show."""
        self._queued: set[str] = set()
        """Executions whose waiting a turn must tell, for a command has asked for them."""
        self._overtaken: set[str] = set()
        """What a successor that the turn has shown takes the place of, and the turn has yet to end."""
        self._let_go: set[str] = set()
        """What a turn must let go on though it stands behind others: its job has come to allow that."""
        self._released: set[str] = set()
        """Executions that stood behind others when the turn began, and no longer do when it ends."""

    def sharing(self, execution_id: str) -> list[str]:
        """Return the executions of the same job or group that have not ended."""
        shared = shared_by(execution_id)
        return [name for name in self._ends.active if shared_by(name) == shared]

    def is_taken(self, execution_id: str) -> bool:
        return bool(self.sharing(execution_id))

    def way(self, execution_id: str, overlap: Overlap, gone: Collection[str] = ()) -> str:
        """Return what must become of an execution that is to start: ``free``, ``behind``, ``full`` or ``taken``.

        Args:
            execution_id, overlap: it, and its job's policy.
            gone: what stands behind others no longer, though it is not known yet how it went on.
        """
        others = self.sharing(execution_id)
        if overlap is Overlap.ALLOW or not others:
            return "free"
        if overlap is Overlap.SKIP:
            return "taken"
        if overlap is Overlap.REPLACE:
            current = [name for name in others if self._ends.active[name].phase not in IDLE]
            return "behind" if current or len(others) > AT_ONCE_MAX else "free"
        standing = [name for name in others if self._ends.active[name].phase == "behind" and name not in gone]
        return "full" if len(standing) >= BEHIND_MAX else "behind"

    # Commands

    def asked_for(self, execution_id: str, overlap: Overlap, now: Micros) -> str:
        """A command asks for an execution; return its way, and expect of the turn what that leads to."""
        way = self.way(execution_id, overlap)
        if overlap is Overlap.REPLACE and self.is_taken(execution_id):
            for name in self.sharing(execution_id):
                self._end(name, "replaced", now)
        if way == "behind":
            self._queued.add(execution_id)
            self._ends.stand_behind(execution_id, now)
        return way

    def cancelled(self, execution_id: str, now: Micros) -> OutcomeDetail | None:
        """A command cancels an execution; return what it must be told, None where nothing of it is active."""
        if execution_id not in self._ends.active:
            return None
        return OutcomeDetail.CANCELLED if self._end(execution_id, "cancelled", now) else OutcomeDetail.CANCELLING

    def _end(self, execution_id: str, reason: str, now: Micros) -> bool:
        one = self._ends.active[execution_id]
        if one.phase in IDLE:
            state = "SKIPPED" if one.phase == "behind" and reason == "replaced" else "CANCELLED"
            self._told[execution_id] = state, reason
            self._ends.end(execution_id, state)
            return True
        if not one.ending:
            self._to_tell[execution_id] = one.token
            self._mark(one, reason, now)
        return False

    def allowed(self, job: str) -> None:
        """A job's executions may overlap from now on: what of it stands behind others goes on."""
        for name, one in self._ends.active.items():
            if name.startswith(f"{job}.") and one.phase == "behind":
                self._let_go.add(name)

    def deleted(self, execution_id: str) -> None:
        """A job was deleted, and what of it waits has ended with it."""
        self._told[execution_id] = "CANCELLED", "job_deleted"
        self._ends.end(execution_id, "CANCELLED")

    def _mark(self, one: Running, reason: str, now: Micros) -> None:
        one.ending, one.ends_by = reason, now + one.timeout + 30 * SECOND

    # What a turn says

    def turn_begins(self, changed: dict[str, Active]) -> None:
        """A turn's records follow, which leave these executions so."""
        self._released = {
            name
            for name, active in changed.items()
            if active.phase != Phase.BEHIND and name in self._ends.active and self._ends.active[name].phase == "behind"
        }

    def takes(self, event: ExecutionEvent) -> bool:
        """Tell whether an event is what a command has led to."""
        name = event.head.execution_id
        if event.state == "QUEUED" and name in self._queued:
            self._queued.discard(name)
            return True
        told = self._told.get(name)
        if told is None or told != (event.state, event.reason):
            return False
        del self._told[name]
        return True

    def dropped(self, event: ExecutionEvent) -> None:
        """Something that had not started ended, for something that replaces it: that must follow in the turn."""
        name = event.head.execution_id
        one = self._ends.active.get(name)
        if event.reason != "replaced" or one is None or one.phase not in IDLE:
            raise Violation(f"{name} was {event.state} with the reason {event.reason}, though it is {one}")
        if (event.state == "SKIPPED") != (one.phase == "behind"):
            raise Violation(f"{name} was {event.state} while it was {one.phase}")
        self._ended_for_another(name)
        self._ends.end(name, event.state)

    def told_workers(self, cancel: Cancel, changed: dict[str, Active], now: Micros) -> bool:
        """Workers are told not to start a dispatch; tell whether that is because it is being ended."""
        name = cancel.execution_id
        if name in self._to_tell:
            if self._to_tell.pop(name) != cancel.token:
                raise Violation(f"{cancel} names another token than the current one")
            return True
        active = changed.get(name)
        reason = None if active is None else active.ending
        if active is None or reason is None or self._ends.token_of(active) != cancel.token:
            # Of a dispatch that the turn replaced by another, which it may have ended as well.
            return False
        one = self._ends.active.get(name)
        if one is None or one.phase in IDLE or one.token != cancel.token or one.ending:
            raise Violation(f"{cancel} was published, though it is {one}")
        if reason == "max_duration":
            if one.too_long_at is None or now < one.too_long_at:
                raise Violation(f"{cancel} was published for it took too long, though its time is {one.too_long_at}")
        else:
            self._ended_for_another(name)
        self._mark(one, reason, now)
        return True

    def _ended_for_another(self, name: str) -> None:
        if name in self._overtaken:
            self._overtaken.discard(name)
        else:
            self._cleared[shared_by(name)] = name

    def admitted(self, execution_id: str, overlap: Overlap, way: str) -> None:
        """An occurrence was dispatched (``free``), queued, or skipped for what is active: that must be so."""
        # What is free to go on goes before anything fires.
        expected = self.way(execution_id, overlap, self._released)
        if way != expected:
            raise Violation(f"{execution_id} under {overlap}: its way was {way}, should be {expected}")
        if overlap is Overlap.REPLACE:
            self._cleared.pop(shared_by(execution_id), None)
            others = self.sharing(execution_id)
            going_on = {name for name in others if not self._ends.active[name].ending}
            if going_on and len(others) <= AT_ONCE_MAX:
                raise Violation(f"{execution_id} replaces, and {going_on} go on")
            self._overtaken |= going_on

    def released(self, execution_id: str) -> None:
        """What stood behind others goes on: it must be the first, and nothing else be left, or its job allow it."""
        if execution_id in self._let_go:
            self._let_go.discard(execution_id)
            return
        others = [name for name in self.sharing(execution_id) if name != execution_id]
        before = [name for name in others if self._ends.active[name].phase != "behind"]
        if before:
            raise Violation(f"{execution_id} goes on beside {before}")
        first = min(self.sharing(execution_id), key=lambda name: self._ends.active[name].came)
        if first != execution_id:
            raise Violation(f"{execution_id} goes on before {first}, which came earlier")

    def turn_ends(self, changed: dict[str, Active]) -> None:
        """All that a turn had to tell it has told."""
        left = [*self._told, *self._to_tell, *self._cleared.values(), *self._queued, *self._overtaken]
        if left:
            raise Violation(f"a turn did not tell of {left}")
        for name, active in changed.items():
            one = self._ends.active.get(name)
            if one is None or (active.ending or "") != one.ending:
                raise Violation(f"{name} is being ended for {active.ending}, should be {one}")
            if active.phase == Phase.WAITING and one.phase == "behind":
                self.released(name)
                one.phase = "waiting"
        if waits := [name for name in self._let_go if name in self._ends.active]:
            raise Violation(f"{waits} stand behind others, though their jobs allow them to go on")
        self._let_go.clear()


def shared_by(execution_id: str) -> str:
    """Return what executions are in each other's way by: a group, which ids of its jobs begin with, or a job."""
    job_id, version, _ = execution_id.split(".", 2)
    return job_id.split("~")[0] if "~" in job_id else f"{job_id}.{version}"
