"""The log as the projector reads it, in memory: a list of records, and a position that a crash throws back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tocsin.ports.projection_log import ProjectedRecord


class MemoryProjectionLog:
    """Fulfils ``ports.projection_log.ProjectionLog``; brings records in the order in which they were appended.

    Attributes:
        records: all there are.
        committed: how many of them are filed for good.
        polls: how often it was asked.
    """

    def __init__(self, records: Iterable[ProjectedRecord] = (), batch_records_max: int = 2_000) -> None:
        self.records = list(records)
        self.batch_records_max = batch_records_max
        self.committed = 0
        self.polls = 0
        self.paused = False
        self.closed = False
        self._position = 0

    def poll(self, wait_s: float) -> list[ProjectedRecord]:
        self.polls += 1
        if self.paused:
            return []
        found = self.records[self._position : self._position + self.batch_records_max]
        self._position += len(found)
        return found

    def commit(self) -> None:
        self.committed = self._position

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def lag(self) -> Mapping[str, int]:
        lags = Counter({record.topic: 0 for record in self.records})
        lags.update(record.topic for record in self.records[self._position :])
        return lags

    def close(self) -> None:
        self.closed = True

    def crash(self) -> None:
        """Go back to what is committed, as a successor would."""
        self._position = self.committed
        self.paused = False
