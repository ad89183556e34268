"""``tocsin tenants``: what concerns all of a tenant."""

from __future__ import annotations

from typing import Annotated

import typer

from tocsin.cli.door import path_of
from tocsin.cli.exits import EPILOG, failures_told
from tocsin.cli.jobs import Gateway, GroupGateway, open_door
from tocsin.cli.shown import Output, OutputOption, print_json

app = typer.Typer(no_args_is_help=True, help="What concerns all of a tenant.", epilog=EPILOG)


@app.callback()
def group(ctx: typer.Context, url: GroupGateway = None) -> None:
    """Remember the gateway for the command that follows."""
    ctx.obj = url


@app.command("resume-retries")
def resume_retries(
    ctx: typer.Context,
    tenant_id: Annotated[str, typer.Argument(metavar="TENANT", help="Whose retries are paused.")],
    gateway: Gateway = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """End the pause of a tenant's retries; what was held back goes out at a low rate."""
    with failures_told():
        path = path_of("tenants", f"{tenant_id}:resume-retries")
        answer = open_door(ctx, gateway, tenant_id).ask("POST", path).body
        if output is Output.JSON:
            print_json(answer)
            return
        if answer["pending"]:
            typer.echo(f"{answer['pending']} shards have not answered yet; say it again to see")
        if answer["resumed"]:
            typer.echo(f"retries of {tenant_id} go on in {answer['resumed']} shards")
        elif not answer["pending"]:
            typer.echo(f"retries of {tenant_id} were not paused")
