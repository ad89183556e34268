"""Jobs logs in memory; ``held`` keeps what was asked for from coming."""

from __future__ import annotations

from tocsin.adapters.memory.shard_log import MemoryLog
from tocsin.ports.jobs_log import JobsPage, JobsRecord
from tocsin.ports.shard_log import JOBS


class MemoryJobsLog:
    """Fulfils ``ports.jobs_log.JobsLog``."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._asked: list[tuple[int, int, int]] = []
        self._readings: dict[int, tuple[int, int, dict[str, int]]] = {}
        """By shard: where the next page begins, the end, and the last offset of each job."""
        self.held = False

    def begin_read(self, shard: int, start: int, records_max: int) -> None:
        self._asked.append((shard, start, records_max))

    def completed(self) -> list[JobsPage]:
        if self.held:
            return []
        asked, self._asked = self._asked, []
        return [self._page(*one) for one in asked]

    def forget(self, shard: int) -> None:
        self._readings.pop(shard, None)
        self._asked = [one for one in self._asked if one[0] != shard]

    def close(self) -> None:
        self._asked.clear()

    def _page(self, shard: int, start: int, records_max: int) -> JobsPage:
        following, end, last = self._readings.get(shard, (-1, 0, {}))
        if following != start:
            end = self._log.end(JOBS, shard)
            last = {(r.key or b"").decode(): r.offset for r in self._log.read(JOBS, shard)}
        records = [record for record in self._log.read(JOBS, shard, start) if record.offset < end]
        looked_at = records[:records_max]
        following = looked_at[-1].offset + 1 if len(looked_at) < len(records) else end
        self._readings[shard] = following, end, last
        keyed = [(record, (record.key or b"").decode()) for record in looked_at]
        found = [
            JobsRecord(record.offset, key, record.value)
            for record, key in keyed
            if record.value is not None and last[key] == record.offset
        ]
        return JobsPage(shard, start, found, following, end)
