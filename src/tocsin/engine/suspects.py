"""Suspects: what a step was busy with when it failed, and what is known of those that made it fail.

A state in memory is worth nothing after a failure, so its shard is restored from the log. The new engine is told what
to set aside instead of deciding it, and in how small portions to work. All of it lives in memory only: whoever takes
the shard over meets the fault again, and finds it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from tocsin.domain.entries import Entry
from tocsin.ports.shard_log import LogRecord

ENTRY = "entry"
COMMAND = "command"
REPORT = "report"
EXECUTION = "execution"
JOB = "job"
WORK = "work"
FAULT_OF_TOCSIN = "the engine fails on it each time; report this as a fault of tocsin"

SuspectId = tuple[str, object]


class Suspect(NamedTuple):
    """One thing that a step decides. ``thing``: an entry, a record, or the id of an execution, job or work item."""

    kind: str
    thing: Entry | LogRecord | str

    @property
    def id(self) -> SuspectId:
        """What stays the same when it is met again."""
        if isinstance(self.thing, Entry):
            return (self.kind, self.thing.key)
        return (self.kind, self.thing.offset if isinstance(self.thing, LogRecord) else self.thing)


class Severity(IntEnum):
    """How much is still done for a culprit; each failure on its account leaves less."""

    SET_ASIDE = 1
    """A dead letter with its bytes, an event or an answer, and its job is suspended."""
    BARE = 2
    """A dead letter that says only where it stood: its bytes may be what cannot be written."""
    PASSED_OVER = 3
    """Nothing: even saying that it exists fails."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What a new engine is told of its shard.

    Attributes:
        culprits: what is set aside when it is met, and how.
        portion: 1: as its limits say; larger: so many times less at once; 0: one thing a step.
    """

    culprits: Mapping[SuspectId, Severity] = field(default_factory=dict)
    portion: int = 1


UNSUSPECTED = Suspicion()
