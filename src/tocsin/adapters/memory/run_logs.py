"""The output of attempts in memory: the store's writing and reading side."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.domain.errors import Unavailable
from tocsin.ports.run_logs import LogChunk, LogPlace


class MemoryRunLogs:
    """Fulfils ``ports.run_logs.RunLogStore`` and ``RunLogReader``.

    Attributes:
        failing: while True, every call raises ``Unavailable``; a write may have happened in part by then.
    """

    def __init__(self) -> None:
        self.failing = False
        self._chunks: dict[tuple[str, int, int, int], LogChunk] = {}
        """By (execution, attempt, token, seq)."""

    def write(self, logs: Sequence[tuple[LogPlace, Sequence[LogChunk]]]) -> None:
        for place, chunks in logs:
            for chunk in chunks:
                self._chunks[place.execution_id, place.attempt, place.token, chunk.seq] = chunk
                self._check()
        self._check()

    async def read_log(
        self, execution_id: str, attempt: int, after: tuple[int, int] | None, limit: int
    ) -> list[LogChunk]:
        self._check()
        found = sorted(
            (place[2:], chunk)
            for place, chunk in self._chunks.items()
            if place[:2] == (execution_id, attempt) and (after is None or place[2:] > after)
        )
        return [chunk for _, chunk in found[:limit]]

    def close(self) -> None:
        """Nothing is open."""

    def _check(self) -> None:
        if self.failing:
            raise Unavailable("memory", "was told to fail")
