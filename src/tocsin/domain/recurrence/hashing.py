"""``H``: a number that a job's id picks, the same on every machine and in every release."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from tocsin.domain.recurrence.dialect import Field

_PERSON: Final = b"tocsin cron H"
"""Changing it moves every job that uses ``H``."""


def hashed_number(job_id: str, field: Field, count: int) -> int:
    """Return a number from 0 to ``count`` - 1, evenly spread over job ids and independent from field to field."""
    digest = blake2b(job_id.encode("utf-8", "surrogatepass"), digest_size=8, person=_PERSON, salt=bytes([field.salt]))
    return int.from_bytes(digest.digest(), "big") % count
