"""``tocsin runs``: what became of a job's executions."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

import typer

from tocsin.cli.door import path_of
from tocsin.cli.exits import EPILOG, failures_told
from tocsin.cli.jobs import Gateway, GroupGateway, JobId, Tenant, open_door
from tocsin.cli.run_logs import LogReader
from tocsin.cli.run_texts import attempt_fields, late_text, line_text, took_text
from tocsin.cli.shown import Output, OutputOption, plain, print_fields, print_json, print_rows

app = typer.Typer(
    no_args_is_help=True,
    help="See what became of a job's executions, cancel them, and run dead ones again.",
    epilog=EPILOG,
)


@app.callback()
def group(ctx: typer.Context, url: GroupGateway = None) -> None:
    """Remember the gateway for the command that follows."""
    ctx.obj = url


@app.command("list")
def list_runs(
    ctx: typer.Context,
    job_id: JobId,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500)] = 50,
    page_token: Annotated[str | None, typer.Option("--page-token", help="Go on where a page ended.")] = None,
    gateway: Gateway = None,
    tenant: Tenant = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the attempts of a job's executions, newest first."""
    with failures_told():
        path = path_of("jobs", job_id, "runs")
        query = {"limit": str(limit)} | ({"page_token": page_token} if page_token else {})
        answer = open_door(ctx, gateway, tenant).ask("GET", path, query=query).body
        if output is Output.JSON:
            print_json(answer)
        elif not answer["runs"]:
            typer.echo("no more" if page_token else "none yet")
        else:
            heads = ("SCHEDULED FOR", "STATE", "ATTEMPT", "LATE", "TOOK", "WHAT", "EXECUTION")
            rows = (
                (
                    run["scheduled_for"],
                    run["state"],
                    run["attempt"],
                    late_text(run),
                    took_text(run),
                    line_text(run),
                    run["execution_id"],
                )
                for run in answer["runs"]
            )
            print_rows(heads, rows)
            if answer["next_page_token"]:
                typer.echo(f"more: --page-token {answer['next_page_token']}")


@app.command("get")
def get_run(
    ctx: typer.Context,
    execution_id: Annotated[str, typer.Argument(metavar="EXECUTION", help="Its id, whole.")],
    gateway: Gateway = None,
    tenant: Tenant = None,
    logs: Annotated[bool, typer.Option("--logs", help="Print what its latest attempt has printed.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="With --logs: go on until it has ended.")] = False,
    attempt: Annotated[int | None, typer.Option("--attempt", min=1, help="With --logs: of this attempt.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show one execution with all its attempts, oldest first; or what it has printed."""
    if (follow or attempt is not None) and not logs:
        raise typer.BadParameter("goes with --logs", param_hint="--follow" if follow else "--attempt")
    if follow and output is Output.JSON:
        raise typer.BadParameter("prints text only; leave -o json out", param_hint="--follow")
    with failures_told():
        door = open_door(ctx, gateway, tenant)
        if logs:
            _print_logs(LogReader(door, execution_id, attempt), follow, output)
            return
        answer = door.ask("GET", path_of("runs", execution_id)).body
        if output is Output.JSON:
            print_json(answer)
            return
        print_fields(
            {
                "execution": answer["execution_id"],
                "job": answer["job_id"],
                "scheduled for": answer["scheduled_for"],
                "state": answer["state"],
                "redrives": answer.get("redrives") or None,
            }
        )
        for before, run in pairwise((None, *answer["attempts"])):
            typer.echo()
            print_fields(attempt_fields(run, before))


def _print_logs(reader: LogReader, follow: bool, output: Output) -> None:
    if output is Output.JSON:
        pages = reader.pages()
        print_json({**pages[-1], "chunks": [chunk for page in pages for chunk in page["chunks"]]})
    elif follow:
        reader.follow()
    else:
        reader.show_once()


@app.command("retry")
def retry_run(
    ctx: typer.Context,
    execution_id: Annotated[str, typer.Argument(metavar="EXECUTION", help="Its id, whole.")],
    gateway: Gateway = None,
    tenant: Tenant = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Have a dead execution attempted again, under its id and as the job is now; its retries begin anew."""
    with failures_told():
        answer = open_door(ctx, gateway, tenant).ask("POST", path_of("runs", f"{execution_id}:retry")).body
        _print_answer(answer, output, "attempt {attempt} of {execution_id} is to come")


@app.command("cancel")
def cancel_run(
    ctx: typer.Context,
    execution_id: Annotated[str, typer.Argument(metavar="EXECUTION", help="Its id, whole.")],
    gateway: Gateway = None,
    tenant: Tenant = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Cancel a run that has not ended: at once where it has not started, else as soon as it is known to be over."""
    with failures_told():
        answer = open_door(ctx, gateway, tenant).ask("POST", path_of("runs", f"{execution_id}:cancel")).body
        _print_answer(answer, output, "{detail}: {message}")


def _print_answer(answer: dict[str, Any], output: Output, sentence: str) -> None:
    if output is Output.JSON:
        print_json(answer)
    else:
        typer.echo(plain(sentence.format_map(answer)))
