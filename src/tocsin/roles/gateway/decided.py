"""Answers to commands: what their owner's word, or its absence, means to whoever asked over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tocsin.domain.commands import CommandOutcome, OutcomeDetail
from tocsin.domain.errors import Fault, NotFound
from tocsin.domain.fields import shown
from tocsin.ports.command_bus import Delivery
from tocsin.roles.gateway.answers import Json
from tocsin.roles.gateway.parts import GatewayParts
from tocsin.roles.gateway.problems import invalid, not_known, problem
from tocsin.roles.gateway.rendering import job_json
from tocsin.roles.gateway.submission import Undecided

AGAINST: Final = {
    OutcomeDetail.CONFLICT: (
        409,
        "another job, or the same with another definition, stands under {job_id}",
        "change it with PUT, or create under another job_id or idempotency_key",
    ),
    OutcomeDetail.STALE_VERSION: (
        412,
        "{job_id} is not at the version that If-Match names: it was changed since",
        "read it, and decide again",
    ),
    OutcomeDetail.RUNNING: (
        409,
        "an execution of {job_id} or of its group is active, and its concurrency lets no other wait",
        "wait for its end, or choose another concurrency",
    ),
    OutcomeDetail.FINISHED: (
        409,
        "nothing of {job_id} is to come: it has fired, or its schedule has ended",
        "create another job",
    ),
}
"""Rejections that say what stands against a command: status, problem and remedy."""


async def with_job(parts: GatewayParts, outcome: CommandOutcome, status: int = 200, *, located: bool = False) -> Json:
    """Return the job as an accepted command left it, readable from now on through every gateway.

    Raises:
        Undecodable: the snapshot cannot be read.
    """
    snapshot = outcome.job or await parts.views.read_job(outcome.job_id)
    if snapshot is None:
        raise NotFound("job", outcome.job_id)
    job = parts.codec.decode_job(snapshot)
    headers = {"ETag": etag(job.version)}
    if located:
        headers["Location"] = f"/v1/jobs/{job.job_id}"
    headers |= await parts.desk.write(job.job_id, job.version, snapshot)
    return Json(job_json(job, parts.clock.now()), status, headers)


def etag(version: int) -> str:
    """Return the tag of a job's version: what changes it is a command, not the time that passes."""
    return f'"{version}"'


def undecided(command: Undecided) -> Json:
    """Return what is known of a command whose outcome did not come in time."""
    url = f"/v1/commands/{command.command_id}"
    if command.delivery is Delivery.LOGGED:
        detail = "the command is in the log and will be decided"
    else:
        detail = "the log did not confirm the command in time: it may be decided or lost; ask before you send it again"
    body = {
        "command_id": command.command_id,
        "status": "pending",
        "status_url": url,
        "job_id": command.job_id,
        "delivery": str(command.delivery),
        "detail": detail,
    }
    return Json(body, 202, {"Location": url})


def rejected(outcome: CommandOutcome) -> Json:
    """Return the problem that a rejection is."""
    if outcome.detail == OutcomeDetail.NOT_FOUND:
        faults = outcome.faults or [not_known("job", outcome.job_id)]
        return problem(404, f"no job is known as {outcome.job_id!r}", faults)
    for detail, (status, sentence, remedy) in AGAINST.items():
        if outcome.detail == detail:
            headers: Mapping[str, str] = {"ETag": etag(outcome.version)} if outcome.version else {}
            text = sentence.format(job_id=outcome.job_id)
            field = "If-Match" if detail is OutcomeDetail.STALE_VERSION else "job_id"
            faults = outcome.faults or [Fault(field, shown(outcome.job_id), text, remedy)]
            return problem(status, f"{text}; {remedy}", faults, headers, reason=str(detail))
    if outcome.faults:
        return invalid(outcome.faults)
    return problem(422, f"the owner of the job rejected the command: {outcome.detail}")
