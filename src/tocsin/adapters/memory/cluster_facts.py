"""Facts of the cluster in a dictionary."""

from __future__ import annotations


class MemoryClusterFacts:
    """Fulfils ``ports.cluster_facts.ClusterFacts``."""

    def __init__(self) -> None:
        self._facts: dict[str, tuple[int, str]] = {}

    def read_fact(self, name: str) -> str | None:
        fact = self._facts.get(name)
        return fact[1] if fact else None

    def write_fact(self, name: str, value: str, timestamp: int) -> None:
        self._facts[name] = max((timestamp, value), self._facts.get(name, (0, "")))
