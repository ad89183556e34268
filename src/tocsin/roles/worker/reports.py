"""What the worker says of an attempt. Pure: records in, encoded reports out."""

from __future__ import annotations

from tocsin.domain.errors import Undecodable
from tocsin.domain.executions import AttemptError, AttemptHead, AttemptReport, Execution, ReportKind, dispatch_key
from tocsin.domain.ids import NAME, parse_execution_id
from tocsin.domain.instants import Micros
from tocsin.domain.targets import HttpTarget
from tocsin.ports.codec import ExecutionCodec
from tocsin.ports.targets import AttemptEnd

ONE_LINE_CHARS_MAX = 1_000
_NO_TARGET = HttpTarget("http://undecodable.invalid/")


def end_report(
    codec: ExecutionCodec, worker_id: str, execution: Execution, end: AttemptEnd, redelivered: bool
) -> bytes:
    """Encode the report of an attempt that ended."""
    report = AttemptReport(
        execution.head,
        execution.head_bytes,
        end.kind,
        worker_id,
        end.started_at,
        end.finished_at,
        redelivered,
        end.error,
        end.result,
    )
    return codec.encode_report(report)


def overdue_end(ref: object, execution: Execution, started_at: Micros, now: Micros) -> AttemptEnd:
    """Return the end of an attempt that passed its limit and could not be stopped."""
    message = f"no end within {execution.target.timeout_s:g} s, and it could not be stopped"
    return AttemptEnd(ref, ReportKind.TIMED_OUT, started_at, now, AttemptError("timeout", message))


def undecodable_report(
    codec: ExecutionCodec, worker_id: str, key: bytes | None, value: bytes | None, problem: str, now: Micros
) -> tuple[str, bytes] | None:
    """Report a record that cannot be read, under the name that its key gives it.

    Returns:
        The job id and the encoded report, or None where the key cannot be read either.
    """
    head = _head_of(codec, key, value)
    if head is None:
        return None
    # The codec makes head bytes only as part of an execution; any target will do.
    execution = codec.decode_execution(codec.encode_execution(head, _NO_TARGET))
    error = AttemptError("undecodable", " ".join(f"the execution's record {problem}".split())[:ONE_LINE_CHARS_MAX])
    report = AttemptReport(
        execution.head,
        execution.head_bytes,
        ReportKind.FAILED,
        worker_id,
        finished_at=now,
        redelivered=head.losses > 0,
        error=error,
    )
    return head.job_id, codec.encode_report(report)


def _head_of(codec: ExecutionCodec, key: bytes | None, value: bytes | None) -> AttemptHead | None:
    """Make a head from a record's key; from its value, if that says the same and so knows more."""
    try:
        tenant_id, execution_id, attempt, token = (key or b"").decode("ascii").split("|")
        name = parse_execution_id(execution_id)
        numbers = int(attempt), int(token)
    except (ValueError, Undecodable):
        return None
    if NAME.fullmatch(tenant_id) is None or not 1 <= numbers[0] < 2**31 or not 0 <= numbers[1] < 2**63:
        return None
    if name.created_version >= 2**63 or name.scheduled_for >= 2**63:
        return None
    try:
        head = codec.decode_head(value)
        if dispatch_key(head.tenant_id, head.execution_id, head.attempt, head.token).encode() == key:
            return head
    except Undecodable:
        pass
    at = name.scheduled_for
    return AttemptHead(*numbers, 0, execution_id, name.job_id, tenant_id, name.created_version, at, at)
