"""Reading the fleet's heartbeats: who is gone, and how far our own clock is off."""

from __future__ import annotations

from collections.abc import Collection

from tocsin.domain.instants import Micros
from tocsin.engine.broker_clock import BrokerClock
from tocsin.engine.fleet_watch import FleetWatch
from tocsin.ports.fleet_log import FleetLog

BEATS_MAX = 5_000
"""How many heartbeats are taken in at once."""


class FleetReader:
    """Feeds a watch, and the clock, from the log of heartbeats.

    Args:
        log: of the heartbeats.
        own: our process id; new at every start, so no beat of a former start is taken for ours.
        clock: None where nobody asks how far it is off.
    """

    def __init__(self, log: FleetLog, own: str, clock: BrokerClock | None = None) -> None:
        self._log = log
        self._own = own
        self._clock = clock
        self._watch = FleetWatch(own)

    def read(self, local: Micros) -> None:
        """Take in what has come. ``local``: our own time at the reading, µs."""
        beats = self._log.poll(BEATS_MAX)
        self._watch.take(beats)
        for heartbeat, appended_at in beats:
            if self._clock is not None and heartbeat.process_id == self._own and heartbeat.sent_at is not None:
                self._clock.observe(heartbeat.sent_at, appended_at, local)

    def workers_by_pool(self) -> dict[str, int]:
        """Return how many living processes serve each pool; any thread may ask."""
        return self._watch.workers_by_pool()

    def silent(self, holders: Collection[str]) -> frozenset[str]:
        """Return those of the holders that are gone."""
        return self._watch.silent(holders)
