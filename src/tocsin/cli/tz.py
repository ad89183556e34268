"""``tocsin tz``: which release of the zone database the cluster works by. Words only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from tocsin.cli.exits import EPILOG, REFUSED, UNREACHABLE, Failure, failures_told
from tocsin.cli.shown import Output, OutputOption, plain, print_fields, print_json
from tocsin.config import Settings
from tocsin.domain.errors import Refused, Unavailable
from tocsin.domain.recurrence import TZDATA_VERSION

app = typer.Typer(no_args_is_help=True, help="Zone data: one release for all triggers.", epilog=EPILOG)
T = TypeVar("T")


@app.command("show")
def show(output: OutputOption = Output.TABLE) -> None:
    """Show the release that the cluster works by, and the one that this program has."""
    from tocsin.bootstrap.zone_data import recorded_zone_data

    with failures_told():
        recorded = _asked(lambda: recorded_zone_data(Settings()))
        found = {"cluster": recorded, "this_program": TZDATA_VERSION}
        if output is Output.JSON:
            print_json(found)
        else:
            print_fields({"cluster": recorded or "any (none is recorded)", "this program": TZDATA_VERSION})


@app.command("set")
def set_release(
    release: Annotated[str, typer.Argument(metavar="VERSION", help="A release, such as 2026a.")],
) -> None:
    """Move the cluster to another release of the zone database.

    Triggers with other data give their shards up and say so; have some with this release running. It must be the
    release of this program, so that no slip stops a cluster.
    """
    from tocsin.bootstrap.zone_data import set_zone_data

    with failures_told():
        if release != TZDATA_VERSION:
            problem = f"VERSION: this program has the zone data {TZDATA_VERSION} (got {release!r})"
            raise Failure(REFUSED, plain(problem), "run this where the tzdata package of that release is installed")
        shards = _asked(lambda: set_zone_data(Settings(), release))
        typer.echo(f"the cluster works by the zone data {release}; all {shards} shards were told")


def _asked(question: Callable[[], T]) -> T:
    try:
        return question()
    except Refused as error:
        raise Failure(REFUSED, str(error)) from error
    except Unavailable as error:
        raise Failure(UNREACHABLE, str(error), "try again; setting it twice is harmless") from error
