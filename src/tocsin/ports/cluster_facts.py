"""Port: what is fixed for a whole cluster, such as its number of shards, kept where every process finds it."""

from __future__ import annotations

from typing import Protocol


class ClusterFacts(Protocol):
    """A few named texts. Both raise ``Unavailable`` when the store does not answer."""

    def read_fact(self, name: str) -> str | None:
        """Return a fact, or None where nobody has written it yet."""
        ...

    def write_fact(self, name: str, value: str, timestamp: int) -> None:
        """Write a fact; among several writes the one with the highest timestamp stays, whatever their order.

        Args:
            name: which fact.
            value: any text; what it means is the caller's.
            timestamp: positive. Of equal ones the greater text stays, so writers who disagree still end with one fact.
        """
        ...
