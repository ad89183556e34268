"""Records there and back, stamping, and what damaged bytes lead to."""

from __future__ import annotations

import json
from dataclasses import replace
from io import BytesIO

import fastavro
import pytest
from fastavro.schema import parse_schema
from hypothesis import example, given
from hypothesis import strategies as st

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.avro.schemas import HEADER_BYTES, MAGIC, fingerprint_bytes, record_type, without_logical_types
from tocsin.adapters.avro.varints import zigzag_varint
from tocsin.domain.alerts import Alert
from tocsin.domain.commands import Command, CommandOutcome
from tocsin.domain.definitions import JobDefinition, parse, to_mapping
from tocsin.domain.entries import EntryKey, Place
from tocsin.domain.errors import Fault, Undecodable
from tocsin.domain.executions import AttemptError, AttemptHead, AttemptReport, Execution, ExecutionEvent
from tocsin.domain.fleet import DeadLetter, Heartbeat
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.shard_records import Active, ShardHeader, StateChunk, StateDelta, Void
from tocsin.resources import schemas_dir

CODEC = AvroCodec()
DEFINITION = parse(
    {
        "name": "Réveil ☃ 🔔",
        "schedule": {"run_at": "2026-10-11T02:00:00.000001+05:30"},
        "target": {"type": "http", "url": "https://a.test/x?y=1", "headers": {"X-A": "b"}, "body": {"k": [1, None]}},
        "labels": {"team": "settlement"},
        "metadata": {"nested": [1, 2.5, None, "ü"]},
    }
)
HEADER = ShardHeader("owner-1", False, 1, 8, Place(5, "job", 5), 7, 8, 9)
NUMBERS = st.integers(0, 2**62)
HEADS = st.builds(
    AttemptHead,
    st.integers(1, 2**30),
    NUMBERS,
    st.integers(0, 2**30),
    *[st.text(max_size=80)] * 3,
    NUMBERS,
    NUMBERS,
    NUMBERS,
)


def test_jobs_come_back_as_they_were() -> None:
    key = EntryKey(10, "job", 5, 9)
    for entry, replaced in ((None, ()), (key, (key, key._replace(version=4)))):
        job = Job("job", "tenant", 5, 4, JobState.ACTIVE, 1, 2, DEFINITION, entry, replaced)
        assert CODEC.decode_job(CODEC.encode_job(job)) == job


DEFINITIONS = (
    DEFINITION,
    parse(
        {
            "schedule": {"cron": "H 2 * * *", "timezone": "Europe/Berlin"},
            "target": {"type": "handler", "name": "a.b", "pool": "p", "payload": {"n": [1, {"é": None}]}},
            "retry": {"max_attempts": 3},
            "finished_ttl_s": 12,
            "alert_on": ["failure"],
        }
    ),
    parse({"target": {"type": "http", "url": "https://a.test/"}, "concurrency": "queue", "max_duration_s": 5}),
)


def job_of(definition: JobDefinition) -> Job:
    key = EntryKey(10, "job", 5, 9)
    return Job("job", "tenant", 5, 4, JobState.ACTIVE, 1, 2, definition, key, (key, key._replace(version=4)))


def test_a_stored_job_is_carried_on_as_it_is_and_says_the_same_when_asked() -> None:
    for definition in DEFINITIONS:
        job = job_of(definition)
        value = CODEC.encode_job(job)
        stored = CODEC.decode_stored_job(value)
        assert stored.definition.schedule == job.definition.schedule
        assert stored.definition.finished_ttl_s == job.definition.finished_ttl_s
        finished = replace(stored, state=JobState.FINISHED, version=8, replaced=(), paused_reason="é")
        assert CODEC.encode_job(finished) == CODEC.encode_job(
            replace(job, state=JobState.FINISHED, version=8, replaced=(), paused_reason="é")
        )
        assert CODEC.encode_job(stored) == value
        assert stored == job
        assert job == stored
        other = replace(job.definition, name="another")
        assert stored.definition != other
        assert replace(stored.definition, name="another") == other


def test_a_stored_job_of_a_former_release_is_carried_on_in_the_present_form() -> None:
    job = job_of(DEFINITIONS[0])
    value = CODEC.encode_job(job)
    former = json.loads((schemas_dir() / "history" / "Job.6.avsc").read_text())
    out = BytesIO(b"")
    fastavro.schemaless_writer(out, parse_schema(without_logical_types(former)), record_type("Job").decode(value))
    stored = CODEC.decode_stored_job(MAGIC + fingerprint_bytes(former) + out.getvalue())
    assert CODEC.encode_job(stored) == value
    assert stored == job


def test_a_damaged_stored_job_is_undecodable() -> None:
    value = CODEC.encode_job(job_of(DEFINITIONS[0]))
    for end in range(len(value)):
        with pytest.raises(Undecodable):
            CODEC.decode_stored_job(value[:end])
    with pytest.raises(Undecodable):
        CODEC.decode_stored_job(value + b"\x00")


def test_commands_come_back_as_they_were() -> None:
    command = Command("create", "cmd", "job", "tenant", 3, to_mapping(DEFINITION))
    decoded = CODEC.decode_command(CODEC.encode_command(command))
    assert decoded.definition is not None
    assert parse(decoded.definition) == DEFINITION
    assert (decoded.kind, decoded.command_id, decoded.reply_partition) == ("create", "cmd", 3)
    assert CODEC.decode_command(CODEC.encode_command(Command("delete"))) == Command("delete")


def test_outcomes_state_and_fleet_come_back_as_they_were() -> None:
    outcome = CommandOutcome("c", "create", "j", "t", False, "invalid", 5, (Fault("a", "b", "c", "d"),), 0, b"job")
    assert CODEC.decode_outcome(CODEC.encode_outcome(outcome)) == outcome
    void = Void("job", 3, Place(1, "job", 1))
    delta = StateDelta(7, 0, 2, 99, HEADER, (b"one", b"two"), ("ended",), (void,))
    assert CODEC.decode_delta(CODEC.encode_delta(delta)) == delta
    chunk = StateChunk(7, 1, HEADER, 2, (Active(b"one", 3),), (void,))
    assert CODEC.decode_chunk(CODEC.encode_chunk(chunk)) == chunk
    beat = Heartbeat("p", "n", "worker", "h", "0", 1, True)
    assert CODEC.decode_heartbeat(CODEC.encode_heartbeat(beat)) == beat
    letter = DeadLetter("record", "why", 1, "commands", 0, 5, b"bytes", None, "job", None)
    assert CODEC.decode_dead_letter(CODEC.encode_dead_letter(letter)) == letter
    for alert_on in (None, "missed"):
        alert = Alert("skipped", 1, "t", None, None, 3, "why", 7, alert_on)
        assert CODEC.decode_alert(CODEC.encode_alert(alert)) == alert


@given(HEADS, st.integers(1, 2**30), NUMBERS, st.integers(0, 2**30))
def test_a_stamp_changes_the_three_numbers_and_nothing_else(
    head: AttemptHead, attempt: int, token: int, losses: int
) -> None:
    execution = CODEC.encode_execution(head, DEFINITION.target)
    stamped = CODEC.restamp(execution, CODEC.stamp(attempt, token, losses))
    decoded = CODEC.decode_execution(stamped)
    assert decoded.head == head._replace(attempt=attempt, token=token, losses=losses)
    assert decoded.target == DEFINITION.target
    assert CODEC.decode_head(stamped) == decoded.head
    assert CODEC.is_head_of(decoded.head_bytes, stamped)
    assert CODEC.is_head_of(decoded.head_bytes, execution) == (head[:3] == (attempt, token, losses))
    assert CODEC.restamp(stamped, CODEC.stamp(*head[:3])) == execution


@given(HEADS, st.text(max_size=300), st.integers(0, 2**62))
def test_an_execution_at_another_time_is_what_another_head_makes_of_it(head: AttemptHead, name: str, at: int) -> None:
    execution = CODEC.encode_execution(head, DEFINITION.target)
    expected = CODEC.rehead(execution, head._replace(execution_id=name, scheduled_for=at, due_at=at))
    assert CODEC.at_another_time(execution, name, at) == expected


@pytest.mark.parametrize(
    ("scheduled_for", "due_at"),
    [(0, 0), (1, 1), (1, 2), (1_764_500_000_000_000,) * 2, (1_764_500_000_000_000, 1_764_500_000_000_001), (2**62, 1)],
)
def test_the_two_times_of_a_head_are_read_whether_they_are_one_or_not(scheduled_for: int, due_at: int) -> None:
    head = AttemptHead(1, 5_000, 0, "e" * 80, "j" * 36, "t", 1, scheduled_for, due_at)
    execution = CODEC.encode_execution(head, DEFINITION.target)
    decoded, head_bytes = CODEC.split_head(execution)
    assert decoded == head
    for size in range(HEADER_BYTES, HEADER_BYTES + len(head_bytes)):
        with pytest.raises(Undecodable):
            CODEC.decode_head(execution[:size])


@pytest.mark.parametrize("size", [10, 13, 14, 40])
def test_no_other_time_is_put_into_a_damaged_head(size: int) -> None:
    head = AttemptHead(1, 0, 0, "e" * 3_000, "job", "tenant", 1, 1, 1)
    with pytest.raises(Undecodable):
        CODEC.at_another_time(CODEC.encode_execution(head, DEFINITION.target)[:size], "e", 1)


@given(HEADS)
def test_a_heads_bytes_travel_into_report_and_event(head: AttemptHead) -> None:
    execution = CODEC.decode_execution(CODEC.encode_execution(head, DEFINITION.target))
    report = AttemptReport(
        head, execution.head_bytes, "FAILED", "w", None, 5, True, AttemptError("status", "no", 500), None
    )
    decoded = CODEC.decode_report(CODEC.encode_report(report))
    assert decoded == report
    event = ExecutionEvent(head, "DEAD", 1, 2, "FAILED", "r", 3, 4, "w", True, report.error, "res")
    value = CODEC.encode_event(decoded.head_bytes, event)
    assert CODEC.decode_event(value) == event
    plain = record_type("ExecutionEvent").encode({**record_type("ExecutionEvent").decode(value)})
    assert plain == value, "joined bytes are what encoding the whole record gives"


@given(NUMBERS)
def test_varints_are_avros(number: int) -> None:
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, "long", number)
    assert zigzag_varint(number) == buffer.getvalue()


DECODERS = [getattr(CODEC, name) for name in dir(CODEC) if name.startswith("decode_")]


@pytest.mark.parametrize("decode", DECODERS, ids=lambda decode: decode.__name__)
@given(garbage=st.one_of(st.none(), st.binary(max_size=80), st.binary(max_size=80).map(lambda b: b"\xc3\x01" + b)))
def test_garbage_is_undecodable_and_nothing_else(decode, garbage) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Undecodable):
        decode(garbage)


@pytest.mark.parametrize(
    ("name", "decode", "kind"),
    [
        ("JobCommand", CODEC.decode_command, Command),
        ("AttemptReport", CODEC.decode_report, AttemptReport),
        ("Execution", CODEC.decode_execution, Execution),
    ],
)
@given(body=st.binary(max_size=200))
@example(body=b"")
@example(body=b"\xff" * 200)
def test_a_right_fingerprint_before_garbage_is_no_trap(name: str, decode, kind: type, body: bytes) -> None:  # type: ignore[no-untyped-def]
    """It may read as a record by chance; else it is undecodable, as nothing at all and endless numbers surely are."""
    try:
        decoded = decode(record_type(name).prefix + body)
    except Undecodable:
        return
    assert isinstance(decoded, kind)
    assert body not in (b"", b"\xff" * 200)


def test_cut_off_records_are_undecodable() -> None:
    value = CODEC.encode_execution(AttemptHead(1, 0, 0, "e", "j", "t", 1, 1, 1), DEFINITION.target)
    for length in range(len(value)):
        with pytest.raises(Undecodable):
            CODEC.decode_execution(value[:length])
    with pytest.raises(Undecodable, match="after the end"):
        CODEC.decode_execution(value + b"x")
    assert HEADER_BYTES == 10
