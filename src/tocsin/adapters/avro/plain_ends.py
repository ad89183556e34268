"""The most common report, that an attempt has ended and nothing more to say, made of finished pieces; and its event.

All of such a report but its head and its two times is the same for all attempts of a process, and of its owner's event
all but head, four times and the result. The pieces are cut out of what is written by the schema, so a schema with more
fields changes nothing here.
"""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO

import fastavro

from tocsin.adapters.avro.schemas import record_tail, record_type, tail_writer
from tocsin.adapters.avro.varints import zigzag_varint
from tocsin.domain.executions import ExecutionEvent

WORKERS_KEPT = 1_024
"""Of how many workers, times what they say, the pieces of events are kept."""
_ABSENT = b"\x00"
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


def plain_event(head_bytes: bytes, event: ExecutionEvent) -> bytes | None:
    """Return the event of an attempt that ended without more to say than its result; None of any other."""
    if (
        event.error is not None
        or event.reason is not None
        or event.retry_at is not None
        or event.skipped_upto is not None
        or event.skipped_count is not None
        or event.skipped_more
        or event.redrives
    ):
        return None
    said, attempt, worker, rest = _event_pieces(event.state, event.attempt_state, event.worker_id, event.redelivered)
    out = bytearray(record_type("ExecutionEvent").prefix)
    out += head_bytes
    out += said
    out += zigzag_varint(event.published_at)
    out += zigzag_varint(event.decided_at)
    out += attempt
    for time in (event.started_at, event.finished_at):
        out += _ABSENT if time is None else _PRESENT + zigzag_varint(time)
    out += worker
    out += _optional_text(event.result)
    out += rest
    return bytes(out)


@lru_cache(WORKERS_KEPT)
def _event_pieces(
    state: str, attempt_state: str | None, worker_id: str | None, redelivered: bool
) -> tuple[bytes, bytes, bytes, bytes]:
    """Return what stands before the four times, between them, and before and after the result."""
    tail = {"state": state, "attempt_state": attempt_state, "worker_id": worker_id, "redelivered": redelivered}
    out = bytearray()
    tail_writer("ExecutionEvent")(out, {**tail, "published_at": 0, "decided_at": 0})
    said, attempt = _text(state), _optional_text(attempt_state) + _ABSENT
    worker = _optional_text(worker_id) + (b"\x01" if redelivered else b"\x00") + _ABSENT
    known = said + b"\x00\x00" + attempt + _ABSENT + _ABSENT + worker + _ABSENT
    if not out.startswith(known):
        raise AssertionError("the schema of events no longer begins with the fields that are put together here")
    return said, attempt, worker, bytes(out[len(known) :])


def _text(text: str) -> bytes:
    encoded = text.encode()
    return zigzag_varint(len(encoded)) + encoded


def _optional_text(text: str | None) -> bytes:
    return _ABSENT if text is None else _PRESENT + _text(text)
