"""The oracle's own idea of executions: who may say what of them, and that each reaches one end."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.simulation.broker import Violation
from tests.simulation.known_job import OUTLIVED
from tests.simulation.overlaps import IDLE, Overlaps
from tocsin.domain.errors import Undecodable
from tocsin.domain.executions import (
    ATTEMPT_ENDS,
    AttemptHead,
    AttemptReport,
    Execution,
    ExecutionEvent,
    ReportKind,
    Started,
)
from tocsin.domain.fleet import Cancel
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.retries import is_retryable, loss_delay, never_reached
from tocsin.domain.shard_records import Active, Phase
from tocsin.domain.targets import TIMEOUT_S_DEFAULT, HttpTarget
from tocsin.ports.codec import RecordCodec
from tocsin.ports.shard_log import LogRecord, NewRecord
from tocsin.ports.targets import Attempt

_SOME_TARGET = HttpTarget("https://example.test/")
Expected = deque[tuple[str, ...]]
GRACE: Micros = 30 * SECOND
"""How much longer than its attempt may take a lease is waited for."""


@dataclass(slots=True)
class Running:
    """An execution that has not ended."""

    attempt: int
    token: int
    losses: int
    attempts_max: int
    dispatched_at: Micros
    phase: str = "queued"
    holder: str = ""
    not_before: Micros = 0
    """Of a waiting one: when it may be dispatched at the earliest."""
    next_attempt: int = 0
    next_losses: int = 0
    leased_at: Micros = 0
    deadline: Micros = 0
    """Of a leased one: before it nobody may say that its attempt took too long."""
    once: bool = False
    """What may have run of it is not made again."""
    timeout: Micros = 0
    """How long an attempt may take."""
    too_long_at: Micros | None = None
    """From when on it counts as too long, where its job says so."""
    ending: str = ""
    """Why it is not to go on."""
    ends_by: Micros = 0
    """Then: before it nobody may say that it is over, unless something is heard."""
    came: int = 0
    """Its place among those that stood behind others."""

    @property
    def is_made_again(self) -> bool:
        """Its attempt was lost, or given back, and waits to be dispatched again."""
        return self.phase == "waiting" and self.attempt > 0 and self.next_attempt == self.attempt


class Ends:
    """All executions."""

    def __init__(
        self, codec: RecordCodec, was_silent: Callable[[str], bool], heard_upto: Callable[[str, Micros], Micros]
    ) -> None:
        self._codec = codec
        self._was_silent = was_silent
        self._heard_upto = heard_upto
        self._active: dict[str, Running] = {}
        self._jobs: dict[str, int] = {}
        """How many executions of a job, by its id and first version, have not ended."""
        self.ended: dict[str, str] = {}
        self._reports: dict[tuple[int, int], AttemptReport | None] = {}
        self._told: defaultdict[tuple[str, int, int], list[tuple[LogRecord, AttemptReport]]] = defaultdict(list)
        """Reports by execution, attempt and token."""
        self._applied: dict[int, int] = {}
        """By shard: below which offset reports are applied."""
        self._starts: dict[tuple[str, int, int], str] = {}
        self._started: dict[tuple[str, int], int] = {}
        """By execution and attempt: the token of its last start."""
        self._dispatched: set[tuple[str, int, int, int]] = set()
        self._begun_once: set[str] = set()
        """At most once: those that have begun, and may have reached their target."""
        self._outlived: set[str] = set()
        """At most once, and never taken up: an event must say so."""
        self._came = 0
        self.overlaps = Overlaps(self)
        self.redelivered = 0

    @property
    def active(self) -> dict[str, Running]:
        return self._active

    def knows(self, execution_id: str) -> bool:
        return execution_id in self._active or execution_id in self.ended

    def is_active(self, execution_id: str) -> bool:
        return execution_id in self._active

    def token_of(self, active: Active) -> int:
        """Return the token of an execution's last dispatch, by what a turn left of it."""
        return self._codec.decode_head(active.execution).token

    def has_job_of(self, execution_id: str) -> bool:
        return self._jobs.get(_job_of(execution_id), 0) > 0

    # Dispatches

    def dispatched_first(self, record: NewRecord, number: int, now: Micros) -> None:
        execution = self._codec.decode_execution(record.value)
        head = execution.head
        self._check_dispatch(record, head, number)
        if (head.attempt, head.losses) != (1, 0) or self.knows(head.execution_id):
            raise Violation(f"{head.execution_id} was dispatched twice for the first time")
        self._active[head.execution_id] = self._begun(execution, now)
        self._count(head.execution_id)

    def _begun(self, execution: Execution, now: Micros) -> Running:
        """Return an execution at its first dispatch."""
        most = execution.retry.max_attempts if execution.retry else 1
        one = Running(1, execution.head.token, 0, most, now, once=not execution.is_repeatable)
        one.timeout = round(execution.target.timeout_s * SECOND)  # type: ignore[union-attr]
        if execution.max_duration_s is not None:
            one.too_long_at = now + round(execution.max_duration_s * SECOND)
        return one

    def stand_behind(self, execution_id: str, now: Micros) -> None:
        """An execution waits behind others, and was never dispatched."""
        if self.knows(execution_id):
            raise Violation(f"{execution_id} is queued, and was there before")
        self._came += 1
        self._active[execution_id] = Running(0, -1, 0, 1, now, "behind", next_attempt=1, came=self._came)
        self._count(execution_id)

    def _count(self, execution_id: str) -> None:
        name = _job_of(execution_id)
        self._jobs[name] = self._jobs.get(name, 0) + 1

    def dispatched_again(self, record: NewRecord, head: AttemptHead, number: int, now: Micros) -> None:
        if head.attempt == 1 and head.losses == 0 and self._active.get(head.execution_id) is None:
            raise Violation(f"{head.execution_id} was dispatched again after its end")
        one = self._active.get(head.execution_id)
        if one is None or one.phase == "queued":
            raise Violation(f"{head.execution_id} was dispatched again while it is {(one and one.phase) or 'ended'}")
        self._check_dispatch(record, head, number)
        if one.ending:
            raise Violation(f"{head.execution_id} was dispatched again while it was being ended: {one}")
        if one.phase == "behind":
            self.overlaps.released(head.execution_id)
        if one.phase == "leased":
            self._take(head.execution_id, one, now)
        if head.token <= one.token or (head.attempt, head.losses) != (one.next_attempt, one.next_losses):
            raise Violation(f"{head.execution_id}: dispatched again as {head}, should follow {one}")
        if now < one.not_before:
            raise Violation(f"{head.execution_id} was dispatched again before its time")
        self.redelivered += head.losses > 0
        if one.once and head.losses:
            raise Violation(f"{head.execution_id} was lost, and dispatched again all the same")
        if one.attempt == 0:
            self._active[head.execution_id] = self._begun(self._codec.decode_execution(record.value), now)
            return
        again = Running(head.attempt, head.token, head.losses, one.attempts_max, now, once=one.once)
        again.timeout, again.too_long_at = one.timeout, one.too_long_at
        self._active[head.execution_id] = again

    def _check_dispatch(self, record: NewRecord, head: AttemptHead, number: int) -> None:
        if head.token != number:
            raise Violation(f"{head.execution_id}: token {head.token} in turn {number}")
        if record.key != f"{head.tenant_id}|{head.execution_id}|{head.attempt}|{head.token}":
            raise Violation(f"{head.execution_id} was dispatched under the key {record.key}")
        self._dispatched.add((head.execution_id, head.attempt, head.token, head.losses))

    def deleted(self, job: str) -> tuple[int, int]:
        """A job was deleted: what of it waits is cancelled, and what runs, or was lost, is not retried.

        Returns how many of both.
        """
        names = [name for name in self._active if _job_of(name) == job]
        waiting = [name for name in names if self._active[name].phase in IDLE and not self._active[name].is_made_again]
        for name in waiting:
            self.overlaps.deleted(name)
        for name in names:
            if name not in waiting:
                self._active[name].attempts_max = 1
        return len(waiting), len(names) - len(waiting)

    # Reports and events

    def reported(self, record: LogRecord) -> None:
        report: AttemptReport | None
        try:
            report = self._codec.decode_report(record.value)
        except Undecodable:
            report = None
        self._reports[record.partition, record.offset] = report
        if report is not None:
            head = report.head
            self._told[head.execution_id, head.attempt, head.token].append((record, report))

    def apply_reports(self, shard: int, start: int, end: int, now: Micros) -> Expected:
        """Apply reports of the log; return the events that must follow: execution, states it may have, attempt."""
        expected: Expected = deque()
        self._applied[shard] = end
        for offset in range(start, end):
            report = self._reports.get((shard, offset))
            if report is not None:
                self._apply(report, now, expected)
        return expected

    def _apply(self, report: AttemptReport, now: Micros, expected: Expected) -> None:
        head = report.head
        one = self._active.get(head.execution_id)
        if one is None or one.phase in IDLE or (one.attempt, one.token) != (head.attempt, head.token):
            return
        foreign = one.phase == "leased" and one.holder != report.worker_id
        over = report.kind in ATTEMPT_ENDS or (report.kind == ReportKind.RETURNED and one.ending and not foreign)
        if over:
            if report.kind == ReportKind.SUCCEEDED and one.ending in ("", "max_duration"):
                state = "SUCCEEDED"
            elif one.ending:
                unheard = report.kind == ReportKind.RETURNED and report.started != Started.NO
                state = _end_of(one, unheard=unheard)
            elif one.attempt < one.attempts_max and _may_follow(one, report):
                state = "RETRY_SCHEDULED"
            else:
                state = "DEAD"
            expected.append((head.execution_id, state, str(head.attempt), str(head.token)))
            self._close(head.execution_id, one, state, now)
        elif report.kind == ReportKind.RUNNING:
            if one.phase != "leased":
                expected.append((head.execution_id, "RUNNING", str(head.attempt), str(head.token)))
            one.phase, one.holder, one.leased_at = "leased", report.worker_id, now
            one.deadline = now + round((report.timeout_s or TIMEOUT_S_DEFAULT) * SECOND) + GRACE
        elif one.phase == "leased" and one.holder != report.worker_id:
            return
        elif report.started == Started.NO:
            one.phase, one.not_before = "waiting", now
            one.next_attempt, one.next_losses = one.attempt, one.losses
        elif one.once:
            expected.append((head.execution_id, "UNKNOWN", str(head.attempt), str(head.token)))
            self._close(head.execution_id, one, "UNKNOWN", now)
        else:
            self._lose(one, now)

    def lost(self, changed: Sequence[Active], now: Micros) -> None:
        """A turn has set executions to wait: those that were leased, by the owner's own verdict. No event says so."""
        for active in changed:
            execution_id = self._codec.decode_head(active.execution).execution_id
            one = self._active.get(execution_id)
            if active.phase == Phase.WAITING and one is not None and one.phase == "leased":
                self._take(execution_id, one, now)

    def _take(self, execution_id: str, one: Running, now: Micros) -> None:
        """An execution is taken from the process that holds it, to be made again."""
        self._check_silent(execution_id, one)
        self._lose(one, now)

    def _check_silent(self, execution_id: str, one: Running) -> None:
        """Check that the process that holds an execution is gone, and that all that it said was heard."""
        if not self._was_silent(one.holder):
            raise Violation(f"{execution_id} was taken from {one.holder}, which is not silent")
        self._check_heard(execution_id, one, self._heard_upto(one.holder, one.leased_at))

    def outlived(self, cancel: Cancel, now: Micros) -> None:
        """Workers are told not to start a dispatch: nobody took it up, and it goes out again."""
        one = self._active.get(cancel.execution_id)
        if one is None or (one.phase, one.token) != ("queued", cancel.token):
            raise Violation(f"{cancel} was published, though it is {one}")
        if now < one.dispatched_at + OUTLIVED:
            raise Violation(f"{cancel} was published, though it has not waited long")
        self._check_heard(cancel.execution_id, one, one.dispatched_at + OUTLIVED)
        if one.once:
            self._close(cancel.execution_id, one, "UNKNOWN", now)
            self._outlived.add(cancel.execution_id)
        else:
            self._lose(one, now - loss_delay(one.losses + 1))

    def _check_heard(self, execution_id: str, one: Running, upto: Micros) -> None:
        """Check that what the log said of a dispatch before a verdict was due is applied."""
        for record, report in self._told[execution_id, one.attempt, one.token]:
            returned = report.kind == ReportKind.RETURNED and report.worker_id == one.holder
            counts = report.kind in ATTEMPT_ENDS or returned or one.phase == "queued"
            if counts and record.timestamp < upto and record.offset >= self._applied[record.partition]:
                raise Violation(f"{execution_id} was judged, though report {record.offset} of it was there in time")

    def _lose(self, one: Running, now: Micros) -> None:
        if one.once:
            raise Violation(f"{one} may have run, and is to run again")
        one.phase, one.not_before = "waiting", now + loss_delay(one.losses + 1)
        one.next_attempt, one.next_losses = one.attempt, one.losses + 1

    def _close(self, execution_id: str, one: Running, state: str, now: Micros) -> None:
        if state == "RETRY_SCHEDULED":
            one.phase, one.not_before = "waiting", now
            one.next_attempt, one.next_losses = one.attempt + 1, 0
            return
        self.end(execution_id, state)

    def end(self, execution_id: str, state: str) -> None:
        """An execution has ended."""
        del self._active[execution_id]
        self._jobs[_job_of(execution_id)] -= 1
        self.ended[execution_id] = state

    def changed(self, event: ExecutionEvent, expected: Expected, now: Micros) -> None:
        """An event was committed: it is what the reports lead to, or the owner's verdict on a lease."""
        head = event.head
        if self.overlaps.takes(event):
            return
        if event.state == "UNKNOWN" and head.execution_id in self._outlived:
            self._outlived.discard(head.execution_id)
            return
        told = (head.execution_id, event.state, str(head.attempt), str(head.token))
        if expected and expected[0] == told:
            expected.popleft()
            if event.state == "RETRY_SCHEDULED":
                one = self._active[head.execution_id]
                one.not_before = max(one.not_before, event.retry_at or 0)
            return
        one_or_none = self._active.get(head.execution_id)
        if not expected and one_or_none is not None and self._is_over(event, one_or_none, now):
            return
        if expected or one_or_none is None or one_or_none.phase != "leased":
            raise Violation(f"{told} was published, expected is {list(expected)[:1]}; it is {one_or_none}")
        one = one_or_none
        states = ("UNKNOWN",) if one.once else ("RETRY_SCHEDULED", "DEAD")
        if (one.attempt, one.token) != (head.attempt, head.token) or event.state not in states:
            raise Violation(f"{told} was published of a lease, but current is {one}")
        if one.once and event.reason == "silence":
            self._check_silent(head.execution_id, one)
        elif now < one.deadline:
            raise Violation(f"{told} was published of a lease before its deadline")
        else:
            self._check_heard(head.execution_id, one, one.deadline)
        self._close(head.execution_id, one, event.state, now)

    def _is_over(self, event: ExecutionEvent, one: Running, now: Micros) -> bool:
        """Tell whether an event ends what is not to go on, by its owner's own word: it must be time for that."""
        name = event.head.execution_id
        if event.state == "CANCELLED" and one.phase in IDLE:
            self.overlaps.dropped(event)
            return True
        if event.reason == "max_duration" and one.phase == "waiting" and not one.ending:
            if one.too_long_at is None or now < one.too_long_at:
                raise Violation(f"{name} was ended for it took too long, though its time is {one.too_long_at}")
            self.end(name, event.state)
            return True
        if not one.ending or event.state != _end_of(one, unheard=one.phase != "waiting") or event.reason != one.ending:
            return False
        if now >= one.ends_by:
            self._check_heard(name, one, one.ends_by)
        elif one.phase == "leased" and now >= one.deadline:
            self._check_heard(name, one, one.deadline)
        elif one.phase == "leased":
            self._check_silent(name, one)
        else:
            raise Violation(f"{name} was ended, and nothing was heard of it: {one}")
        self.end(name, event.state)
        return True

    # Workers

    def started(self, worker: str, attempt: Attempt, forbidden_upto: int) -> None:
        """An attempt begins: of something that was dispatched, once, and marked where it may be a repetition.

        Args:
            worker, attempt: who starts what.
            forbidden_upto: up to which token the worker was told not to start it.
        """
        head = attempt.execution.head
        dispatch = (head.execution_id, head.attempt, head.token)
        if (*dispatch, head.losses) not in self._dispatched:
            raise Violation(f"{worker} starts {dispatch}, which was never dispatched")
        if head.token <= forbidden_upto:
            raise Violation(f"{worker} starts {dispatch}, and was told not to")
        if dispatch in self._starts:
            raise Violation(f"{worker} starts {dispatch}, which {self._starts[dispatch]} has started")
        self._starts[dispatch] = worker
        if not attempt.execution.is_repeatable:
            if head.execution_id in self._begun_once:
                raise Violation(f"{worker} starts {dispatch} again, which may have run")
            self._begun_once.add(head.execution_id)
        former = self._started.get(dispatch[:2])
        if former is not None and not attempt.redelivered and former < head.token:
            raise Violation(f"{worker} starts {dispatch} unmarked; it was started with token {former}")
        self._started[dispatch[:2]] = max(former or 0, head.token)

    def reached_nobody(self, execution_id: str) -> None:
        """An attempt has ended, and its target never heard of it."""
        self._begun_once.discard(execution_id)


def _may_follow(one: Running, report: AttemptReport) -> bool:
    """Tell whether a failed attempt may be followed by another."""
    kind = ReportKind(report.kind)
    return is_retryable(kind, report.error) and (not one.once or never_reached(kind, report.error, _SOME_TARGET))


def _end_of(one: Running, *, unheard: bool) -> str:
    """Return the state in which what is being ended ends; ``unheard``: nobody knows how its last attempt did."""
    if one.ending != "max_duration":
        return "CANCELLED"
    return "UNKNOWN" if one.once and unheard else "DEAD"


def _job_of(execution_id: str) -> str:
    job_id, version, _ = execution_id.split(".", 2)
    return f"{job_id}.{version}"
