"""What a job wants done with occurrences that were not run in time: values, defaults and their validation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tocsin.domain.fields import FieldReader
from tocsin.domain.instants import DAY, SECOND

MISFIRE_AFTER_S_DEFAULT: Final = 60.0
GRACE_S_MAX: Final = 366 * DAY // SECOND
MAX_CATCH_UP_DEFAULT: Final = 100
MAX_CATCH_UP_MAX: Final = 10_000


class CatchUp(StrEnum):
    """What happens to occurrences that are later than their job's patience."""

    FIRE_ONCE = "fire_once"
    """One late run, of the oldest, stands for all that were missed."""
    SKIP = "skip"
    """They are not run."""
    FIRE_ALL = "fire_all"
    """Each is run, oldest first, up to a number."""


class OnResume(StrEnum):
    """What happens to occurrences that passed while their job was paused."""

    SKIP = "skip"
    CATCH_UP = "catch_up"


class SkipReason(StrEnum):
    """Why an occurrence, or a range of them, is not run: the stable words of SKIPPED events."""

    OVERLAP = "overlap"
    """An execution of the job was active."""
    QUEUE_FULL = "queue_full"
    """As many as may were waiting behind an active one already."""
    REPLACED = "replaced"
    """A later one took its place before it could start."""
    MISSED = "missed"
    """A late run stands for it."""
    LATE = "late"
    """It was late beyond the grace of a job that skips."""
    MAX_CATCH_UP = "max_catch_up"
    """More was missed than the job wants to have run."""
    PAUSED = "paused"
    """Its time passed in a pause, or its job was paused before it was caught up with."""
    UPDATED = "updated"
    """Its job was edited before it was caught up with."""
    DELETED = "deleted"
    """Its job was deleted before it was caught up with."""
    MOVED = "moved"
    """The zone data have changed, and it runs at another time, later."""


@dataclass(frozen=True, slots=True)
class CatchUpPolicy:
    """What to do with what is late.

    Attributes:
        mode: see ``CatchUp``.
        misfire_after_s: later than this, an occurrence is missed.
        grace_s: with ``skip``, what takes the place of ``misfire_after_s``, and what is not later still runs. None:
            once something was missed, nothing of the past is run.
        max_catch_up: with ``fire_all``, so many are run at most.
        on_resume: None: a recurring job skips what passed in a pause, a one-off fires late.
    """

    mode: CatchUp = CatchUp.FIRE_ONCE
    misfire_after_s: float = MISFIRE_AFTER_S_DEFAULT
    grace_s: float | None = None
    max_catch_up: int = MAX_CATCH_UP_DEFAULT
    on_resume: OnResume | None = None


CATCH_UP_DEFAULT: Final = CatchUpPolicy()
_FIELDS: Final = ("catch_up", "misfire_after_s", "grace_s", "max_catch_up", "on_resume")


def parse_catch_up(job: FieldReader) -> CatchUpPolicy:
    """Read ``catch_up`` and the fields that belong to it."""
    if not job.has_any(_FIELDS):
        return CATCH_UP_DEFAULT
    mode = CatchUp(job.choice("catch_up", tuple(CatchUp), default=CatchUp.FIRE_ONCE) or CatchUp.FIRE_ONCE)
    after_s = job.number("misfire_after_s", low=0, high=DAY // SECOND, unit="seconds")
    grace_s = job.number("grace_s", low=0, high=GRACE_S_MAX, unit="seconds")
    most = job.whole("max_catch_up", low=1, high=MAX_CATCH_UP_MAX, unit="occurrences")
    for name, value, owner in (("grace_s", grace_s, CatchUp.SKIP), ("max_catch_up", most, CatchUp.FIRE_ALL)):
        if value is not None and mode is not owner:
            job.fault(
                name, job.get(name), f"goes with catch_up {owner}, not with {mode}", f"leave it out, or ask for {owner}"
            )
    on_resume = None
    if job.get("on_resume") is not None:
        on_resume = job.choice("on_resume", tuple(OnResume), default=OnResume.SKIP)
    return CatchUpPolicy(
        mode,
        MISFIRE_AFTER_S_DEFAULT if after_s is None else float(after_s),
        None if grace_s is None else float(grace_s),
        MAX_CATCH_UP_DEFAULT if most is None else most,
        None if on_resume is None else OnResume(on_resume),
    )


def catch_up_mapping(policy: CatchUpPolicy) -> dict[str, Any]:
    """Return the fields that ``parse_catch_up`` reads, None where one has its default."""
    default = CATCH_UP_DEFAULT
    if policy is default:
        return {}
    return {
        "catch_up": None if policy.mode is default.mode else str(policy.mode),
        "misfire_after_s": None if policy.misfire_after_s == default.misfire_after_s else policy.misfire_after_s,
        "grace_s": policy.grace_s,
        "max_catch_up": None if policy.max_catch_up == default.max_catch_up else policy.max_catch_up,
        "on_resume": None if policy.on_resume is None else str(policy.on_resume),
    }
