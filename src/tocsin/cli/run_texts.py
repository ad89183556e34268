"""What commands say of attempts: in a line of a list, and in full."""

from __future__ import annotations

from typing import Any

from tocsin.cli.shown import plain, short
from tocsin.domain.instants import SECOND, parse_rfc3339


def failure_text(run: dict[str, Any]) -> str:
    """Return why an attempt failed, and what followed, in one line."""
    at = run["finished_at"] or run["decided_at"]
    return plain(f"{at} attempt {run['attempt']} {run['attempt_state'] or run['state']}: {_why(run)}{_follows(run)}")


def line_text(run: dict[str, Any]) -> str:
    """Return what there is to say of an attempt in a list: its error, its result, or why it was skipped."""
    again = "redelivered; " if run["redelivered"] else ""
    if run["error"]:
        return again + short(_why(run)) + _follows(run)
    if run["state"] == "SKIPPED":
        return _skipped(run)
    # Of an output its last line says most of how it went.
    lines = [line for line in (run["result"] or "").splitlines() if line.strip()]
    return again + (short(lines[-1]) if lines else run["reason"] or "")


def late_text(run: dict[str, Any]) -> str | None:
    """Return how late an attempt was published; None where that is not known."""
    return None if run["lateness_ms"] is None else f"{run['lateness_ms']:.0f} ms"


def took_text(run: dict[str, Any]) -> str | None:
    """Return how long an attempt ran; None where it has not ended, or never began."""
    if not run["started_at"] or not run["finished_at"]:
        return None
    return f"{(parse_rfc3339(run['finished_at']) - parse_rfc3339(run['started_at'])) / SECOND:.3f} s"


def attempt_fields(run: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """Return all that there is to say of an attempt, by name; ``before``: the one before it."""
    again = ", redelivered" if run["redelivered"] else ""
    token = "" if run["token"] is None else f" (token {run['token']}{again})"
    late, took = late_text(run), took_text(run)
    state = run["state"]
    return {
        "attempt": f"{run['attempt']}{token}",
        "state": run["attempt_state"] or state,
        "due": (before and before["retry_at"]) or run["due_at"],
        "published": run["published_at"] and f"{run['published_at']}{f' ({late} late)' if late else ''}",
        "started": run["started_at"],
        "finished": run["finished_at"] and f"{run['finished_at']}{f' (after {took})' if took else ''}",
        "worker": run["worker_id"],
        "error": _why(run) if run["error"] else None,
        "why": _skipped(run) if state == "SKIPPED" else run["reason"] if state != run["reason"] else None,
        "again at": run["retry_at"],
        "output": run["result"] if state != "SKIPPED" else None,
    }


def _why(run: dict[str, Any]) -> str:
    error = run["error"] or {}
    told = ": ".join(part for part in (error.get("class"), error.get("message")) if part)
    return told or str(run["attempt_state"] or run["state"])


def _follows(run: dict[str, Any]) -> str:
    if run["state"] == "DEAD":
        return f"; given up ({run['reason'] or run['state']})"
    return f"; tried again at {run['retry_at']}" if run["retry_at"] else ""


def _skipped(run: dict[str, Any]) -> str:
    times = run["result"] or f"{run['skipped_count']} times"
    more = f", {times} up to {run['skipped_upto']}" if (run["skipped_count"] or 1) > 1 else ""
    return f"{run['reason'] or ''}{more}"
