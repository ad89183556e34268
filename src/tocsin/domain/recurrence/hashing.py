"""Numbers that a job's id picks: for ``H``, and inside a window. The same on every machine and in every release."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from tocsin.domain.instants import MILLISECOND, Micros
from tocsin.domain.recurrence.dialect import Field

Pick = Callable[[Field, int], int]
"""Chooses a number from 0 to one below a count, for a field."""

_PERSON: Final = b"tocsin cron H"
"""Changing it moves every job that uses ``H``."""
_SPREAD_PERSON: Final = b"tocsin spread_s"
"""Changing it moves every job that has a window."""


def picked_by(job_id: str) -> Pick:
    """Return the choice that a job's id makes: evenly spread over ids, independent from field to field."""
    seed = job_id.encode("utf-8", "surrogatepass")

    def pick(field: Field, count: int) -> int:
        digest = blake2b(seed, digest_size=8, person=_PERSON, salt=bytes([field.salt])).digest()
        return int.from_bytes(digest, "big") % count

    return pick


def offset_in(window: Micros, job_id: str) -> Micros:
    """Return how long after a window's begin a job is due: whole milliseconds below its length, evenly spread.

    Args:
        window: length, µs.
        job_id: the job's, in full.
    """
    if window < MILLISECOND:
        return 0
    seed = job_id.encode("utf-8", "surrogatepass")
    digest = blake2b(seed, digest_size=8, person=_SPREAD_PERSON).digest()
    return int.from_bytes(digest, "big") % (window // MILLISECOND) * MILLISECOND
