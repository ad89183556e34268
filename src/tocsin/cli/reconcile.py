"""``tocsin reconcile``: does history have all that was due?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tocsin.cli.exits import USAGE, Failure, failures_told
from tocsin.cli.job_flags import seconds_of
from tocsin.cli.roles import MetricsPort, Name, ReadyFile, settings_with
from tocsin.cli.shown import Output, OutputOption, console, plain, print_json, print_rows
from tocsin.cli.tools import asked, found_settings
from tocsin.domain.instants import MINUTE, SECOND, Micros, format_rfc3339, parse_rfc3339

if TYPE_CHECKING:
    from tocsin.roles.reconciler.reconciler import Findings, Missing

EPILOG: Final = (
    "Exit codes: 0 nothing is missing; 1 something is, or refused; 2 wrong usage; 3 Kafka or store away, or the "
    "projectors are behind."
)
MISSING: Final = 1
SHOWN_MAX: Final = 100
"""Missing occurrences printed as a table; JSON has them all."""


def reconcile(
    begin: Annotated[
        str, typer.Option("--from", metavar="TIME", help="RFC 3339, or a duration before now, such as 2h.")
    ] = "1h",
    end: Annotated[str, typer.Option("--to", metavar="TIME", help="Likewise; what is not decided is left out.")] = "0s",
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on as a process: look at each minute once it closes, alert, count.")
    ] = False,
    name: Name = None,
    metrics_port: MetricsPort = None,
    ready_file: ReadyFile = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the occurrences that were due and decided, and that history does not have.

    Compares passed minutes of the index with the runs, behind a barrier: what is still under way is not judged, and
    what is missed counts only if it is missed twice. It repairs nothing. The index keeps minutes for a day
    (trigger.index_kept_s).
    """
    if watch:
        from tocsin.bootstrap.reconciler import run_reconciler

        raise typer.Exit(run_reconciler(settings_with(name, metrics_port, ready_file)))
    from tocsin.bootstrap.reconciler import reconcile_once

    with failures_told():
        now = time.time_ns() // 1000
        span = _instant(begin, "--from", now), _instant(end, "--to", now)
        if span[0] > span[1]:
            raise Failure(USAGE, f"--from: is after --to (got {plain(begin)} and {plain(end)})", "swap them")
        findings = asked(lambda: reconcile_once(found_settings(), *span))
        _show(findings, output)
    if findings.missing:
        raise typer.Exit(MISSING)


def _instant(text: str, option: str, now: Micros) -> Micros:
    """Return an instant that was given as such, or as a duration before now."""
    if "T" not in text.upper():
        return now - round(seconds_of(text, option) * SECOND)
    try:
        return parse_rfc3339(text)
    except ValueError as error:
        remedy = "give one such as 2026-10-11T02:00:00Z, or a duration such as 2h"
        raise Failure(USAGE, f"{option}: {error} (got {plain(text)!r})", remedy) from None


def _show(findings: Findings, output: Output) -> None:
    missing = [_fields(one) for one in findings.missing]
    closed = min(findings.closed.values(), default=None)
    closed_upto = None if closed is None else format_rfc3339(closed * MINUTE)
    if output is Output.JSON:
        print_json(
            {
                "missing": missing,
                "rows": findings.rows,
                "closed_upto": closed_upto,
                "minutes_in_motion": len(findings.open),
                "unreadable_rows": findings.unreadable,
                "shards_without_owner": list(findings.stood),
            }
        )
        return
    if missing:
        names = ("shard", "due_at", "job_id", "execution_id")
        print_rows([n.upper() for n in names], ([one[n] for n in names] for one in missing[:SHOWN_MAX]))
        if len(missing) > SHOWN_MAX:
            console().print(f"and {len(missing) - SHOWN_MAX} more; `-o json` shows them all")
    upto = closed_upto or "nowhere"
    console().print(f"{len(missing)} of {findings.rows} occurrences are missing; closed up to {upto}")
    if findings.open:
        console().print(f"{len(findings.open)} minutes hold something that is still under way; look again later")
    if findings.stood:
        console().print(f"shards {list(findings.stood)} did not go on meanwhile, and are not judged: who owns them?")


def _fields(one: Missing) -> dict[str, Any]:
    return {
        "shard": one.shard,
        "tenant_id": one.tenant_id,
        "job_id": one.key.job_id,
        "execution_id": one.execution_id,
        "due_at": format_rfc3339(one.key.run_at),
        "scheduled_for": format_rfc3339(one.key.scheduled_for),
        "version": one.key.version,
    }
