"""How runs and listed jobs lie in their tables: values to write, rows to read back. No requests are made here."""

from __future__ import annotations

import zlib
from typing import Any, Final

from tocsin.adapters.cassandra.batches import Write
from tocsin.domain.executions import ENDS, ExecutionState
from tocsin.domain.instants import month_of
from tocsin.domain.jobs import JobState
from tocsin.ports.views import DispatchSeen, EventSeen, JobSeen, Run

PARTS: Final = 16
"""Partitions over which a tenant's listing is spread. Part of the stored form: never changed."""
_JOB_BYTES: Final = 200
_DISPATCH_BYTES: Final = 300
_EVENT_BYTES: Final = 400
"""What a server counts for a row but for its long texts, rounded up: it refuses batches that are too large."""


def part_of(job_id: str) -> int:
    """Return the part of its tenant's listing that holds a job."""
    return zlib.crc32(job_id.encode()) % PARTS


def job_write(seen: JobSeen) -> Write:
    """Return the write of a job into its tenant's listing; a deleted job leaves it."""
    job = seen.job
    part = part_of(job.job_id)
    if job.state == JobState.DELETED:
        return Write("delete_tenant_job", (job.version, job.tenant_id, part, job.job_id), _JOB_BYTES)
    values = (job.tenant_id, part, job.job_id, job.version, seen.snapshot, job.version)
    return Write("upsert_tenant_job", values, _JOB_BYTES + len(seen.snapshot))


def dispatch_write(seen: DispatchSeen) -> Write:
    """Return the write of what is known at a dispatch."""
    head = seen.head
    values = (
        head.job_id,
        month_of(head.scheduled_for),
        head.scheduled_for,
        head.execution_id,
        head.attempt,
        head.tenant_id,
        head.token,
        head.job_version,
        head.due_at,
        seen.published_at,
        head.losses,
        seen.lane,
        seen.redrives,
        head.token,
    )
    return Write("upsert_run_dispatch", values, _DISPATCH_BYTES + len(head.execution_id))


def event_write(seen: EventSeen) -> Write:
    """Return the write of what an event says."""
    event = seen.event
    head = event.head
    error = event.error
    values = (
        head.job_id,
        month_of(head.scheduled_for),
        head.scheduled_for,
        head.execution_id,
        head.attempt,
        head.tenant_id,
        head.token,
        head.job_version,
        head.due_at,
        event.published_at,
        event.state,
        event.attempt_state,
        event.reason,
        event.decided_at,
        event.started_at,
        event.finished_at,
        event.worker_id,
        event.redelivered,
        error.error_class if error else None,
        error.message if error else None,
        error.status if error else None,
        event.result,
        event.retry_at,
        event.skipped_upto,
        event.skipped_count,
        event.redrives,
        seen.written_at,
    )
    texts = len(event.result or "") + (len(error.message) if error else 0)
    return Write("upsert_run_event", values, _EVENT_BYTES + len(head.execution_id) + 4 * texts)


def is_queued(state: str | None, token: int | None, sent_token: int | None) -> bool:
    """Tell whether an attempt waits in its lane: nothing is known of its latest dispatch but that it was sent."""
    if state is None:
        return True
    return state not in ENDS and token is not None and sent_token is not None and sent_token > token


def run_of(row: tuple[Any, ...]) -> Run:
    """Read a row of ``select_runs``: what its event says, or its dispatch where that came after."""
    execution_id, job_id, attempt, scheduled_for, *told = row
    tenant_id, token, job_version, due_at, published_at, state, attempt_state, reason, decided_at = told[:9]
    started_at, finished_at, worker_id, redelivered, error_class, error_message, error_status, result = told[9:17]
    retry_at, skipped_upto, skipped_count, redrives = told[17:21]
    sent_tenant_id, sent_token, sent_job_version, sent_due_at, sent_at, losses, lane, sent_redrives = told[21:]
    if is_queued(state, token, sent_token):
        tenant_id, token, job_version, due_at = sent_tenant_id, sent_token, sent_job_version, sent_due_at
        published_at, redelivered, state = sent_at, bool(losses), ExecutionState.QUEUED.value
        attempt_state = reason = decided_at = started_at = finished_at = worker_id = None
        error_class = error_message = error_status = result = retry_at = skipped_upto = skipped_count = None
    return Run(
        execution_id=execution_id,
        job_id=job_id,
        tenant_id=tenant_id,
        attempt=attempt,
        token=token,
        state=state,
        attempt_state=attempt_state,
        reason=reason,
        job_version=job_version,
        scheduled_for=scheduled_for,
        due_at=due_at,
        published_at=published_at,
        started_at=started_at,
        finished_at=finished_at,
        decided_at=decided_at,
        worker_id=worker_id,
        redelivered=bool(redelivered),
        error_class=error_class,
        error_message=error_message,
        error_status=error_status,
        result=result,
        retry_at=retry_at,
        skipped_upto=skipped_upto,
        skipped_count=skipped_count,
        lane=lane,
        redrives=max(redrives or 0, sent_redrives or 0),
    )
