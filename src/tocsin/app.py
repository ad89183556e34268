"""A service's own worker: its Python functions, run as the system's executions come due. ``tocsin.Worker`` is this."""

from __future__ import annotations

import sys

from tocsin.handlers.context import Context
from tocsin.handlers.loading import is_loading
from tocsin.handlers.registry import HandlerApp
from tocsin.handlers.signals import Fail, Retry

__all__ = ["Context", "Fail", "Retry", "Worker"]


class Worker(HandlerApp):
    """The handlers of a pool, and the process that runs them.

    Args:
        pool: whose executions it takes; declared in TOCSIN_CLUSTER__POOLS.
    """

    def run(self) -> None:
        """Run a worker with these handlers until SIGTERM or SIGINT; settings are those of ``tocsin worker``.

        Does nothing in a child process that imports the app's file to get at its handlers.

        Raises:
            SystemExit: the worker could not start, or cannot go on; a supervisor should start it again.
        """
        if is_loading():
            return
        # Only here: child processes import an app for its handlers alone, and must be quick to start.
        from pydantic import ValidationError
        from pydantic_settings import SettingsError

        from tocsin.bootstrap.worker import run_worker
        from tocsin.cli.settings_errors import told
        from tocsin.config import Settings

        try:
            settings = Settings()
        except (ValidationError, SettingsError) as error:
            sys.stderr.write("".join(f"{line}\n" for line in told(error)))
            raise SystemExit(2) from None
        if status := run_worker(settings, self):
            raise SystemExit(status)
