"""How dead letters lie in their tables: values to write, rows to read back. No requests are made here."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, Final

from tocsin.adapters.cassandra.batches import Write
from tocsin.domain.fleet import DeadLetter
from tocsin.domain.letters import LetterId, day_of, tenant_of
from tocsin.ports.views import FiledLetter, LetterSeen

PARTS: Final = 16
"""Partitions over which a tenant's day is spread. Part of the stored form: never changed."""
_ROW_BYTES: Final = 400
_PART_BYTES: Final = 100
"""What a server counts for a row but for its texts and bytes, rounded up."""


def part_of(letter_id: LetterId) -> int:
    """Return the part of its tenant's day that holds a letter.

    The whole id is hashed: of a job that fails all day the shard is always the same, and offsets go by twos.
    """
    return zlib.crc32(letter_id.text.encode()) % PARTS


def letter_writes(letters: Iterable[LetterSeen]) -> list[Write]:
    """Return the writes of dead letters, and of which parts they are in, once for each."""
    writes = []
    parts: dict[tuple[str, int, int], int] = {}
    for seen in letters:
        place = (tenant_of(seen.letter), day_of(seen.letter_id.at), part_of(seen.letter_id))
        parts[place] = max(seen.written_at, parts.get(place, seen.written_at))
        writes.append(_letter_write(place, seen))
    writes += [Write("upsert_dead_letter_part", (*place, at), _PART_BYTES) for place, at in parts.items()]
    return writes


def _letter_write(place: tuple[str, int, int], seen: LetterSeen) -> Write:
    letter = seen.letter
    values = (
        *place,
        *seen.letter_id,
        letter.kind,
        letter.reason,
        letter.job_id,
        letter.execution_id,
        letter.topic,
        letter.partition,
        letter.offset,
        letter.redrives,
        len(letter.value),
        letter.value,
        seen.written_at,
    )
    texts = len(letter.reason) + len(letter.job_id or "") + len(letter.execution_id or "")
    return Write("upsert_dead_letter", values, _ROW_BYTES + 4 * texts + len(letter.value))


def letter_of(row: tuple[Any, ...]) -> FiledLetter:
    """Read a row of ``select_dead_letters``, or of ``select_dead_letter``, which has the bytes as well."""
    at, shard, log_offset, tenant_id, kind, reason, job_id, execution_id, topic, partition, offset = row[:11]
    redrives, size = row[11:13]
    value = bytes(row[13] or b"") if len(row) > 13 else b""
    letter = DeadLetter(
        kind, reason, at, topic, partition, offset, value, tenant_id, job_id, execution_id, redrives or 0
    )
    return FiledLetter(LetterId(at, shard, log_offset), letter, size)
