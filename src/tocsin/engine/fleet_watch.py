"""Which processes are gone, judged by the broker's time alone.

A process is silent when for 30 s of broker time, in which our own beats came back at most 10 s apart, none of its beats
did. A new start under the same name shortens that to 10 s; a process that said goodbye is gone at once. So a trigger
that is itself cut off, or a holder whose clock is wrong, condemns nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from tocsin.domain.instants import SECOND, Micros
from tocsin.ports.fleet_log import SeenBeat

SILENCE: Final[Micros] = 30 * SECOND
SILENCE_OF_RESTARTED: Final[Micros] = 10 * SECOND
STEADY_GAP: Final[Micros] = 10 * SECOND
"""Our own beats must come back at most so far apart for a silence to count."""


@dataclass(slots=True)
class _Process:
    name: tuple[str, str]
    """Role and name: the default name is the host's, which all roles share."""
    first_seen: Micros
    last_seen: Micros
    stopped: bool
    pools: tuple[str, ...] = ()


class FleetWatch:
    """What one trigger has seen of the fleet."""

    def __init__(self, own_process_id: str) -> None:
        self._own = own_process_id
        self._processes: dict[str, _Process] = {}
        self._latest_start: dict[tuple[str, str], Micros] = {}
        """By role and name: when the latest such process was first seen."""
        self._now: Micros | None = None
        """Broker time, as our own latest beat says."""
        self._steady_since: Micros = 0
        self._asked: dict[str, Micros] = {}
        """By holder: broker time at which it was first asked about."""

    def take(self, beats: Iterable[SeenBeat]) -> None:
        """Take in beats in the order of the log."""
        for beat in beats:
            self._see(beat)

    def silent(self, holders: Collection[str]) -> frozenset[str]:
        """Return those of the holders that are gone. One that never beat is given as long."""
        now = self._now
        if now is None:
            return frozenset()
        self._asked = {holder: self._asked.get(holder, now) for holder in holders}
        return frozenset(holder for holder in holders if self._is_silent(holder, now))

    def workers_by_pool(self) -> dict[str, int]:
        """Return how many processes serve each pool that have beaten lately, and not said that they stopped."""
        counts: dict[str, int] = {}
        # A copy: another thread may ask while this one takes beats in.
        for known in list(self._processes.values()):
            if not known.stopped and (self._now is None or self._now - known.last_seen < SILENCE):
                for pool in known.pools:
                    counts[pool] = counts.get(pool, 0) + 1
        return counts

    def _see(self, beat: SeenBeat) -> None:
        heartbeat, at = beat
        known = self._processes.get(heartbeat.process_id)
        if known is None:
            name = (heartbeat.role, heartbeat.name)
            self._processes[heartbeat.process_id] = _Process(name, at, at, heartbeat.stopped, heartbeat.pools)
            self._latest_start[name] = at
        else:
            known.last_seen = at
            known.stopped = known.stopped or heartbeat.stopped
        if heartbeat.process_id == self._own:
            if self._now is None or at - self._now > STEADY_GAP:
                self._steady_since = at
            self._now = at

    def _is_silent(self, holder: str, now: Micros) -> bool:
        known = self._processes.get(holder)
        if known is not None and known.stopped:
            return True
        last_seen = known.last_seen if known is not None else self._asked[holder]
        restarted = known is not None and self._latest_start.get(known.name, 0) > known.last_seen
        patience = SILENCE_OF_RESTARTED if restarted else SILENCE
        return now - max(last_seen, self._steady_since) >= patience
