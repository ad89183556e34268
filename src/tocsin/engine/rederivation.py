"""What former owners fired and may not have followed up: the present rows of those jobs are worked out again."""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.domain.entries import Entry, EntryKey
from tocsin.domain.timers import is_timer
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.held import HeldEntries
from tocsin.engine.set_asides import SetAsides
from tocsin.engine.shard_state import ShardState
from tocsin.engine.successors import Successors
from tocsin.engine.suspects import ENTRY, Suspect
from tocsin.engine.timers import Timers


class Rederivation:
    """The rows of one shard that are derived again after a takeover."""

    def __init__(
        self,
        state: ShardState,
        held: HeldEntries,
        set_asides: SetAsides,
        dispatches: DispatchDesk,
        successors: Successors,
        timers: Timers,
    ) -> None:
        self._state = state
        self._start = state.cursor
        """Rows at or before it fired under former owners."""
        self._held = held
        self._set_asides = set_asides
        self._dispatches = dispatches
        self._successors = successors
        self._timers = timers
        self._derived: dict[EntryKey, Entry] = {}

    def take(self, step: Step, entries: Iterable[Entry]) -> None:
        """Find what follows those of these rows that fired under a former owner."""
        for entry in entries:
            if entry[:3] > self._start or self._set_asides.refuses(step, entry):
                continue
            step.at_hand = Suspect(ENTRY, entry)
            if self._held.key_of(entry.job_id, entry.version) is not None:
                continue  # what follows is worked out when the occurrence at hand is decided
            successor = self._successor(entry) if self._counts(entry) else None
            if successor is not None:
                self._derived[successor.key] = successor

    def file(self, step: Step) -> None:
        """File what was derived again; it may be in the store already, and is then written once more, the same."""
        for entry in self._derived.values():
            if entry[:3] > self._state.cursor and self._counts(entry):
                step.inserts.append(entry)
                step.turn = True
        self._derived = {}

    def _counts(self, entry: Entry) -> bool:
        void = self._state.voids.get(entry.job_id)
        return void is None or entry.version >= void.version

    def _successor(self, entry: Entry) -> Entry | None:
        successor: Entry | None = None
        if not is_timer(entry):
            if self._dispatches.fault_of(entry) is not None:
                return None
            successor = self._successors.derive_again(entry) if entry.plan else None
        return successor or self._timers.derive_again(entry)
