"""An owner's care for its logs beside turns: deleting what is applied and old, holding back what is too much."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tocsin.domain.instants import DAY, SECOND, Micros
from tocsin.engine.shard_engine import ShardEngine
from tocsin.ports.shard_log import COMMANDS, REPORTS, ShardLog
from tocsin.roles.trigger.limits import LoopLimits

TRIM_EVERY: Final[Micros] = 3_600 * SECOND


class Trimming:
    """Deletes commands and reports that are applied and old, now and then; the log keeps them otherwise."""

    def __init__(self, log: ShardLog, kept_days: float, now: Micros) -> None:
        self._log = log
        self._kept = int(kept_days * DAY)
        self._trimmed_at = now

    def trim(self, engines: Mapping[int, ShardEngine], now: Micros) -> None:
        """Trim the logs of shards, if it is time."""
        if now < self._trimmed_at + TRIM_EVERY:
            return
        self._trimmed_at = now
        for shard, engine in engines.items():
            self._log.trim(COMMANDS, shard, engine.state.commands_offset, now - self._kept)
            self._log.trim(REPORTS, shard, engine.state.reports_offset, now - self._kept)


class HoldingBack:
    """Pauses a shard's commands while too many wait, and resumes at half: pausing drops what was prefetched."""

    def __init__(self, log: ShardLog, limits: LoopLimits) -> None:
        self._log = log
        self._limits = limits
        self._paused: set[int] = set()

    def look(self, engines: Mapping[int, ShardEngine]) -> None:
        """Pause and resume shards by what waits in them."""
        for shard, engine in engines.items():
            backlog, limits = engine.backlog(), self._limits
            waiting = max(
                backlog.commands / limits.commands_waiting_max,
                backlog.command_bytes / limits.command_bytes_waiting_max,
            )
            if shard not in self._paused and waiting > 1:
                self._log.pause(shard)
                self._paused.add(shard)
            elif shard in self._paused and waiting <= 0.5:
                self._log.resume(shard)
                self._paused.discard(shard)

    def forget(self, shard: int) -> None:
        """A shard is no longer driven here."""
        self._paused.discard(shard)
