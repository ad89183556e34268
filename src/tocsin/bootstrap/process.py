"""What every role's process has: an identity, logging, metrics, signals, and a file that says it is ready."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path
from types import FrameType

import structlog
import uuid_utils

from tocsin import __version__
from tocsin.adapters.metrics import PrometheusMeter, serve_metrics
from tocsin.bootstrap.logs import configure_logging
from tocsin.config import Settings
from tocsin.domain.fleet import Heartbeat
from tocsin.domain.instants import Micros
from tocsin.ports.clock import Clock

log = structlog.get_logger()


class SystemClock:
    """Fulfils ``ports.clock.Clock`` with the machine's wall clock."""

    def now(self) -> Micros:
        return time.time_ns() // 1000


class Process:
    """One start of one role.

    Attributes:
        role: gateway, trigger, worker or projector.
        process_id: new at every start.
        name: the operator's, the same over restarts.
        stopping: set when a signal asked the process to stop.
    """

    def __init__(self, role: str, settings: Settings) -> None:
        configure_logging(role)
        self.role = role
        self.settings = settings
        self.name = settings.name
        self.process_id = f"{role}-{uuid_utils.uuid7().hex}"
        self.clock: Clock = SystemClock()
        self.local_now = self.clock.now
        """The process's own time, which its heartbeats tell."""
        self.meter = PrometheusMeter()
        self.stopping = threading.Event()
        self.started_at = self.clock.now()
        self.metrics_url, self._stop_metrics = serve_metrics(self.meter, settings.metrics.host, settings.metrics.port)
        log.info(
            "starting", action=f"{role}.starting", process_id=self.process_id, pid=os.getpid(), metrics=self.metrics_url
        )

    def stop_on_signals(self) -> None:
        """Make SIGTERM and SIGINT set ``stopping``; a second signal is no different from the first."""

        def ask(signum: int, _frame: FrameType | None) -> None:
            self.stopping.set()

        signal.signal(signal.SIGTERM, ask)
        signal.signal(signal.SIGINT, ask)

    def heartbeat(self, stopped: bool = False) -> Heartbeat:
        """Return what this process says of itself."""
        host, sent_at = socket.gethostname(), self.local_now()
        pools = self.settings.worker.pools if self.role == "worker" else ()
        started_at = self.started_at
        return Heartbeat(self.process_id, self.name, self.role, host, __version__, started_at, stopped, sent_at, pools)

    def ready(self, **addresses: object) -> None:
        """Say that the process serves: a log line, and the ready file where one was asked for."""
        facts = {
            "role": self.role,
            "name": self.name,
            "process_id": self.process_id,
            "pid": os.getpid(),
            "metrics_url": self.metrics_url,
            **addresses,
        }
        log.info("ready", action=f"{self.role}.ready", **addresses)
        if self.settings.ready_file:
            write_json(Path(self.settings.ready_file), facts)

    def close(self) -> None:
        """Stop serving metrics; the last thing that a role does."""
        self._stop_metrics()
        log.info("stopped", action=f"{self.role}.stopped")


def write_json(path: Path, facts: dict[str, object]) -> None:
    """Write a JSON file so that a reader sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(facts, indent=2) + "\n")
    temporary.replace(path)
