"""Reports that are put together from finished pieces are the very bytes that the schema says."""

from __future__ import annotations

from dataclasses import asdict, replace
from io import BytesIO

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.avro.plain_ends import plain_event
from tocsin.adapters.avro.schemas import record_type
from tocsin.domain.errors import Undecodable
from tocsin.domain.executions import (
    AttemptError,
    AttemptHead,
    AttemptReport,
    ExecutionEvent,
    ExecutionState,
    ReportKind,
)
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


def whole_event(event: ExecutionEvent) -> bytes:
    """Encode an event by the schema alone."""
    buffer = BytesIO(record_type("ExecutionEvent").prefix)
    buffer.seek(0, 2)
    fields = asdict(event) | {"head": event.head._asdict()}
    fastavro.schemaless_writer(buffer, record_type("ExecutionEvent").schema, fields)
    return buffer.getvalue()


@pytest.mark.parametrize("error", [None, AttemptError("status", "404", 404)])
def test_reports_and_events_cut_short_or_with_more_behind_them_are_damaged(error: AttemptError | None) -> None:
    report = CODEC.encode_report(
        AttemptReport(HEAD, HEAD_BYTES, ReportKind.FAILED, "w", 1, 2, error=error, result="ok")
    )
    event = whole_event(ExecutionEvent(HEAD, ExecutionState.DEAD, 2**50, 2, "FAILED", error=error, worker_id="w"))
    for value, decode in ((report, CODEC.decode_report), (event, CODEC.decode_event)):
        decode(value)
        for damaged in (*(value[:end] for end in range(len(value))), value + b"\x00"):
            with pytest.raises(Undecodable):
                decode(damaged)


INSTANTS = st.integers(-(2**63), 2**63 - 1)


@given(
    st.sampled_from(list(ExecutionState)),
    st.tuples(INSTANTS, INSTANTS),
    st.none() | st.sampled_from([str(kind) for kind in ReportKind]),
    st.tuples(st.none() | INSTANTS, st.none() | INSTANTS),
    st.none() | st.text(max_size=200),
    st.booleans(),
    st.none() | st.text(max_size=200),
)
def test_a_plain_event(
    state: ExecutionState,
    decided: tuple[int, int],
    attempt_state: str | None,
    ran: tuple[int | None, int | None],
    worker_id: str | None,
    redelivered: bool,
    result: str | None,
) -> None:
    of_attempt = {"started_at": ran[0], "finished_at": ran[1], "worker_id": worker_id, "redelivered": redelivered}
    event = ExecutionEvent(HEAD, state, *decided, attempt_state, **of_attempt, result=result)
    assert plain_event(HEAD_BYTES, event) == CODEC.encode_event(HEAD_BYTES, event) == whole_event(event)
    assert CODEC.decode_event(whole_event(event)) == event


@pytest.mark.parametrize(
    "more",
    [
        {"error": AttemptError("status", "404", 404)},
        {"reason": "cap"},
        {"retry_at": 0},
        {"skipped_upto": 0},
        {"skipped_count": 0},
        {"skipped_more": True},
        {"redrives": 1},
    ],
)
def test_an_event_that_says_more(more: dict[str, object]) -> None:
    event = replace(ExecutionEvent(HEAD, ExecutionState.DEAD, 1, 2, "FAILED"), **more)
    assert plain_event(HEAD_BYTES, event) is None
    assert CODEC.encode_event(HEAD_BYTES, event) == whole_event(event)
