"""Heartbeats in memory. Fulfils ``ports.fleet``."""

from __future__ import annotations

from tocsin.domain.fleet import Heartbeat


class MemoryFleetBeats:
    """Fulfils ``ports.fleet.FleetBeats``."""

    def __init__(self) -> None:
        self.beats: list[Heartbeat] = []
        self.is_closed = False

    def send(self, heartbeat: Heartbeat) -> None:
        self.beats.append(heartbeat)

    def close(self, wait_s: float) -> None:
        self.is_closed = True
