"""Reports that are put together from finished pieces are the very bytes that the schema says."""

from __future__ import annotations

from dataclasses import asdict, replace
from io import BytesIO

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.avro.schemas import record_type
from tocsin.domain.executions import AttemptError, AttemptHead, AttemptReport, ReportKind
from tocsin.domain.targets import HttpTarget

CODEC = AvroCodec()
HEAD = AttemptHead(2, 2**40, 1, "j.1.5", "j", "acme", 1, 5, 6)
_, HEAD_BYTES = CODEC.split_head(CODEC.encode_execution(HEAD, HttpTarget("https://x.test/")))


def whole(report: AttemptReport) -> bytes:
    """Encode a report by the schema alone."""
    fields = {name: value for name, value in asdict(report).items() if name != "head_bytes"}
    buffer = BytesIO(record_type("AttemptReport").prefix)
    buffer.seek(0, 2)
    fastavro.schemaless_writer(buffer, record_type("AttemptReport").schema, fields | {"head": report.head._asdict()})
    return buffer.getvalue()


@given(
    st.sampled_from(list(ReportKind)),
    st.text(max_size=300),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
)
def test_a_plain_end(kind: ReportKind, worker_id: str, started_at: int, finished_at: int, redelivered: bool) -> None:
    report = AttemptReport(HEAD, HEAD_BYTES, kind, worker_id, started_at, finished_at, redelivered)
    plain = CODEC.encode_plain_end(HEAD_BYTES, kind, worker_id, started_at, finished_at, redelivered)
    assert plain == CODEC.encode_report(report) == whole(report)
    assert CODEC.decode_report(plain) == report


@pytest.mark.parametrize(
    "more",
    [
        {"error": AttemptError("status", "404", 404)},
        {"result": "ok"},
        {"result": ""},
        {"started": "no"},
        {"reason": "cap"},
        {"timeout_s": 3.0},
        {"not_before": 0},
    ],
)
def test_what_says_more_than_an_end(more: dict[str, object]) -> None:
    report = replace(AttemptReport(HEAD, HEAD_BYTES, ReportKind.FAILED, "w", 1, 2), **more)
    assert CODEC.encode_report(report) == whole(report)
    assert CODEC.decode_report(CODEC.encode_report(report)) == report
