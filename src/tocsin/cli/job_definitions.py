"""``tocsin jobs create`` and ``update``: a definition from flags or a file, and when the job will run."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer

from tocsin.cli.door import path_of
from tocsin.cli.exits import failures_told
from tocsin.cli.job_files import read_definition
from tocsin.cli.job_flags import JobFlags, takes_flags
from tocsin.cli.jobs import Gateway, IfVersion, JobId, Tenant, job_fields, open_door
from tocsin.cli.shown import Output, OutputOption, plain, print_fields, print_json
from tocsin.domain.coming import coming, format_in_zone, needs_job_id, zone_of
from tocsin.domain.definitions import KNOWN, parse
from tocsin.domain.errors import CallerError
from tocsin.domain.instants import parse_rfc3339

TIMES_SHOWN: Final = 5

File = Annotated[
    str | None, typer.Option("--file", "-f", metavar="FILE", help="The whole job as JSON or YAML; - is stdin.")
]
ValidateOnly = Annotated[bool, typer.Option("--validate-only", help="Have it checked; change nothing.")]


@takes_flags
def create_job(
    ctx: typer.Context,
    flags: JobFlags,
    file: File = None,
    job_id: Annotated[
        str | None, typer.Option("--id", help="Your own id: creating again is safe.", rich_help_panel="Which job")
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option("--idempotency-key", help="Or a key: creating again is safe.", rich_help_panel="Which job"),
    ] = None,
    validate_only: ValidateOnly = False,
    gateway: Gateway = None,
    tenant: Tenant = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a job, by flags or from a file; prints when a recurring one will run.

    Without a schedule it runs only when it is triggered.
    """
    with failures_told():
        definition = _defined(file, flags, {})
        if "target" not in definition and file is None:
            raise typer.BadParameter(
                "say what to do: --url, --topic, --argv or --image, or a whole job with -f", param_hint="--url"
            )
        own = {"job_id": job_id, "idempotency_key": idempotency_key}
        definition |= {field: text for field, text in own.items() if text is not None}
        query = {"validate_only": "true"} if validate_only else {}
        answer = open_door(ctx, gateway, tenant).ask("POST", path_of("jobs"), definition, query)
        done = "created" if answer.status == 201 else "exists already, the same"
        _show(answer.body, done, output)


@takes_flags
def update_job(
    ctx: typer.Context,
    job_id: JobId,
    flags: JobFlags,
    file: File = None,
    if_version: IfVersion = None,
    validate_only: ValidateOnly = False,
    gateway: Gateway = None,
    tenant: Tenant = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change a job: what flags say in place of what it was, or the whole from a file. An edit never fires it.

    With flags the change takes effect only if nobody else changed the job meanwhile.
    """
    if file is None and not flags.any_given:
        raise typer.BadParameter("say what to change, or give the whole job with -f", param_hint="update")
    with failures_told():
        door = open_door(ctx, gateway, tenant)
        before: dict[str, Any] = {}
        if file is None:
            job = door.ask("GET", path_of("jobs", job_id)).body
            before = defined_part(job)
            if_version = job["version"] if if_version is None else if_version
        definition = _defined(file, flags, before)
        query = {"validate_only": "true"} if validate_only else {}
        answer = door.ask("PUT", path_of("jobs", job_id), definition, query, if_version)
        _show(answer.body, "updated", output)


def defined_part(job: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an answered job that its caller defined."""
    return {field: job[field] for field in KNOWN if job.get(field) is not None}


def coming_times(job: dict[str, Any]) -> list[str]:
    """Return the next times of a recurring job, each by its zone's clock and with the zone's name; empty for others."""
    job_id = job.get("job_id")
    try:
        definition = parse(defined_part(job))
        if job_id is None and needs_job_id(definition):
            return []  # Nobody can say when it will run before it has the id that decides it.
        now = time.time_ns() // 1000
        created_at = parse_rfc3339(job["created_at"]) if "created_at" in job else now
        times = coming(definition, job_id or "", created_at, now, TIMES_SHOWN)
    except (CallerError, ValueError):
        return []  # A newer gateway may know schedules that this program does not.
    zone = zone_of(definition)
    return [f"{format_in_zone(at, zone)} {zone or 'UTC'}" for at in times]


def _defined(file: str | None, flags: JobFlags, before: dict[str, Any]) -> dict[str, Any]:
    if file is None:
        return flags.applied_to(before)
    if flags.any_given:
        raise typer.BadParameter("a file holds the whole job; leave the flags that define it out", param_hint="-f")
    return read_definition(file)


def _show(answer: dict[str, Any], done: str, output: Output) -> None:
    """Print a job, or that a definition is valid, and when it will run."""
    checked = answer.get("valid") is True
    job = answer["job"] if checked else answer
    times = coming_times(job) if job.get("state") != "PAUSED" else []
    if output is Output.JSON:
        print_json(answer | {"next_runs": times} if times else answer)
        return
    if checked:
        typer.echo("valid; nothing was changed")
    else:
        typer.echo(plain(f"{done}: {job['job_id']}"))
        print_fields(job_fields(job))
    if times:
        typer.echo(f"next {len(times)} times:" if len(times) > 1 else "next time:")
        for text in times:
            typer.echo(f"  {plain(text)}")
