"""Pools that are there because a test says so."""

from __future__ import annotations


class MemoryPoolRoll:
    """Fulfils ``ports.pools.PoolRoll``.

    Attributes:
        pools: each with its partitions.
        working: those in which work waits.
    """

    def __init__(self, **pools: int) -> None:
        self.pools = pools
        self.working: set[str] = set()

    def partitions(self) -> dict[str, int]:
        return dict(self.pools)

    def has_work(self, pool: str) -> bool:
        return pool in self.working

    def close(self) -> None:
        """Nothing is held."""
