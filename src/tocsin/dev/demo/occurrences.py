"""What is due, and the calls that it led to: the demonstration's two sides, which ``tally`` compares. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tocsin.domain.instants import Micros

Key = tuple[str, Micros]
"""An occurrence: a job, and its nominal time."""


class Kind(StrEnum):
    """What a job is there to show."""

    SPREAD = "spread"
    BURST = "burst"
    SLOW = "slow"
    MESSAGE = "message"
    CRON = "cron"
    INTERVAL = "interval"


RECURRING = (Kind.CRON, Kind.INTERVAL)


@dataclass(frozen=True, slots=True)
class Created:
    """A job that the gateway took, or one occurrence of it.

    Attributes:
        job_id, due_at, kind: which, when (of a recurring job: the first time), and what for.
        answered_at: when its answer arrived, µs.
        decided: answered 201; else 202, in the log but not yet decided.
    """

    job_id: str
    due_at: Micros
    kind: Kind
    answered_at: Micros
    decided: bool = True

    @property
    def key(self) -> Key:
        """The occurrence."""
        return self.job_id, self.due_at


@dataclass(slots=True)
class Call:
    """One call that the target got, or one record that arrived on the topic; times in µs of this machine's clock.

    Attributes:
        arrived_at: when it began.
        redelivered: said by tocsin to be one that may have run before.
        ended_at: when its answer was ready; None while it is under way.
        broken: then, whether the caller was gone.
    """

    arrived_at: Micros
    redelivered: bool = False
    ended_at: Micros | None = None
    broken: bool = False

    @property
    def answered(self) -> bool:
        """Whether the caller got the answer, as far as the target can know."""
        return self.ended_at is not None and not self.broken
