"""How dead letters lie in their table: values to write, rows to read back. No requests are made here."""

from __future__ import annotations

from typing import Any, Final

from tocsin.adapters.cassandra.batches import Write
from tocsin.domain.fleet import DeadLetter
from tocsin.domain.letters import LetterId, day_of, tenant_of
from tocsin.ports.views import FiledLetter, LetterSeen

_ROW_BYTES: Final = 400
"""What a server counts for a row but for its texts and bytes, rounded up."""


def letter_write(seen: LetterSeen) -> Write:
    """Return the write of a dead letter."""
    letter, place = seen.letter, seen.letter_id
    values = (
        tenant_of(letter),
        day_of(place.at),
        *place,
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
