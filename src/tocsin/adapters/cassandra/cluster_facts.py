"""Facts of the cluster, one row each. Read and written a few times in a process's life, so nothing here is fast."""

from __future__ import annotations

from tocsin.adapters.cassandra.session import Connection


class CassandraClusterFacts:
    """Fulfils ``ports.cluster_facts.ClusterFacts``; waits for the store's answers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def read_fact(self, name: str) -> str | None:
        rows = self._connection.execute(self._connection.bound("select_fact", (name,)))
        return rows[0][0] if rows else None

    def write_fact(self, name: str, value: str, timestamp: int) -> None:
        self._connection.execute(self._connection.bound("upsert_fact", (name, value, timestamp)))
