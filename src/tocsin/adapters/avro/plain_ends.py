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
from tocsin.domain.executions import AttemptReport

_PRESENT = b"\x02"
"""Which branch of a union of null and a long is taken: the second."""


def encode_plain_end(report: AttemptReport) -> bytes | None:
    """Return a report as bytes; None where it says more than an end, or lacks one of its times."""
    started_at, finished_at = report.started_at, report.finished_at
    if report.error is not None or report.result is not None or report.started is not None:
        return None
    if report.reason is not None or report.timeout_s is not None or report.not_before is not None:
        return None
    if started_at is None or finished_at is None or started_at < 0 or finished_at < 0:
        return None
    before, after = _pieces(str(report.kind), report.worker_id, report.redelivered)
    times = zigzag_varint(started_at) + _PRESENT + zigzag_varint(finished_at)
    return record_type("AttemptReport").prefix + report.head_bytes + before + times + after


@lru_cache(64)
def _pieces(kind: str, worker_id: str, redelivered: bool) -> tuple[bytes, bytes]:
    """Return what stands between the head and the first time, and what follows the second."""
    tail = {"kind": kind, "worker_id": worker_id, "redelivered": redelivered}
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, record_tail("AttemptReport"), {**tail, "started_at": None, "finished_at": None})
    written = buffer.getvalue()
    texts = b"".join(zigzag_varint(len(text)) + text for text in (kind.encode(), worker_id.encode()))
    if not written.startswith(texts + b"\x00\x00"):
        raise AssertionError("the schema of reports no longer begins with kind, worker_id and the two times")
    return texts + _PRESENT, written[len(texts) + 2 :]
