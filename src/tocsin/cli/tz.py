"""``tocsin tz``: which release of the zone database the cluster works by. Words only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from tocsin.cli.exits import EPILOG, PENDING, REFUSED, UNREACHABLE, Failure, failures_told
from tocsin.cli.shown import Output, OutputOption, plain, print_fields, print_json, print_rows
from tocsin.config import Settings
from tocsin.domain.errors import Refused, Unavailable
from tocsin.domain.instants import format_rfc3339
from tocsin.domain.recurrence import TZDATA_VERSION

if TYPE_CHECKING:
    from tocsin.roles.zone_moves import ZoneMoves

app = typer.Typer(no_args_is_help=True, help="Zone data: one release for all triggers.", epilog=EPILOG)
T = TypeVar("T")
SHOWN_MAX: Final = 100
"""Moved jobs printed as a table; JSON has them all."""


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


@app.command("set", epilog="Exit codes: 0 done; 1 refused; 3 Kafka or store away; 6 not all shards have followed yet.")
def set_release(
    release: Annotated[str, typer.Argument(metavar="VERSION", help="A release, such as 2026a.")],
    wait: Annotated[
        bool, typer.Option(help="Follow until what is filed has moved; the owners go on in any case.")
    ] = True,
    within_s: Annotated[
        float, typer.Option("--within", metavar="SECONDS", help="How long to wait for any shard to get further.")
    ] = 60.0,
    output: OutputOption = Output.TABLE,
) -> None:
    """Move the cluster to another release of the zone database, and list the jobs whose next time changes.

    Triggers with other data give their shards up and say so; have some with this release running. It must be the
    release of this program, so that no slip stops a cluster.
    """
    from tocsin.bootstrap.zone_data import set_zone_data

    with failures_told():
        if release != TZDATA_VERSION:
            problem = f"VERSION: this program has the zone data {TZDATA_VERSION} (got {release!r})"
            raise Failure(REFUSED, plain(problem), "run this where the tzdata package of that release is installed")
        moves = _asked(lambda: set_zone_data(Settings(), release, within_s=within_s, wait=wait))
        shards = moves.shards.values()
        if output is Output.JSON:
            print_json(_summary(release, moves))
        else:
            if moves.moves:
                rows = [[m.job_id, format_rfc3339(m.was), format_rfc3339(m.becomes)] for m in moves.moves[:SHOWN_MAX]]
                print_rows(["JOB_ID", "WAS", "BECOMES"], rows)
            if len(moves.moves) > SHOWN_MAX:
                typer.echo(f"and {len(moves.moves) - SHOWN_MAX} more; `-o json` shows them all")
            typer.echo(f"the cluster works by the zone data {release}; all {len(moves.shards)} shards were told")
            if wait:
                looked, moved = sum(one.looked for one in shards), sum(one.moved for one in shards)
                typer.echo(f"{moved} of {looked} jobs that were looked at have another next time")
        left = sorted(number for number, one in moves.shards.items() if not one.done)
        if wait and left:
            problem = f"shards {left} have not followed within {within_s:g} s; they will, the orders are in the log"
            raise Failure(
                PENDING, problem, f"start triggers that have the zone data {release}; repeat this to see more"
            )


def _summary(release: str, moves: ZoneMoves) -> dict[str, object]:
    return {
        "release": release,
        "shards": [
            {
                "shard": number,
                "done": one.done,
                "from": one.former,
                "looked_at": one.looked,
                "moved": one.moved,
                "unreadable_snapshots": one.damaged,
            }
            for number, one in moves.shards.items()
        ],
        "moves": [
            {"job_id": m.job_id, "was": format_rfc3339(m.was), "becomes": format_rfc3339(m.becomes)}
            for m in moves.moves
        ],
    }


def _asked(question: Callable[[], T]) -> T:
    try:
        return question()
    except Refused as error:
        raise Failure(REFUSED, str(error)) from error
    except Unavailable as error:
        raise Failure(UNREACHABLE, str(error), "try again; setting it twice is harmless") from error
