"""Dead letters as people ask for them: by whose they are, and under an id that says where to look."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tocsin.domain import ids
from tocsin.domain.errors import Undecodable
from tocsin.domain.fleet import DeadLetter
from tocsin.domain.instants import DAY, LATEST, Micros

EXECUTION: Final = "execution"
"""The kind of letter that can be redriven: an execution whose attempts are used up."""
KINDS: Final = ("record", "entry", "work", EXECUTION)
"""All kinds; but for that one, what could not be read, or made its owner fail."""
KEPT_DAYS: Final = 90
"""How long a dead letter can be read: as long as its topic keeps it."""
_ID: Final = re.compile(r"([0-9]{1,19})\.([0-9]{1,6})\.([0-9]{1,19})")
_OFFSET_MAX: Final = 2**63 - 1


class LetterId(NamedTuple):
    """Where a dead letter stands, in the order in which they are listed. As text ``<at>.<shard>.<offset>``."""

    at: Micros
    """When it was set aside, µs; it is filed by its day."""
    shard: int
    offset: int
    """Of its record on the topic of dead letters."""

    @property
    def text(self) -> str:
        return f"{self.at}.{self.shard}.{self.offset}"


def parse_letter_id(text: str) -> LetterId:
    """Read an id back.

    Raises:
        Undecodable: the text is no dead letter's id.
    """
    match = _ID.fullmatch(text)
    if match is not None:
        found = LetterId(*map(int, match.groups()))
        if found.at <= LATEST and found.offset <= _OFFSET_MAX and found.text == text:
            return found
    raise Undecodable(f"{text[:80]!r} is not the id of a dead letter")


def day_of(at: Micros) -> int:
    """Return the number of an instant's day in UTC."""
    return at // DAY


def tenant_of(letter: DeadLetter) -> str:
    """Return the tenant under whom a letter is filed.

    It is the one that it names, or that its job's id names; who names none is the default tenant, as everywhere.
    """
    if letter.tenant_id is not None and ids.NAME.fullmatch(letter.tenant_id):
        return letter.tenant_id
    named = (letter.job_id or "").rpartition("@")[0]
    return named if ids.NAME.fullmatch(named) else ids.DEFAULT_TENANT
