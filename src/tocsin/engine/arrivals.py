"""What a step of the engine is given, and what it leaves waiting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tocsin.ports.jobs_log import JobsPage
from tocsin.ports.schedule_store import Completion
from tocsin.ports.shard_log import LogRecord


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What a step is given.

    Attributes:
        commands, reports: newly read, in log order.
        completions: of the store.
        reports_end: the end of the shard's reports as an uncommitted reader sees it, where it was asked for.
        reports_seen: an offset below which no report is left to read.
        silent: processes that are known to be gone.
        jobs_page: of the jobs log, where one was asked for.
    """

    commands: Sequence[LogRecord] = ()
    reports: Sequence[LogRecord] = ()
    completions: Sequence[Completion] = ()
    reports_end: int | None = None
    reports_seen: int = 0
    silent: frozenset[str] = frozenset()
    jobs_page: JobsPage | None = None


class Backlog(NamedTuple):
    """What waits in a shard: commands and their bytes, reports, and turns that the store has not acknowledged."""

    commands: int
    command_bytes: int
    reports: int
    unwritten_turns: int
