"""``tocsin jobs``: list, get, pause, resume, trigger and delete.

Create and update are in ``job_definitions``; ``app`` puts all of them together.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from tocsin.cli.door import Door, find_gateway, path_of
from tocsin.cli.exits import EPILOG, Failure, failures_told
from tocsin.cli.run_texts import failure_text
from tocsin.cli.shown import (
    Output,
    OutputOption,
    console,
    plain,
    print_fields,
    print_json,
    print_rows,
    retry_text,
    schedule_text,
    target_text,
)
from tocsin.domain.definitions import parse_tenant
from tocsin.domain.errors import InvalidInput

RUNS_LOOKED_AT: Final = 50
"""How many attempts are searched for the last failure."""

app = typer.Typer(no_args_is_help=True, help="Create jobs, look at them, change them and run them.", epilog=EPILOG)

GroupGateway = Annotated[
    str | None,
    typer.Option(
        "--url",
        "--gateway",
        envvar="TOCSIN_URL",
        help="The gateway. Default: that of the running `tocsin dev`, else http://127.0.0.1:8080.",
    ),
]
Gateway = Annotated[str | None, typer.Option("--gateway", metavar="URL", help="The gateway, as for the group.")]
Tenant = Annotated[str | None, typer.Option("--tenant", envvar="TOCSIN_TENANT", help="Whose jobs. Default: default.")]
IfVersion = Annotated[
    int | None, typer.Option("--if-version", min=0, help="Only if the job still has this version.", metavar="N")
]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="Its id; a client's own may leave the tenant out.")]


@app.callback()
def group(ctx: typer.Context, url: GroupGateway = None) -> None:
    """Remember the gateway for the command that follows."""
    ctx.obj = url


def open_door(ctx: typer.Context, gateway: str | None, tenant: str | None) -> Door:
    """Return the door that a command asks: its own option goes before the group's."""
    if tenant is not None:
        try:
            parse_tenant(tenant)
        except InvalidInput as error:
            [fault] = error.faults
            told = f"{plain(fault.value)} {fault.problem}; {fault.remedy}"
            raise typer.BadParameter(told, param_hint="--tenant (TOCSIN_TENANT)") from error
    return Door(find_gateway(gateway or ctx.obj or None), tenant or None)


@app.command("list")
def list_jobs(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500)] = 50,
    page_token: Annotated[str | None, typer.Option("--page-token", help="Go on where a page ended.")] = None,
    gateway: Gateway = None,
    tenant: Tenant = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List jobs, a page at a time."""
    with failures_told():
        query = {"limit": str(limit)} | ({"page_token": page_token} if page_token else {})
        page = open_door(ctx, gateway, tenant).ask("GET", path_of("jobs"), query=query).body
        if output is Output.JSON:
            print_json(page)
            return
        rows = (
            (
                job["job_id"],
                job["name"],
                job["state"],
                schedule_text(job["schedule"]),
                target_text(job["target"]),
                job["next_run_at"],
            )
            for job in page["jobs"]
        )
        print_rows(("JOB", "NAME", "STATE", "SCHEDULE", "TARGET", "NEXT RUN"), rows)
        if page["next_page_token"]:
            typer.echo(f"more: --page-token {plain(page['next_page_token'])}")


@app.command("get")
def get_job(
    ctx: typer.Context,
    job_id: JobId,
    gateway: Gateway = None,
    tenant: Tenant = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a job, with its last run and why it last failed."""
    with failures_told():
        door = open_door(ctx, gateway, tenant)
        job = door.ask("GET", path_of("jobs", job_id)).body
        if output is Output.JSON:
            print_json(job)
            return
        print_fields(job_fields(job) | _history(door, job["job_id"]))


@app.command("pause")
def pause_job(
    ctx: typer.Context,
    job_id: JobId,
    reason: Annotated[str | None, typer.Option("--reason", help="For people; kept with the job.")] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Resume by itself then: RFC 3339 with an offset.")
    ] = None,
    if_version: IfVersion = None,
    gateway: Gateway = None,
    tenant: Tenant = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Stop a job's new occurrences; what runs, and its retries, go on."""
    body = {name: value for name, value in (("reason", reason), ("until", until)) if value is not None}
    _change(open_door(ctx, gateway, tenant), job_id, "pause", body, if_version, output)


@app.command("resume")
def resume_job(
    ctx: typer.Context,
    job_id: JobId,
    if_version: IfVersion = None,
    gateway: Gateway = None,
    tenant: Tenant = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let a paused job go on."""
    _change(open_door(ctx, gateway, tenant), job_id, "resume", {}, if_version, output)


@app.command("trigger")
def trigger_job(
    ctx: typer.Context,
    job_id: JobId,
    if_version: IfVersion = None,
    gateway: Gateway = None,
    tenant: Tenant = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run a job now; prints the id of the execution."""
    with failures_told():
        door = open_door(ctx, gateway, tenant)
        answer = door.ask("POST", path_of("jobs", f"{job_id}:trigger"), {}, if_version=if_version).body
        if output is Output.JSON:
            print_json(answer)
        else:
            typer.echo(plain(answer["execution_id"]))


@app.command("delete")
def delete_job(
    ctx: typer.Context,
    job_id: JobId,
    if_version: IfVersion = None,
    gateway: Gateway = None,
    tenant: Tenant = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete a job: it fires no more; what runs goes on."""
    with failures_told():
        answer = open_door(ctx, gateway, tenant).ask("DELETE", path_of("jobs", job_id), if_version=if_version).body
        if output is Output.JSON:
            print_json(answer)
        else:
            typer.echo(plain(f"{answer['job_id']}: {answer['message']}"))


def job_fields(job: dict[str, Any]) -> dict[str, Any]:
    """Return a job as names and values for people."""
    paused = f" ({job['paused_reason']})" if job.get("paused_reason") else ""
    paused += f" until {job['paused_until']}" if job.get("paused_until") else ""
    return {
        "job": job["job_id"],
        "name": job["name"],
        "tenant": job["tenant_id"],
        "state": job["state"] + paused,
        "schedule": schedule_text(job["schedule"]),
        "target": target_text(job["target"]),
        "retries": retry_text(job["retry"]),
        "concurrency": job["concurrency"],
        "catch-up": catch_up_text(job),
        "alerts on": ", ".join(job.get("alert_on") or ()),
        "labels": ", ".join(f"{name}={value}" for name, value in (job.get("labels") or {}).items()),
        "key": job["idempotency_key"],
        "version": job["version"],
        "created": job["created_at"],
        **({"finished": job["finished_at"]} if job.get("finished_at") else {}),
        "next run": job["next_run_at"] or "none to come",
    }


def catch_up_text(job: dict[str, Any]) -> str:
    """Return what becomes of what a job misses."""
    parts = [job["catch_up"]]
    if job["grace_s"] is not None:
        parts.append(f"later than {job['grace_s']:g} s")
    if job["max_catch_up"] is not None:
        parts.append(f"up to {job['max_catch_up']}")
    if job["on_resume"] is not None:
        parts.append(f"on resume {job['on_resume']}")
    return ", ".join(parts)


def _history(door: Door, job_id: str) -> dict[str, str]:
    try:
        query = {"limit": str(RUNS_LOOKED_AT)}
        runs = door.ask("GET", path_of("jobs", job_id, "runs"), query=query).body["runs"]
    except Failure as failure:
        return {"last run": f"unknown ({failure.problem})"}
    if not runs:
        return {"last run": "none yet"}
    last = runs[0]
    failed = next((run for run in runs if run["error"] or run["state"] == "DEAD"), None)
    return {
        "last run": f"{last['scheduled_for']} {last['state']}{_because(last)} ({last['execution_id']})",
        "last failure": failure_text(failed) if failed else f"none in the latest {len(runs)} attempts",
    }


def _because(run: dict[str, Any]) -> str:
    return f" ({run['reason']})" if run["reason"] and run["state"] == "SKIPPED" else ""


def _change(door: Door, job_id: str, verb: str, body: dict[str, Any], if_version: int | None, output: Output) -> None:
    with failures_told():
        job = door.ask("POST", path_of("jobs", f"{job_id}:{verb}"), body, if_version=if_version).body
        if output is Output.JSON:
            print_json(job)
            return
        coming = f"; next run {job['next_run_at']}" if job["next_run_at"] else ""
        console().print(plain(f"{job['job_id']}: {job['state']}{coming}"), markup=False)
