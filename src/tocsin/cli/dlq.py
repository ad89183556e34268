"""``tocsin dlq``: what could not be served, and running it again."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from tocsin.cli.door import path_of
from tocsin.cli.exits import CONFLICT, EPILOG, failures_told
from tocsin.cli.jobs import Gateway, GroupGateway, Tenant, open_door
from tocsin.cli.shown import Output, OutputOption, print_fields, print_json, print_rows, short, target_text

app = typer.Typer(no_args_is_help=True, help="Look at dead letters, and run dead executions again.", epilog=EPILOG)

OfJob = Annotated[str | None, typer.Option("--job", metavar="JOB", help="Only those of this job.")]
_REDRIVE_HEADS = ("OUTCOME", "NOT BEFORE", "EXECUTION", "DEAD LETTER", "DETAIL")
_HEADS = ("AT", "KIND", "REASON", "REDRIVES", "JOB", "DEAD LETTER")


@app.callback()
def group(ctx: typer.Context, url: GroupGateway = None) -> None:
    """Remember the gateway for the command that follows."""
    ctx.obj = url


@app.command("list")
def list_letters(
    ctx: typer.Context,
    job_id: OfJob = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Only these: record, entry, work or execution.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500)] = 50,
    page_token: Annotated[str | None, typer.Option("--page-token", help="Go on where a page ended.")] = None,
    gateway: Gateway = None,
    tenant: Tenant = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List a tenant's dead letters of the last 90 days, newest first."""
    with failures_told():
        given = {"job_id": job_id, "kind": kind, "page_token": page_token, "limit": str(limit)}
        query = {name: value for name, value in given.items() if value is not None}
        answer = open_door(ctx, gateway, tenant).ask("GET", path_of("dead-letters"), query=query).body
        if output is Output.JSON:
            print_json(answer)
            return
        if answer["dead_letters"]:
            print_rows(_HEADS, map(_row, answer["dead_letters"]))
        else:
            typer.echo("none here" if answer["next_page_token"] else "no dead letters")
        if answer["next_page_token"]:
            typer.echo(f"more: --page-token {answer['next_page_token']}")


@app.command("show")
def show_letter(
    ctx: typer.Context,
    letter_id: Annotated[str, typer.Argument(metavar="DEAD_LETTER", help="Its id, as `tocsin dlq list` shows it.")],
    gateway: Gateway = None,
    tenant: Tenant = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show one dead letter with its bytes, or what they say where they are an execution's."""
    with failures_told():
        letter = open_door(ctx, gateway, tenant).ask("GET", path_of("dead-letters", letter_id)).body
        if output is Output.JSON:
            print_json(letter)
            return
        value, execution = letter["value"], letter["execution"]
        # Bytes that were read for people are of no use to them.
        shown = {} if execution else {f"bytes ({value['encoding']})": value["content"]}
        print_fields(
            {
                "dead letter": letter["dead_letter_id"],
                "kind": letter["kind"],
                "reason": letter["reason"],
                "at": letter["at"],
                "job": letter["job_id"],
                "execution": letter["execution_id"],
                "scheduled for": execution and execution["scheduled_for"],
                "attempt": execution and execution["attempt"],
                "target": execution and target_text(execution["target"]),
                "redrives": letter["redrives"] or None,
                "stood at": f"{letter['topic']}[{letter['partition']}] at {letter['offset']}",
                **shown,
            }
        )


@app.command("redrive")
def redrive_letters(
    ctx: typer.Context,
    letter_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[DEAD_LETTER]...", help="Only these; else --job or --all.")
    ] = None,
    job_id: OfJob = None,
    everything: Annotated[bool, typer.Option("--all", help="All dead executions of the tenant.")] = False,
    max_rate: Annotated[
        float, typer.Option("--max-rate", min=0.01, max=1000, help="So many at most become due in a second.")
    ] = 10.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be redriven.")] = False,
    gateway: Gateway = None,
    tenant: Tenant = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Have dead executions attempted again, under their ids and by the jobs' definitions as they are now.

    Attempts go on counting, and the retry policy begins anew. Those whose last attempt is not DEAD any more, and those
    whose job is running and skips then, are left out and told. Many are redriven a page after another, each as slowly
    as --max-rate wants.
    """
    if sum((bool(letter_ids), job_id is not None, everything)) != 1:
        raise typer.BadParameter("name dead letters, or give one of --job and --all", param_hint="DEAD_LETTER")
    chosen = {"dead_letter_ids": letter_ids} if letter_ids else {} if everything else {"job_id": job_id}
    body: dict[str, Any] = {"filter": chosen, "max_per_s": max_rate, "dry_run": dry_run}
    results: list[dict[str, Any]] = []
    with failures_told():
        door = open_door(ctx, gateway, tenant)
        while True:
            answer = door.ask("POST", path_of("dead-letters:redrive"), body).body
            results += answer["results"]
            if output is Output.TABLE and answer["results"]:
                print_rows(_REDRIVE_HEADS, map(_redriven, answer["results"]))
            if not answer["next_page_token"]:
                break
            body["page_token"] = answer["next_page_token"]
            if not dry_run:
                time.sleep(answer["redriven"] / max_rate)
        done = sum(one["outcome"] in ("redriven", "would_be_redriven") for one in results)
        if output is Output.JSON:
            print_json({"dry_run": dry_run, "redriven": done, "results": results})
        else:
            typer.echo(f"{done} {'would be ' if dry_run else ''}redriven, {len(results) - done} left out")
        if results and not done:
            raise typer.Exit(CONFLICT)


def _redriven(one: dict[str, Any]) -> tuple[object, ...]:
    return one["outcome"], one["not_before"], one["execution_id"], one["dead_letter_id"], one["detail"]


def _row(letter: dict[str, Any]) -> tuple[object, ...]:
    redrives = letter["redrives"] or None
    return letter["at"], letter["kind"], short(letter["reason"]), redrives, letter["job_id"], letter["dead_letter_id"]
