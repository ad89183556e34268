"""Port: reading the heartbeats of all processes."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tocsin.domain.fleet import Heartbeat
from tocsin.domain.instants import Micros


class SeenBeat(NamedTuple):
    """A heartbeat as it came back."""

    heartbeat: Heartbeat
    appended_at: Micros
    """The broker's time, µs."""


class FleetLog(Protocol):
    """The heartbeats that are kept, and those that come."""

    def poll(self, limit: int) -> list[SeenBeat]:
        """Return up to ``limit`` beats that have arrived, in order; never waits."""
        ...

    def close(self) -> None: ...
