"""What the worker says of a dispatch. Pure: records in, encoded reports out."""

from __future__ import annotations

from dataclasses import replace

from tocsin.domain.errors import Undecodable
from tocsin.domain.executions import (
    AttemptError,
    AttemptHead,
    AttemptReport,
    Execution,
    ReportKind,
    Started,
    dispatch_key,
)
from tocsin.domain.ids import NAME, parse_execution_id
from tocsin.domain.instants import Micros
from tocsin.domain.targets import HttpTarget
from tocsin.ports.codec import ExecutionCodec
from tocsin.ports.targets import AttemptEnd

ONE_LINE_CHARS_MAX = 1_000
_ACCEPTED = ReportKind.ACCEPTED  # by the class it is looked up slowly, and it is named for each attempt
_NO_TARGET = HttpTarget("http://undecodable.invalid/")


class Reporter:
    """Encodes the reports of one worker process.

    Args:
        codec: makes the bytes.
        worker_id: of the process, as in its heartbeats.
    """

    def __init__(self, codec: ExecutionCodec, worker_id: str) -> None:
        self._codec = codec
        self._encode_plain_end = codec.encode_plain_end
        self._worker_id = worker_id

    def ended(self, execution: Execution, end: AttemptEnd) -> bytes:
        """Say how an attempt ended, or that its target has taken it over."""
        if end.error is None and end.result is None and end.kind is not _ACCEPTED:
            redelivered = execution.head.losses > 0
            return self._encode_plain_end(
                execution.head_bytes, end.kind, self._worker_id, end.started_at, end.finished_at, redelivered
            )
        target = execution.target
        report = AttemptReport(
            execution.head,
            execution.head_bytes,
            end.kind,
            self._worker_id,
            end.started_at,
            end.finished_at,
            execution.head.losses > 0,
            _well_formed_error(end.error),
            _well_formed(end.result),
            timeout_s=target.timeout_s if end.kind is ReportKind.ACCEPTED and isinstance(target, HttpTarget) else None,
        )
        return self._codec.encode_report(report)

    def running(self, execution: Execution, started_at: Micros, timeout_s: float) -> bytes:
        """Say that an attempt goes on here: the owner holds the dispatch, with a deadline."""
        report = AttemptReport(
            execution.head,
            execution.head_bytes,
            ReportKind.RUNNING,
            self._worker_id,
            started_at,
            redelivered=execution.head.losses > 0,
            timeout_s=timeout_s,
        )
        return self._codec.encode_report(report)

    def returned(
        self,
        execution: Execution,
        reason: str,
        started_at: Micros | None,
        now: Micros,
        started: Started = Started.MAYBE,
        error: AttemptError | None = None,
        not_before: Micros | None = None,
    ) -> bytes:
        """Give a dispatch back; it may have reached its target, unless one knows that it was not started.

        ``not_before``: when it is worth another try, by this process's clock.
        """
        report = AttemptReport(
            execution.head,
            execution.head_bytes,
            ReportKind.RETURNED,
            self._worker_id,
            started_at,
            now,
            execution.head.losses > 0,
            _well_formed_error(error),
            started=started,
            reason=reason,
            not_before=not_before,
        )
        return self._codec.encode_report(report)

    def undecodable(
        self, key: bytes | None, value: bytes | None, problem: str, now: Micros
    ) -> tuple[str, bytes] | None:
        """Report a record that cannot be read, under the name that its key gives it.

        Returns:
            The job id and the encoded report, or None where the key cannot be read either.
        """
        execution = named_execution(self._codec, key, value)
        if execution is None:
            return None
        message = " ".join(f"the execution's record {problem}".split())[:ONE_LINE_CHARS_MAX]
        head = execution.head
        report = AttemptReport(
            head,
            execution.head_bytes,
            ReportKind.FAILED,
            self._worker_id,
            finished_at=now,
            redelivered=head.losses > 0,
            error=AttemptError("undecodable", message),
        )
        return head.job_id, self._codec.encode_report(report)


def overdue_end(ref: object, timeout_s: float, started_at: Micros, now: Micros) -> AttemptEnd:
    """Return the end of an attempt that passed its limit and could not be stopped."""
    message = f"no end within {timeout_s:g} s, and it could not be stopped"
    return AttemptEnd(ref, ReportKind.TIMED_OUT, started_at, now, AttemptError("timeout", message))


def named_execution(codec: ExecutionCodec, key: bytes | None, value: bytes | None) -> Execution | None:
    """Return what a record is about, for a report on it: from its value, else as far as its key says it.

    The target of the second kind is a placeholder.
    """
    try:
        return codec.decode_execution(value)
    except Undecodable:
        head = _head_of(codec, key, value)
    # The codec makes head bytes only as part of an execution; any target will do.
    return None if head is None else codec.decode_execution(codec.encode_execution(head, _NO_TARGET))


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


def _well_formed(text: str | None) -> str | None:
    """Return a text that any UTF-8 can carry: a target's bytes may have left halves of surrogate pairs in it."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _well_formed_error(error: AttemptError | None) -> AttemptError | None:
    if error is None:
        return None
    return replace(error, message=_well_formed(error.message) or "", error_class=_well_formed(error.error_class) or "")
