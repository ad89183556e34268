"""``tocsin alerts``: what somebody should look at, newest last."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Annotated, Any, Final

import typer

from tocsin.cli.exits import failures_told
from tocsin.cli.shown import Output, OutputOption, console, json_text, print_json, print_rows
from tocsin.cli.tools import asked, found_settings
from tocsin.domain.alerts import Alert
from tocsin.domain.instants import format_rfc3339

EPILOG: Final = "Exit codes: 0 done; 1 refused; 2 wrong usage; 3 Kafka is away, or has no topic of alerts."
NEWEST_MAX: Final = 10_000
_HEADS: Final = ("AT", "KIND", "COUNT", "SHARD", "TENANT", "JOB", "EXECUTION", "ALERT ON", "MESSAGE")


def alerts(
    newest: Annotated[
        int, typer.Option("--newest", "-n", min=1, max=NEWEST_MAX, help="So many at most; 30 days are kept.")
    ] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with those that come, until interrupted.")] = (
        False
    ),
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what somebody should look at: dead letters, suspended jobs, unknown ends, occurrences skipped or missing,
    and what jobs ask for by ``alert_on``.

    As JSON one document; while following, one line for each alert. Asks Kafka: that of
    TOCSIN_KAFKA__BOOTSTRAP_SERVERS, else the running development system's.
    """
    from tocsin.bootstrap.alerts import read_alerts

    tail = read_alerts(found_settings(), newest, follow=follow)
    with failures_told(), suppress(KeyboardInterrupt), closing(tail):
        while (found := asked(lambda: next(tail, None))) is not None:
            _show(found, output, follow)


def _show(found: Sequence[Alert], output: Output, follow: bool) -> None:
    if output is Output.JSON and follow:
        for alert in found:
            typer.echo(json_text(_fields(alert)))
    elif output is Output.JSON:
        print_json({"alerts": [_fields(alert) for alert in found]})
    elif found:
        print_rows(_HEADS, (list(_fields(alert).values()) for alert in found))
    elif not follow:
        console().print("no alerts in the last 30 days")


def _fields(alert: Alert) -> dict[str, Any]:
    """Return an alert's fields in the order of the table."""
    return {
        "at": format_rfc3339(alert.at),
        "kind": alert.kind,
        "count": alert.count,
        "shard": alert.shard,
        "tenant_id": alert.tenant_id,
        "job_id": alert.job_id,
        "execution_id": alert.execution_id,
        "alert_on": alert.alert_on,
        "message": alert.message,
    }
