"""Running a development system in the foreground until it is asked to stop, whatever happens meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from tocsin.dev.audience import Audience, Terminal
from tocsin.dev.signals import HurryAsked, StopAsked, StopSignals
from tocsin.dev.supervisor import TICK_S
from tocsin.dev.system import DevOptions, DevSystem

EXAMPLE_DELAY_S: Final = 5


def run_system(
    options: DevOptions,
    audience: Audience,
    signals: StopSignals,
    *,
    on_ready: Callable[[DevSystem], None],
    done: Callable[[], bool] = lambda: False,
    on_end: Callable[[], None] = lambda: None,
) -> None:
    """Run a system; return when it was asked to stop, or is done, and nothing of it is left running.

    Args:
        options, audience, signals: what to run, whom to tell, and who asks to stop.
        on_ready: called once the system serves.
        done: asked several times a second from then on.
        on_end: called before anything is stopped, whatever the reason.

    Raises:
        DevClusterError, TocsinError: it could not start; nothing is left running either.
    """
    with signals:
        system = DevSystem(options, audience, signals)
        try:
            with signals.interrupting(StopAsked, HurryAsked):
                system.start()
            on_ready(system)
            while not signals.asked and not done():
                system.tick()
                time.sleep(TICK_S)
        except (StopAsked, HurryAsked):
            pass
        finally:
            try:
                on_end()
            finally:
                _end(system, audience, signals)


def run_dev(options: DevOptions, terminal: Terminal) -> None:
    """Run ``tocsin dev``. Raises what ``run_system`` raises."""
    began = time.monotonic()

    def announce(system: DevSystem) -> None:
        terminal.headline(f"tocsin is ready at {system.gateway_url} (after {time.monotonic() - began:.0f} s)")
        terminal.said(f"data and logs are in {options.data_dir}; Ctrl-C stops everything and keeps the data")
        terminal.said("try it:")
        terminal.plain(example(system))

    run_system(options, terminal, StopSignals(), on_ready=announce)
    terminal.said("stopped; data are kept")


def example(system: DevSystem) -> str:
    """Return a command that creates a job, fit to be pasted into a shell."""
    target = f"{system.echo_url}/hello" if system.echo_url else "http://127.0.0.1:9000/your-endpoint"
    body = f'{{"name": "hello", "delay_s": {EXAMPLE_DELAY_S}, "target": {{"type": "http", "url": "{target}"}}}}'
    return f"  curl -s {system.gateway_url}/v1/jobs -H 'content-type: application/json' \\\n    -d '{body}'"


def _end(system: DevSystem, audience: Audience, signals: StopSignals) -> None:
    try:
        with signals.interrupting(HurryAsked):
            if system.has_begun:
                audience.said("stopping; once more ends everything at once" if signals.asked else "stopping")
            system.stop()
    except HurryAsked:
        audience.said("ending everything at once", bad=True)
        system.kill()
