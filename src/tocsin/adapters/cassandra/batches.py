"""How writes are put together: batches of one partition or one replica, bounded in rows and in bytes.

Batches here are never about atomicity. A batch of one partition is one mutation for the server; one of several
partitions saves round trips, as long as one node has them all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from cassandra.query import BatchStatement, BatchType

from tocsin.adapters.cassandra.session import Connection

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """How much goes into one batch.

    Attributes:
        rows_max: rows of one partition.
        mixed_rows_max: rows of several partitions.
        bytes_max: their size together, as estimated; a larger single row travels alone.
    """

    rows_max: int = 100
    mixed_rows_max: int = 30
    bytes_max: int = 40_000


class Write(NamedTuple):
    """One statement to be: which query, with what values, and about how large."""

    query: str
    values: tuple[Any, ...]
    size: int


def split(items: Iterable[T], size_of: Callable[[T], int], rows_max: int, bytes_max: int) -> Iterator[list[T]]:
    """Yield the items in order, in lists of at most ``rows_max`` items and ``bytes_max`` bytes, never an empty one."""
    part: list[T] = []
    part_bytes = 0
    for item in items:
        size = size_of(item)
        if part and (len(part) >= rows_max or part_bytes + size > bytes_max):
            yield part
            part, part_bytes = [], 0
        part.append(item)
        part_bytes += size
    if part:
        yield part


def statement(connection: Connection, writes: Sequence[Write]) -> Any:
    """Return one statement for all the writes: an unlogged batch, or a plain one where there is one write."""
    return joined([connection.bound(write.query, write.values) for write in writes])


def joined(bound: Sequence[Any]) -> Any:
    """Return one statement for bound ones."""
    if len(bound) == 1:
        return bound[0]
    batch = BatchStatement(BatchType.UNLOGGED)
    for one in bound:
        batch.add(one)
    batch.is_idempotent = True
    return batch


def by_replica(connection: Connection, items: Iterable[T], key_of: Callable[[T], bytes]) -> list[list[T]]:
    """Group items, each with its routing key, by the node that has the first replica."""
    groups: defaultdict[Hashable, list[T]] = defaultdict(list)
    for item in items:
        groups[connection.replica_of(key_of(item))].append(item)
    return list(groups.values())
