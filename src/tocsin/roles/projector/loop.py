"""The projector's loop: poll, file, commit the offsets. Whoever steps it brings the time; nothing here sleeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import structlog

from tocsin.domain.errors import Unavailable
from tocsin.ports.meters import ProjectorMeter
from tocsin.ports.projection_log import ProjectionLog
from tocsin.ports.views import ViewWriter
from tocsin.roles.projector.sorting import Batch, Decoder, sort_records

log = structlog.get_logger()

_LAG_EVERY_S: Final = 1.0
_DOUBLINGS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class ProjectorLimits:
    """Bounds of the loop.

    Attributes:
        wait_max_s: how long a step may wait for records.
        retry_first_s: pause after the first failed write; doubled with each further one.
        retry_max_s: the longest pause.
    """

    wait_max_s: float = 0.1
    retry_first_s: float = 0.1
    retry_max_s: float = 5.0


class ProjectorLoop:
    """Files batch after batch; one that the store does not take is kept and tried again.

    Args:
        log: where records come from.
        views: where they go.
        codec: reads them.
        meter: counts them.
        epoch: incarnation of the topics.
        limits: see ``ProjectorLimits``.
    """

    def __init__(
        self,
        log: ProjectionLog,
        views: ViewWriter,
        codec: Decoder,
        meter: ProjectorMeter,
        epoch: int,
        limits: ProjectorLimits | None = None,
    ) -> None:
        self._log = log
        self._views = views
        self._codec = codec
        self._meter = meter
        self._epoch = epoch
        self._limits = limits or ProjectorLimits()
        self._kept: Batch | None = None
        self._failures = 0
        self._retry_at_s = 0.0
        self._lag_at_s = float("-inf")

    def step(self, now_s: float) -> int:
        """Do one round: bring records and file them, or try again what could not be filed.

        Args:
            now_s: of a clock that never goes back, in seconds.

        Returns:
            How many records were filed.
        """
        self._report_lag(now_s)
        batch = self._kept
        if batch is None:
            records = self._log.poll(self._limits.wait_max_s)
            if not records:
                self._log.commit()
                return 0
            batch = sort_records(records, self._codec, self._epoch)
            self._report_skipped(batch)
        elif now_s < self._retry_at_s:
            self._log.poll(min(self._limits.wait_max_s, self._retry_at_s - now_s))
            return 0
        return self._file(batch, now_s)

    def _file(self, batch: Batch, now_s: float) -> int:
        try:
            if batch:
                self._views.write(batch.jobs, batch.dispatches, batch.events, batch.letters)
        except Unavailable as error:
            self._keep(batch, now_s, error)
            return 0
        self._log.commit()
        if self._kept is not None:
            log.info("the views are written again", action="projector.store_recovered", failures=self._failures)
            self._kept, self._failures = None, 0
            self._log.resume()
        filed = batch.filed
        for kind, count in filed.items():
            self._meter.projected(kind, count)
        return sum(filed.values())

    def _keep(self, batch: Batch, now_s: float, error: Unavailable) -> None:
        """Keep a batch for later; the log goes on being polled, so that the process stays in its group."""
        if self._kept is None:
            self._kept = batch
            self._log.pause()
        pause_s = self._limits.retry_first_s * 2.0 ** min(self._failures, _DOUBLINGS_MAX)
        self._failures += 1
        self._retry_at_s = now_s + min(self._limits.retry_max_s, pause_s)
        log.warning(
            "the views cannot be written; trying again",
            action="projector.store_retry",
            error=str(error),
            failures=self._failures,
        )

    def _report_lag(self, now_s: float) -> None:
        if now_s - self._lag_at_s < _LAG_EVERY_S:
            return
        self._lag_at_s = now_s
        for topic, records in self._log.lag().items():
            self._meter.lag(topic, records)

    def _report_skipped(self, batch: Batch) -> None:
        for kind, count in batch.skipped.items():
            for _ in range(count):
                self._meter.skipped(kind)
            log.warning(
                "records cannot be read and are left out of the views",
                action="projector.skipped",
                kind=kind,
                count=count,
                first=batch.where[kind],
            )
