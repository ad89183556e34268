"""``tocsin gateway | trigger | worker | projector | notifier``: one process of one role, in the foreground."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tocsin.config import Settings

Name = Annotated[str | None, typer.Option(help="Name of this process; stays over restarts. Default: the host's.")]
MetricsPort = Annotated[int | None, typer.Option(help="Port for Prometheus metrics; 0 takes any free one.")]
Processes = Annotated[
    int,
    typer.Option(
        min=1,
        max=256,
        help="So many, named NAME-1, NAME-2, …; each uses one core. One that dies is started again. Metrics are on the"
        " port given and those after it.",
    ),
]
ReadyFile = Annotated[str | None, typer.Option(help="Written, as JSON, once the process serves.")]


def settings_with(name: str | None, metrics_port: int | None, ready_file: str | None, **parts: Any) -> Settings:
    """Return the settings of the environment, overridden by what the command line says.

    Args:
        name, metrics_port, ready_file: of any role.
        parts: settings of parts, such as ``worker={"pools": …}``.
    """
    settings = Settings(**parts)
    if name is not None:
        settings.name = name
    if metrics_port is not None:
        settings.metrics.port = metrics_port
    if ready_file is not None:
        settings.ready_file = ready_file
    return settings


def gateway(
    name: Name = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on. Default: loopback only.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes any free one.")] = None,
    metrics_port: MetricsPort = None,
    ready_file: ReadyFile = None,
) -> None:
    """Serve the REST door."""
    from tocsin.bootstrap.gateway import run_gateway

    settings = settings_with(name, metrics_port, ready_file)
    if host is not None:
        settings.gateway.host = host
    if port is not None:
        settings.gateway.port = port
    raise typer.Exit(run_gateway(settings))


def trigger(
    name: Name = None, processes: Processes = 1, metrics_port: MetricsPort = None, ready_file: ReadyFile = None
) -> None:
    """Own shards, and fire what is due."""
    from tocsin.bootstrap.trigger import run_trigger

    settings = settings_with(name, metrics_port, ready_file)
    if processes > 1:
        raise typer.Exit(several("trigger", settings, processes))
    raise typer.Exit(run_trigger(settings))


def several(role: str, settings: Settings, count: int, more: Sequence[str] = ()) -> int:
    """Run several processes of a role; return the exit code. ``more``: what each is told besides."""
    from tocsin.bootstrap.copies import run_copies

    try:
        return run_copies(role, settings.name, count, settings.metrics.port, settings.ready_file, more)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--metrics-port") from error


def worker(
    name: Name = None,
    pool: Annotated[
        list[str] | None,
        typer.Option(
            help="A pool to serve; may be given more than once. Then no lanes but those of TOCSIN_WORKER__LANES."
        ),
    ] = None,
    app: Annotated[
        str | None,
        typer.Option(metavar="MODULE:VARIABLE", help="A tocsin.Worker, also as FILE.py:VARIABLE: serve its pool."),
    ] = None,
    allow_command: Annotated[
        bool, typer.Option("--allow-command", help="Run commands, as this process's user and on its machine.")
    ] = False,
    allow_container: Annotated[bool, typer.Option("--allow-container", help="Run containers.")] = False,
    processes: Processes = 1,
    metrics_port: MetricsPort = None,
    ready_file: ReadyFile = None,
) -> None:
    """Carry executions out."""
    from tocsin.bootstrap.worker import run_worker

    said = {"pools": tuple(pool or ()), "app": app, "allow_command": allow_command, "allow_container": allow_container}
    parts = {"worker": {key: value for key, value in said.items() if value}}
    if app is not None:
        sys.path.insert(0, str(Path.cwd()))  # where the module is looked for first, as by `python -m`
    settings = settings_with(name, metrics_port, ready_file, **parts)
    if processes > 1:
        words = [word for one in pool or () for word in ("--pool", one)]
        words += ["--app", app] if app is not None else []
        words += [f"--allow-{what}" for what in ("command", "container") if said[f"allow_{what}"]]
        raise typer.Exit(several("worker", settings, processes, words))
    raise typer.Exit(run_worker(settings))


def projector(name: Name = None, metrics_port: MetricsPort = None, ready_file: ReadyFile = None) -> None:
    """Fill the views that people read."""
    from tocsin.bootstrap.projector import run_projector

    raise typer.Exit(run_projector(settings_with(name, metrics_port, ready_file)))


def notifier(name: Name = None, metrics_port: MetricsPort = None, ready_file: ReadyFile = None) -> None:
    """Post alerts to the webhooks of tenants, and of the operator."""
    from tocsin.bootstrap.notifier import run_notifier

    raise typer.Exit(run_notifier(settings_with(name, metrics_port, ready_file)))
