"""Executions, reports and events as Avro.

All three begin with the same head, and the head with the three numbers that change from dispatch to dispatch
(attempt, token, losses). So a dispatch is made by putting three varints into a finished record, and a report's head
becomes an event's head without being decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from tocsin.adapters.avro.plain_ends import plain_end, plain_event
from tocsin.adapters.avro.readers import read_long, read_string
from tocsin.adapters.avro.schemas import HEADER_BYTES, head_writer, record_type, tail_reader, tail_writer
from tocsin.adapters.avro.targets import target_from_avro, written_target
from tocsin.adapters.avro.varints import zigzag_varint
from tocsin.domain.alert_on import AlertOn, words_of
from tocsin.domain.errors import Undecodable
from tocsin.domain.executions import AttemptError, AttemptHead, AttemptReport, Execution, ExecutionEvent
from tocsin.domain.instants import Micros
from tocsin.domain.policies import DeliveryPolicy, RetryPolicy, retry_mapping
from tocsin.domain.targets import Target

_STAMPED_FIELDS = 3
_last_time: list[tuple[bytes, Micros]] = [(b"\x00", 0)]
"""The one scheduled time that was read last, and its bytes, which are no other number's beginning: most of what runs at
once is of the same time."""
TAILS_KEPT = 2_048
TAIL_KEPT_BYTES = 2_048
"""Of how many executions, and up to which size, what their definition says is kept decoded."""


def _end_of_stamp(execution: bytes) -> int:
    """Return where the three stamped varints of a record end."""
    at = HEADER_BYTES
    for _ in range(_STAMPED_FIELDS):
        while execution[at] & 0x80:
            at += 1
        at += 1
    return at


def _after_number(record: bytes, at: int) -> int:
    """Return where an integer ends that begins at a place of a record."""
    while record[at] & 0x80:
        at += 1
    return at + 1


def _after_text(record: bytes, at: int) -> int:
    """Return where a text ends that begins at a place of a record with its length."""
    length = record[at]
    if length & 0x80:
        length = length & 0x7F | record[at + 1] << 7
        if length & 0x4000:
            raise Undecodable("has a text of more than 8,191 bytes in its head")
        at += 1
    return at + 1 + (length >> 1)


def _split_head(value: bytes) -> tuple[AttemptHead, bytes]:
    """Decode the head of a record that begins with one, and return its bytes too.

    Field by field as the schema has them, for this is done of everything that runs: a reader of any record takes half
    as long again.
    """
    try:
        attempt, at = read_long(value, HEADER_BYTES)
        token, at = read_long(value, at)
        losses, at = read_long(value, at)
        execution_id, at = read_string(value, at)
        job_id, at = read_string(value, at)
        tenant_id, at = read_string(value, at)
        job_version, at = read_long(value, at)
        time, scheduled_for = _last_time[0]
        if not value.startswith(time, at):
            scheduled_for, end = read_long(value, at)
            _last_time[0] = (time := value[at:end]), scheduled_for
        end = at + len(time)
        if value.startswith(time, end):  # as long as nothing spreads it out, it is due when it is scheduled
            due_at, at = scheduled_for, end + len(time)
        else:
            due_at, at = read_long(value, end)
    except Exception as error:
        raise Undecodable(f"has a damaged head: {type(error).__name__}: {error}") from error
    if at > len(value):
        raise Undecodable("ends within its head")
    head = AttemptHead(attempt, token, losses, execution_id, job_id, tenant_id, job_version, scheduled_for, due_at)
    return head, value[HEADER_BYTES:at]


_Meant = tuple[Target, RetryPolicy | None, int, int, DeliveryPolicy, float | None, tuple[AlertOn, ...]]
"""The fields of ``Execution`` after its head."""


def _meant(record: dict[str, Any]) -> _Meant:
    """Return what the fields of an execution after its head mean."""
    retry = record["retry"]
    policy = None if retry is None else RetryPolicy(**{k: v for k, v in retry.items() if v is not None})
    target = target_from_avro(record["target"])
    before, redrives = record["attempts_before"], record["redrives"]
    # What a newer version may say beside these is taken for the promise that is harder to keep.
    least = record["delivery"] in (None, DeliveryPolicy.AT_LEAST_ONCE)
    delivery = DeliveryPolicy.AT_LEAST_ONCE if least else DeliveryPolicy.AT_MOST_ONCE
    return target, policy, before, redrives, delivery, record["max_duration_s"], words_of(record["alert_on"])


def _tail(tail: bytes) -> _Meant:
    """Decode what follows the head of an execution in the present schema."""
    return _meant(_read_tail("Execution", tail, 0))


def _read_tail(name: str, value: bytes, at: int) -> dict[str, Any]:
    """Decode what follows the head in a record of the present schema, from a place on."""
    try:
        record, end = tail_reader(name)(value, at)
    except Exception as error:
        raise Undecodable(f"is a damaged {name}: {type(error).__name__}: {error}") from error
    if end != len(value):
        raise Undecodable(f"{'ends within' if end > len(value) else 'has bytes after the end of'} the {name}")
    return record  # type: ignore[no-any-return]


def _split(name: str, value: bytes | None) -> tuple[AttemptHead, bytes, dict[str, Any]]:
    """Return the head of a record, its bytes, and the fields that follow it."""
    kind = record_type(name)
    if value is not None and value.startswith(kind.prefix):
        head, head_bytes = _split_head(value)
        return head, head_bytes, _read_tail(name, value, HEADER_BYTES + len(head_bytes))
    record = kind.decode(value)
    head = AttemptHead(**record.pop("head"))
    return head, _head_bytes(head), record


_known_tail = lru_cache(TAILS_KEPT)(_tail)
"""Executions of one definition are the same but for their heads; nobody changes what is returned."""


def _encode_after_head(name: str, head_bytes: bytes, tail: dict[str, Any]) -> bytes:
    out = bytearray(record_type(name).prefix)
    out += head_bytes
    tail_writer(name)(out, tail)
    return bytes(out)


def _head_bytes(head: AttemptHead) -> bytes:
    out = bytearray()
    head_writer()(out, head._asdict())
    return bytes(out)


def _error_to_avro(error: AttemptError | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return asdict(error)


class AvroExecutionCodec:
    """Fulfils ``ports.codec.ExecutionCodec``."""

    def encode_execution(
        self,
        head: AttemptHead,
        target: Target,
        retry: RetryPolicy | None = None,
        *,
        attempts_before: int = 0,
        redrives: int = 0,
        delivery: DeliveryPolicy = DeliveryPolicy.AT_LEAST_ONCE,
        max_duration_s: float | None = None,
        alert_on: Sequence[AlertOn] = (),
    ) -> bytes:
        return record_type("Execution").encode(
            {
                "head": head._asdict(),
                "target": written_target(target),
                "retry": None if retry is None else retry_mapping(retry),
                "attempts_before": attempts_before,
                "redrives": redrives,
                "delivery": None if delivery is DeliveryPolicy.AT_LEAST_ONCE else str(delivery),
                "max_duration_s": max_duration_s,
                "alert_on": [str(word) for word in alert_on],
            }
        )

    def rehead(self, execution: bytes, head: AttemptHead) -> bytes:
        old_head = _split_head(execution)[1]
        return execution[:HEADER_BYTES] + _head_bytes(head) + execution[HEADER_BYTES + len(old_head) :]

    def at_another_time(self, execution: bytes, execution_id: str, at: Micros) -> bytes:
        try:
            begin = _end_of_stamp(execution)
            id_end = _after_text(execution, begin)
            times = _after_number(execution, _after_text(execution, _after_text(execution, id_end)))
            end = _after_number(execution, _after_number(execution, times))
        except IndexError as error:
            raise Undecodable("has a damaged head") from error
        name, time = execution_id.encode(), zigzag_varint(at)
        parts = (execution[:begin], zigzag_varint(len(name)), name, execution[id_end:times], time, time)
        return b"".join(parts) + execution[end:]

    def stamp(self, attempt: int, token: int, losses: int) -> bytes:
        return zigzag_varint(attempt) + zigzag_varint(token) + zigzag_varint(losses)

    def unsent_lead(self) -> bytes:
        return record_type("Execution").prefix + self.stamp(1, 0, 0)

    def restamp(self, execution: bytes, stamp: bytes) -> bytes:
        return execution[:HEADER_BYTES] + stamp + execution[_end_of_stamp(execution) :]

    def decode_execution(self, value: bytes | None) -> Execution:
        kind = record_type("Execution")
        if value is not None and value.startswith(kind.prefix):
            head, head_bytes = _split_head(value)
            tail = value[HEADER_BYTES + len(head_bytes) :]
            return Execution(head, head_bytes, *(_known_tail(tail) if len(tail) <= TAIL_KEPT_BYTES else _tail(tail)))
        record = kind.decode(value)
        assert value is not None
        return Execution(AttemptHead(**record["head"]), _split_head(value)[1], *_meant(record))

    def decode_head(self, value: bytes | None) -> AttemptHead:
        record_type("Execution").check_prefix(value)
        assert value is not None
        return _split_head(value)[0]

    def split_head(self, execution: bytes) -> tuple[AttemptHead, bytes]:
        return _split_head(execution)

    def is_head_of(self, head_bytes: bytes, execution: bytes) -> bool:
        # A head says itself where it ends, so no head is the beginning of a longer one.
        return execution.startswith(head_bytes, HEADER_BYTES)

    def encode_report(self, report: AttemptReport) -> bytes:
        return _encode_after_head(
            "AttemptReport",
            report.head_bytes,
            {
                "kind": str(report.kind),
                "worker_id": report.worker_id,
                "started_at": report.started_at,
                "finished_at": report.finished_at,
                "redelivered": report.redelivered,
                "error": _error_to_avro(report.error),
                "result": report.result,
                "started": report.started,
                "reason": report.reason,
                "timeout_s": report.timeout_s,
                "not_before": report.not_before,
            },
        )

    encode_plain_end = staticmethod(plain_end)

    def decode_report(self, value: bytes | None) -> AttemptReport:
        head, head_bytes, record = _split("AttemptReport", value)
        if record["error"] is not None:
            record["error"] = AttemptError(**record["error"])
        return AttemptReport(head, head_bytes, *record.values())  # both have them in the schema's order

    def encode_event(self, head_bytes: bytes, event: ExecutionEvent) -> bytes:
        return plain_event(head_bytes, event) or _encode_after_head(
            "ExecutionEvent",
            head_bytes,
            {
                "state": str(event.state),
                "published_at": event.published_at,
                "decided_at": event.decided_at,
                "attempt_state": event.attempt_state,
                "reason": event.reason,
                "started_at": event.started_at,
                "finished_at": event.finished_at,
                "worker_id": event.worker_id,
                "redelivered": event.redelivered,
                "error": _error_to_avro(event.error),
                "result": event.result,
                "retry_at": event.retry_at,
                "skipped_upto": event.skipped_upto,
                "skipped_count": event.skipped_count,
                "skipped_more": event.skipped_more,
                "redrives": event.redrives,
            },
        )

    def decode_event(self, value: bytes | None) -> ExecutionEvent:
        head, _, record = _split("ExecutionEvent", value)
        if record["error"] is not None:
            record["error"] = AttemptError(**record["error"])
        return ExecutionEvent(head, *record.values())  # both have them in the schema's order
