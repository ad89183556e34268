"""The log of heartbeats in memory."""

from __future__ import annotations

from tocsin.ports.fleet_log import SeenBeat


class MemoryFleetLog:
    """Fulfils ``ports.fleet_log.FleetLog``.

    Attributes:
        arrived: what the next poll brings.
    """

    def __init__(self) -> None:
        self.arrived: list[SeenBeat] = []

    def poll(self, limit: int) -> list[SeenBeat]:
        beats, self.arrived = self.arrived[:limit], self.arrived[limit:]
        return beats

    def close(self) -> None:
        self.arrived.clear()
