"""``tocsin index rebuild | verify``: the time index, written anew from the log, and compared with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tocsin.cli.exits import PENDING, Failure, failures_told
from tocsin.cli.shown import Output, OutputOption, console, print_json, print_rows
from tocsin.cli.tools import asked, found_settings
from tocsin.domain.instants import format_rfc3339

if TYPE_CHECKING:
    from tocsin.roles.index_audit import Difference
    from tocsin.roles.rebuild_watch import RebuildWatch

app = typer.Typer(no_args_is_help=True, help="The time index in the store: write it anew, compare it with the log.")

DIFFERENT: Final = 1
SHOWN_MAX: Final = 100
"""Differences printed as a table; JSON has them all."""
_LABEL: Final = "jobs log read"

Shards = Annotated[
    list[int] | None, typer.Option("--shard", metavar="N", help="Only this shard; may be given more than once.")
]


@app.command(
    epilog="Exit codes: 0 done; 1 refused, or replaced by another rebuild; 3 Kafka or store away; 6 no owner has begun."
)
def rebuild(
    shard: Shards = None,
    wait: Annotated[bool, typer.Option(help="Follow to the end; the owners go on in any case.")] = True,
    begin_within_s: Annotated[
        float, typer.Option("--begin-within", metavar="SECONDS", help="How long to wait for an owner to begin.")
    ] = 60.0,
) -> None:
    """Have the owners of the shards write index and jobs table anew from the log, while firing goes on.

    Nothing is deleted first, and what is there already is written once more, the same. A shard whose index has lost its
    rows fires nothing more from it until this is done.
    """
    from tocsin.bootstrap.index import rebuild_index

    with failures_told(), _progress() as progress:
        bar = progress.add_task(_LABEL, total=None, jobs=0, shards="0")
        watch = asked(
            lambda: rebuild_index(found_settings(), shard or (), _Shown(progress, bar), begin_within_s, wait=wait)
        )
        if not wait:
            console().print(f"asked the owners of {len(watch.shards)} shards to write the index anew")
            return
        if not watch.has_begun:
            problem = (
                f"no owner has begun within {begin_within_s:g} s; the orders are in the log and will be carried out"
            )
            raise Failure(PENDING, problem, "start a trigger: `tocsin trigger`")
        replaced = sorted(number for number, one in watch.shards.items() if one.replaced)
        jobs = sum(one.jobs for one in watch.shards.values())
        damaged = sum(one.damaged for one in watch.shards.values())
        if replaced:
            raise Failure(
                DIFFERENT, f"another rebuild took the place of this one in shards {replaced}", "follow that one"
            )
        console().print(f"the index is written anew: {jobs} jobs in {len(watch.shards)} shards")
        if damaged:
            console().print(f"{damaged} snapshots in the log cannot be read, and were left out")


@app.command(epilog="Exit codes: 0 the same; 1 differences; 3 Kafka or store away.")
def verify(
    shard: Shards = None,
    patience_s: Annotated[
        float,
        typer.Option("--patience", metavar="SECONDS", help="How long a difference may take to go by itself."),
    ] = 30.0,
    output: OutputOption = Output.TABLE,
) -> None:
    """Compare what the store holds with what the log implies, and list what is missing, extra or different.

    May run beside a working system: what only looks different because work goes on is looked at twice, and not listed.
    Holds some hundred bytes in memory for each job of the shards that it looks at.
    """
    from tocsin.bootstrap.index import verify_index

    with failures_told():
        verdict = asked(lambda: verify_index(found_settings(), shard or (), patience_s))
        differences = [_shown(difference) for difference in verdict.differences]
        if output is Output.JSON:
            print_json(
                {
                    "jobs": verdict.jobs,
                    "rows": verdict.rows,
                    "unreadable_snapshots": verdict.unreadable,
                    "shards_without_owner": list(verdict.stood),
                    "differences": differences,
                }
            )
        else:
            _print(differences)
            console().print(
                f"{len(differences)} differences; {verdict.jobs} jobs and {verdict.rows} rows were expected"
            )
            if verdict.stood:
                console().print(f"shards {list(verdict.stood)} did not move on meanwhile: nobody seems to own them")
    if verdict.differences:
        raise typer.Exit(DIFFERENT)


def _print(differences: list[dict[str, Any]]) -> None:
    if not differences:
        return
    names = ("shard", "table", "what", "job_id", "run_at", "version")
    print_rows([name.upper() for name in names], ([d[name] for name in names] for d in differences[:SHOWN_MAX]))
    if len(differences) > SHOWN_MAX:
        console().print(f"and {len(differences) - SHOWN_MAX} more; `-o json` shows them all")


def _shown(difference: Difference) -> dict[str, Any]:
    key = difference.key
    return {
        "shard": difference.shard,
        "table": difference.table,
        "what": difference.what,
        "job_id": difference.job_id or "(the shard's mark)",
        "run_at": None if key is None else format_rfc3339(key.run_at),
        "version": None if key is None else key.version,
    }


class _Shown:
    """Draws how far a rebuild is."""

    def __init__(self, progress: Progress, bar: Any) -> None:
        self._progress = progress
        self._bar = bar

    def __call__(self, watch: RebuildWatch) -> None:
        shards = watch.shards.values()
        known = all(one.end is not None for one in shards)
        done = sum(1 for one in shards if one.done or one.replaced)
        self._progress.update(
            self._bar,
            completed=sum(one.at for one in shards),
            total=sum(one.end or 0 for one in shards) if known else None,
            jobs=sum(one.jobs for one in shards),
            shards=f"{done}/{len(watch.shards)}",
        )


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} offsets, {task.fields[jobs]} jobs, shards {task.fields[shards]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=False,
    )
