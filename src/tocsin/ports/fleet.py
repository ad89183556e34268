"""Port: where processes say that they live."""

from __future__ import annotations

from typing import Protocol

from tocsin.domain.fleet import Heartbeat


class FleetBeats(Protocol):
    """Sends heartbeats, on connections that nothing else uses. One thread uses it."""

    def send(self, heartbeat: Heartbeat) -> None:
        """Hand a heartbeat in; never waits. One that cannot be delivered within its period is dropped."""
        ...

    def close(self, wait_s: float) -> None:
        """Wait at most ``wait_s`` for what is under way, then release the connections."""
        ...
