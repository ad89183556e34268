"""Jobs and runs as the JSON that people read: times in RFC 3339, UTC; but a cron job's next one by its own zone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tocsin.domain.catch_up import CatchUp, CatchUpPolicy
from tocsin.domain.coming import format_in_zone, next_run_at, zone_of
from tocsin.domain.definitions import to_mapping
from tocsin.domain.errors import Fault
from tocsin.domain.executions import ExecutionState
from tocsin.domain.instants import Micros, format_rfc3339
from tocsin.domain.jobs import Job
from tocsin.ports.views import Run, redrives_of


def faults_json(faults: Sequence[Fault]) -> list[dict[str, str]]:
    """Return faults as problems and outcomes list them."""
    return [{"field": f.field, "value": f.value, "problem": f.problem, "remedy": f.remedy} for f in faults]


def job_json(job: Job, now: Micros) -> dict[str, Any]:
    """Return a job; ``next_run_at`` is worked out now, and null where nothing is to come."""
    defined = to_mapping(job.definition)
    at = next_run_at(job, now)
    return {
        "job_id": job.job_id,
        "tenant_id": job.tenant_id,
        "name": job.definition.name,
        "state": str(job.state),
        "version": job.version,
        "paused_reason": job.paused_reason,
        "paused_until": _time(job.paused_until),
        "finished_at": _time(job.finished_at),
        "schedule": defined.get("schedule"),
        "target": defined["target"],
        "retry": defined.get("retry"),
        "concurrency": str(job.definition.overlap),
        "concurrency_group": job.definition.concurrency_group,
        "max_duration_s": job.definition.max_duration_s,
        **_catch_up_json(job.definition.catch_up),
        "finished_ttl_s": job.definition.finished_ttl_s,
        "delivery": str(job.definition.delivery),
        "alert_on": [str(word) for word in job.definition.alert_on],
        "idempotency_key": job.definition.idempotency_key,
        **{name: defined[name] for name in ("labels", "metadata") if name in defined},
        "created_at": format_rfc3339(job.created_at),
        "updated_at": format_rfc3339(job.updated_at),
        "next_run_at": None if at is None else format_in_zone(at, zone_of(job.definition)),
    }


def _catch_up_json(policy: CatchUpPolicy) -> dict[str, Any]:
    return {
        "catch_up": str(policy.mode),
        "misfire_after_s": policy.misfire_after_s,
        "grace_s": policy.grace_s,
        "max_catch_up": policy.max_catch_up if policy.mode is CatchUp.FIRE_ALL else None,
        "on_resume": None if policy.on_resume is None else str(policy.on_resume),
    }


def runs_json(newest_first: Sequence[Run], following: Run | None = None) -> list[dict[str, Any]]:
    """Return attempts as a list has them: each execution's latest first, so that what led to one stands behind it.

    Args:
        newest_first: the attempts.
        following: what stands behind the last one.
    """
    return [run_json(run, before) for run, before in pairwise((*newest_first, following)) if run is not None]


def run_json(run: Run, before: Run | None) -> dict[str, Any]:
    """Return one attempt; ``before``: the one before it, where that is known, or any other."""
    error = None
    if run.error_class is not None:
        error = {"class": run.error_class, "message": run.error_message, "status": run.error_status}
    return {
        "execution_id": run.execution_id,
        "job_id": run.job_id,
        "attempt": run.attempt,
        "token": run.token,
        "state": run.state or str(ExecutionState.QUEUED),
        "attempt_state": run.attempt_state,
        "reason": run.reason,
        "job_version": run.job_version,
        "scheduled_for": format_rfc3339(run.scheduled_for),
        "due_at": _time(run.due_at),
        "published_at": _time(run.published_at),
        "started_at": _time(run.started_at),
        "finished_at": _time(run.finished_at),
        "decided_at": _time(run.decided_at),
        "retry_at": _time(run.retry_at),
        "skipped_upto": _time(run.skipped_upto),
        "skipped_count": run.skipped_count,
        "lateness_ms": _lateness_ms(run, before),
        "worker_id": run.worker_id,
        "redelivered": run.redelivered,
        "redrives": run.redrives,
        "lane": run.lane,
        "error": error,
        "result": run.result,
    }


def execution_json(attempts: Sequence[Run]) -> dict[str, Any]:
    """Return an execution: its attempts, oldest first, and the state of the last."""
    last = attempts[-1]
    return {
        "execution_id": last.execution_id,
        "job_id": last.job_id,
        "scheduled_for": format_rfc3339(last.scheduled_for),
        "state": last.state or str(ExecutionState.QUEUED),
        "redrives": redrives_of(attempts),
        "attempts": runs_json(attempts[::-1])[::-1],
    }


def _lateness_ms(run: Run, before: Run | None) -> float | None:
    """How long after an attempt was due it was published; below 0 would be early.

    A retry is due when the delay after the attempt before it is over. Of what is not on record there is none: when a
    redelivered attempt was published first, and the retry's own time where the attempt before it is not at hand.
    """
    if run.published_at is None or run.due_at is None or run.redelivered:
        return None
    due_at = run.due_at
    if run.attempt > 1:
        if before is None or (before.execution_id, before.attempt) != (run.execution_id, run.attempt - 1):
            return None
        # After a redrive there is no delay before, and what the dispatch says counts.
        due_at = before.retry_at or due_at
    return (run.published_at - due_at) / 1000


def _time(instant: Micros | None) -> str | None:
    return None if instant is None else format_rfc3339(instant)
