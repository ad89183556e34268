"""The most common report, that an attempt has ended and nothing more to say, made of finished pieces.

All of such a report but its head and its two times is the same for all attempts of a process. The pieces are cut out of
what fastavro writes by the schema, so a schema with more fields changes nothing here.
"""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO

import fastavro

from tocsin.adapters.avro.schemas import record_tail, record_type
from tocsin.adapters.avro.varints import zigzag_varint

_PRESENT = b"\x02"
"""Which branch of a union of null and a long is taken: the second."""


def plain_end(
    head_bytes: bytes, kind: str, worker_id: str, started_at: int, finished_at: int, redelivered: bool
) -> bytes:
    """Return such a report as bytes."""
    prefix, said, rest = _pieces(kind, worker_id, redelivered)
    return prefix + head_bytes + said + zigzag_varint(started_at) + _PRESENT + zigzag_varint(finished_at) + rest


@lru_cache(64)
def _pieces(kind: str, worker_id: str, redelivered: bool) -> tuple[bytes, bytes, bytes]:
    """Return what stands before the head, between it and the first time, and after the second."""
    tail = {"kind": kind, "worker_id": worker_id, "redelivered": redelivered}
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, record_tail("AttemptReport"), {**tail, "started_at": None, "finished_at": None})
    written = buffer.getvalue()
    texts = b"".join(zigzag_varint(len(text)) + text for text in (kind.encode(), worker_id.encode()))
    if not written.startswith(texts + b"\x00\x00"):
        raise AssertionError("the schema of reports no longer begins with kind, worker_id and the two times")
    return record_type("AttemptReport").prefix, texts + _PRESENT, written[len(texts) + 2 :]
