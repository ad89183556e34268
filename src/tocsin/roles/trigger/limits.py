"""The bounds of the owner's loop, and what one of its turns brings to one shard."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.ports.jobs_log import JobsPage
from tocsin.ports.schedule_store import Completion
from tocsin.ports.shard_log import LogRecord


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """Bounds of one turn of the loop.

    Attributes:
        commands_max, reports_max: records taken in by one poll.
        commands_waiting_max, command_bytes_waiting_max: commands of a shard read ahead before its partition pauses.
        completions_max: completions of the store taken in by one turn.
        wait_max_s: the longest wait for the first command.
        jobs_page_records_max: records of the jobs log read at once for a rebuild of the index.
        log_kept_days: applied commands and reports younger than this are kept in the log.
        reports_waiting_max: reports that wait for their shards' turns, before no more are read.
        transaction_bytes_max: once a turn holds so much, the shards that have not been stepped wait for the next.
        ahead_records_min: a shard's part of a turn is sent while others are stepped, if it has so many records.
        ahead_max_s: once that has been going on for so long, the shards that have not been stepped wait for the next:
            a transaction lasts a few seconds, and some of them must be left for ending it.
    """

    commands_max: int = 1_000
    reports_max: int = 5_000
    commands_waiting_max: int = 20_000
    command_bytes_waiting_max: int = 32_000_000
    completions_max: int = 1_000
    wait_max_s: float = 0.02
    jobs_page_records_max: int = 2_000
    log_kept_days: float = 7.0
    reports_waiting_max: int = 50_000
    transaction_bytes_max: int = 64_000_000
    ahead_records_min: int = 100
    ahead_max_s: float = 1.0


@dataclass(slots=True)
class Arrived:
    """What one turn brings to one shard."""

    commands: list[LogRecord] = field(default_factory=list)
    reports: list[LogRecord] = field(default_factory=list)
    completions: list[Completion] = field(default_factory=list)
    jobs_page: JobsPage | None = None
