"""``tocsin fleet``: which processes there are, and which have gone silent."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tocsin.cli.door import DEV_DIR, DEV_DIR_VARIABLE
from tocsin.cli.exits import UNREACHABLE, Failure, failures_told
from tocsin.cli.job_flags import seconds_of
from tocsin.cli.shown import Output, OutputOption, console, plain, print_json, print_rows
from tocsin.domain.errors import TocsinError
from tocsin.domain.instants import SECOND, Micros, format_rfc3339
from tocsin.ports.fleet_log import SeenBeat

SILENT_AFTER_S: Final = 30.0
"""As long as a worker may be silent before its leases are taken back."""


def fleet(
    since: Annotated[
        str, typer.Option("--since", metavar="DURATION", help="Show those heard of since; a day is kept.")
    ] = "1h",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show every process: its role, version, and when it was last heard of, by the brokers' clock.

    Asks Kafka: that of TOCSIN_KAFKA__BOOTSTRAP_SERVERS, else the running development system's.
    """
    since_s = seconds_of(since, "--since")
    with failures_told():
        now = time.time_ns() // 1000
        beats, known = _asked(max(0, now - round(since_s * SECOND)))
        rows = [_row(seen, now) for seen in beats]
        pools = _pools(rows, known)
        if output is Output.JSON:
            print_json({"processes": rows, "pools": pools})
        elif not rows:
            console().print(f"no process was heard of in the last {plain(since)}")
        else:
            heads = ("ROLE", "NAME", "HOST", "VERSION", "STARTED", "LAST BEAT", "STATE", "POOLS")
            names = ("role", "name", "host", "version", "started_at", "last_beat_age_s", "state", "pools")
            print_rows(heads, ([_cell(name, row[name]) for name in names] for row in rows))
        if output is Output.TABLE and pools:
            print_rows(("POOL", "LIVING WORKERS"), ([pool["name"], str(pool["workers"])] for pool in pools))


def _asked(since: Micros) -> tuple[list[SeenBeat], list[str]]:
    """Return the latest beats, and which pools there are."""
    from tocsin.bootstrap.fleet import read_fleet, read_pools
    from tocsin.config import Settings

    settings = Settings()
    if "kafka" not in settings.model_fields_set:
        settings.kafka.bootstrap_servers = _dev_kafka() or settings.kafka.bootstrap_servers
    try:
        return read_fleet(settings, since), read_pools(settings)
    except TocsinError as error:
        remedy = "start a system with `tocsin dev`, or set TOCSIN_KAFKA__BOOTSTRAP_SERVERS"
        where = settings.kafka.bootstrap_servers
        raise Failure(UNREACHABLE, f"the fleet cannot be asked at {where}: {error}", remedy) from error


def _dev_kafka() -> str | None:
    from tocsin.devcluster import DevCluster, DevClusterError

    try:
        endpoints = DevCluster(Path(os.environ.get(DEV_DIR_VARIABLE, DEV_DIR))).endpoints()
    except DevClusterError:
        return None
    return endpoints.kafka_bootstrap if endpoints else None


def _row(seen: SeenBeat, now: Micros) -> dict[str, Any]:
    beat = seen.heartbeat
    age_s = max(0.0, (now - seen.appended_at) / SECOND)
    state = "stopped" if beat.stopped else "silent" if age_s > SILENT_AFTER_S else "alive"
    return {
        "role": beat.role,
        "pools": list(beat.pools),
        "name": beat.name,
        "host": beat.host,
        "version": beat.version,
        "process_id": beat.process_id,
        "started_at": format_rfc3339(beat.started_at // SECOND * SECOND),
        "last_beat_at": format_rfc3339(seen.appended_at),
        "last_beat_age_s": round(age_s, 1),
        "stopped": beat.stopped,
        "state": state,
    }


def _pools(rows: list[dict[str, Any]], known: list[str]) -> list[dict[str, Any]]:
    """Return each pool that there is, or that a worker was heard of in, with how many serve it now."""
    counts: dict[str, int] = dict.fromkeys(known, 0)
    for row in rows:
        for pool in row["pools"]:
            counts[pool] = counts.get(pool, 0) + (row["state"] == "alive")
    return [{"name": pool, "workers": counts[pool]} for pool in sorted(counts)]


def _cell(name: str, value: Any) -> str:
    if name == "pools":
        return ", ".join(value)
    return f"{value:.0f} s ago" if name == "last_beat_age_s" else str(value)
