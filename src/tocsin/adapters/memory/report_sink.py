"""Reports in memory. Fulfils ``ports.report_sink``."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple


class SentReport(NamedTuple):
    """A report that was handed in."""

    job_id: str
    report: bytes


class MemoryReportSink:
    """Fulfils ``ports.report_sink.ReportSink``.

    Attributes:
        held: nothing is acknowledged while this is set; what is not acknowledged is not in the log.
        log: the durable reports.
    """

    def __init__(self) -> None:
        self.held = False
        self.log: list[SentReport] = []
        self._under_way: deque[tuple[Any, SentReport]] = deque()

    def send(self, ref: Any, job_id: str, report: bytes) -> None:
        self._under_way.append((ref, SentReport(job_id, report)))

    def acknowledged(self, wait_s: float) -> list[Any]:
        if self.held:
            return []
        refs = []
        while self._under_way:
            ref, sent = self._under_way.popleft()
            self.log.append(sent)
            refs.append(ref)
        return refs

    def close(self, wait_s: float) -> None:
        self.acknowledged(wait_s)
