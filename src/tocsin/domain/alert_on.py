"""Of what a job wants people to be alerted: the words of ``alert_on``, their validation, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from tocsin.domain.catch_up import SkipReason
from tocsin.domain.fields import FieldReader


class AlertOn(StrEnum):
    """The words, in the order in which a definition keeps them."""

    FAILURE = "failure"
    """An execution of it is given up, or nobody can tell whether it ran."""
    SKIP = "skip"
    """An occurrence is not run that was not missed."""
    MISSED = "missed"
    """Occurrences were missed, and are not run."""
    LATE = "late"
    """It runs later than its ``misfire_after_s``."""


AT_FIRING: Final = frozenset({AlertOn.SKIP, AlertOn.MISSED, AlertOn.LATE})
"""What can be known before anything was dispatched."""
WORD_OF: Final[Mapping[str, AlertOn]] = {
    SkipReason.OVERLAP: AlertOn.SKIP,
    SkipReason.QUEUE_FULL: AlertOn.SKIP,
    SkipReason.REPLACED: AlertOn.SKIP,
    SkipReason.PAUSED: AlertOn.SKIP,
    SkipReason.UPDATED: AlertOn.SKIP,
    SkipReason.DELETED: AlertOn.SKIP,
    SkipReason.MISSED: AlertOn.MISSED,
    SkipReason.LATE: AlertOn.MISSED,
    SkipReason.MAX_CATCH_UP: AlertOn.MISSED,
}
"""By the reason of a skip; what was moved by new zone data still runs."""
_REMEDY: Final = f"give a list of some of: {', '.join(AlertOn)}"


def parse_alert_on(job: FieldReader) -> tuple[AlertOn, ...]:
    """Read ``alert_on``: the order and repetitions say nothing, so equal wishes are equal."""
    value = job.get("alert_on")
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or len(value) > len(AlertOn):
        job.fault("alert_on", value, "is not a list of choices", _REMEDY)
        return ()
    wrong = [word for word in value if not isinstance(word, str) or word not in AlertOn.__members__.values()]
    if wrong:
        job.fault("alert_on", wrong[0], "is not a choice", _REMEDY)
        return ()
    return words_of(value)


def words_of(texts: Iterable[str]) -> tuple[AlertOn, ...]:
    """Return the words that this version knows among texts, in their order."""
    given = set(texts)
    if not given:
        return ()
    return tuple(word for word in AlertOn if word in given)
