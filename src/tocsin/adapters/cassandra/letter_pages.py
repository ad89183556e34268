"""A page of dead letters out of the partitions among which they lie: the newest first, whichever they are in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from tocsin.domain.letters import LetterId
from tocsin.ports.views import FiledLetter

Partition = tuple[int, int]
"""A day of a tenant's, and a part of it."""
Read = Callable[[Partition, LetterId, int], Awaitable[Sequence[FiledLetter]]]
"""Returns up to so many letters of a partition that stand below an id, newest first."""

AT_ONCE_MAX: Final = 16
"""Partitions read at once; but a whole day always is."""
ROWS_MIN: Final = 8
"""So many letters at least are asked for at once; more of them where few parts have to make a page."""


async def newest(partitions: Sequence[Partition], before: LetterId, limit: int, read: Read) -> list[FiledLetter]:
    """Return up to ``limit`` letters that stand below an id, newest first.

    Args:
        partitions: those that may hold any, the newest day first.
        before: where the page begins.
        limit: how many.
        read: reads one partition.
    """
    found: list[FiledLetter] = []
    for group in _groups(partitions):
        found += await _newest_of(group, before, limit - len(found), read)
        if len(found) >= limit:
            break
    return found


async def _newest_of(group: Sequence[Partition], before: LetterId, wanted: int, read: Read) -> list[FiledLetter]:
    """Read each partition only as far as the page reaches into it: letters are spread evenly, so mostly once."""
    found: list[FiledLetter] = []
    unread = dict.fromkeys(group, before)
    while unread:
        rows = max(ROWS_MIN, 2 * wanted // len(group))
        pages = await asyncio.gather(*(read(partition, place, rows) for partition, place in unread.items()))
        for partition, page in zip(list(unread), pages, strict=True):
            found += page
            if len(page) < rows:
                del unread[partition]
            else:
                unread[partition] = page[-1].letter_id
        found = sorted(found, key=_id_of, reverse=True)[:wanted]
        if len(found) == wanted:
            oldest = found[-1].letter_id
            unread = {partition: place for partition, place in unread.items() if place > oldest}
    return found


def _groups(partitions: Sequence[Partition]) -> Iterator[list[Partition]]:
    """Yield the partitions of whole days, as many as are read at once."""
    group: list[Partition] = []
    for _, day in groupby(partitions, itemgetter(0)):
        parts = list(day)
        if group and len(group) + len(parts) > AT_ONCE_MAX:
            yield group
            group = []
        group += parts
    if group:
        yield group


def _id_of(filed: FiledLetter) -> LetterId:
    return filed.letter_id
