"""What records become, and what happens to those that mean nothing."""

from __future__ import annotations

import pytest

from tocsin.adapters.avro import AvroCodec
from tocsin.domain.definitions import JobDefinition
from tocsin.domain.executions import AttemptHead, ExecutionEvent
from tocsin.domain.fleet import DeadLetter
from tocsin.domain.ids import execution_id, version_of
from tocsin.domain.instants import LATEST, parse_rfc3339
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.letters import LetterId
from tocsin.domain.schedules import RunAt
from tocsin.domain.targets import HttpTarget
from tocsin.ports.projection_log import ProjectedRecord
from tocsin.ports.views import DispatchSeen, EventSeen, JobSeen, LetterSeen
from tocsin.roles.projector.sorting import sort_records

CODEC = AvroCodec()
NOON = parse_rfc3339("2026-10-11T12:00:00Z")
TARGET = HttpTarget("https://example.test/run")


def head(at: int = NOON) -> AttemptHead:
    return AttemptHead(2, 7, 0, execution_id("job", 1, at), "job", "acme", 1, at, at)


def event_bytes(of: AttemptHead) -> bytes:
    execution = CODEC.decode_execution(CODEC.encode_execution(of, TARGET))
    return CODEC.encode_event(execution.head_bytes, ExecutionEvent(of, "SUCCEEDED", NOON, NOON))


def record(topic: str, value: bytes | None, offset: int = 5) -> ProjectedRecord:
    return ProjectedRecord(topic, 3, offset, NOON, value)


def letter(at: int = NOON) -> DeadLetter:
    return DeadLetter("execution", "503", at, "reports", 3, 7, b"bytes", "acme", "job", head().execution_id)


def test_a_dead_letter_is_known_by_when_and_where_it_was_set_aside() -> None:
    batch = sort_records([record("dead-letters", CODEC.encode_dead_letter(letter()), offset=6)], CODEC, epoch=3)
    assert batch.letters == [LetterSeen(letter(), LetterId(NOON, 3, 6), version_of(3, 6))]
    assert batch.filed == {"dead_letter": 1}
    assert batch
    impossible = record("dead-letters", CODEC.encode_dead_letter(letter(LATEST + 1)))
    assert sort_records([impossible], CODEC, 1).skipped == {"dead_letter": 1}


def test_each_kind_of_record_becomes_what_it_says_with_its_place_in_order() -> None:
    job = Job("job", "acme", 9, 1, JobState.ACTIVE, NOON, NOON, JobDefinition(RunAt(NOON), TARGET), None)
    records = [
        record("jobs", CODEC.encode_job(job)),
        record("execution-events", event_bytes(head()), offset=41),
        record("executions.pool.gpu", CODEC.encode_execution(head(), TARGET)),
    ]
    batch = sort_records(records, CODEC, epoch=3)
    assert batch.jobs == [JobSeen(job, CODEC.encode_job(job))]
    assert batch.events == [EventSeen(ExecutionEvent(head(), "SUCCEEDED", NOON, NOON), version_of(3, 41))]
    assert batch.dispatches == [DispatchSeen(head(), NOON, "pool.gpu")]
    assert batch.filed == {"job": 1, "event": 1, "execution": 1}
    assert not batch.skipped


def test_a_dispatch_says_how_often_its_execution_was_redriven() -> None:
    redriven = CODEC.encode_execution(head(), TARGET, attempts_before=1, redrives=3)
    unreadable = CODEC.encode_execution(head(), TARGET, redrives=3)[:-2]
    batch = sort_records([record("executions.default", value) for value in (redriven, unreadable)], CODEC, 1)
    assert [seen.redrives for seen in batch.dispatches] == [3, 0], "its head is enough to be filed by"


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("jobs", "job"),
        ("execution-events", "event"),
        ("dead-letters", "dead_letter"),
        ("executions.default", "execution"),
    ],
)
@pytest.mark.parametrize("value", [b"", b"\x00", b"{}", b"\xc3\x01" + b"\x07" * 8, b"\xc3\x01", b"x" * 10_000])
def test_what_cannot_be_read_is_counted_and_its_neighbours_stay(topic: str, kind: str, value: bytes) -> None:
    good = record("executions.default", CODEC.encode_execution(head(), TARGET))
    batch = sort_records([good, record(topic, value, offset=77), good], CODEC, 1)
    assert len(batch.dispatches) == 2
    assert batch.skipped == {kind: 1}
    assert batch.where[kind].startswith(f"{topic}[3] at 77: ")


def test_a_damaged_tail_of_a_true_record_is_counted() -> None:
    batch = sort_records([record("execution-events", event_bytes(head())[:-3])], CODEC, 1)
    assert (batch.events, batch.skipped) == ([], {"event": 1})


@pytest.mark.parametrize("at", [-1, LATEST + 1, 2**62])
def test_a_nominal_time_that_is_no_time_is_counted(at: int) -> None:
    wrong = head()._replace(scheduled_for=at)
    records = [
        record("execution-events", event_bytes(wrong)),
        record("executions.default", CODEC.encode_execution(wrong, TARGET)),
    ]
    batch = sort_records(records, CODEC, 1)
    assert not batch
    assert batch.skipped == {"event": 1, "execution": 1}


def test_a_tombstone_of_a_job_is_nothing_and_one_of_an_event_is_a_fault() -> None:
    assert not sort_records([record("jobs", None)], CODEC, 1).skipped
    assert sort_records([record("execution-events", None)], CODEC, 1).skipped == {"event": 1}
