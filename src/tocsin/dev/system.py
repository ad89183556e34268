"""A development system from start to end: servers, tables, topics, roles, and the file that tells where all is."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tocsin.adapters.kafka.clients import base_config
from tocsin.dev import doors
from tocsin.dev.audience import Audience
from tocsin.dev.child import ChildSpec
from tocsin.dev.data_dir import held
from tocsin.dev.echo import EchoReceiver
from tocsin.dev.errors import DevError
from tocsin.dev.ready_file import ready_document, write_ready_file
from tocsin.dev.roles import role_specs, same_metrics_port
from tocsin.dev.servers import Servers, prepare, settings_for
from tocsin.dev.signals import StopSignals
from tocsin.dev.supervisor import Supervisor
from tocsin.devcluster import Endpoints

READY_S_MAX: Final = 120.0


@dataclass(frozen=True, slots=True)
class DevOptions:
    """What the user chose.

    Attributes:
        data_dir: where data and logs are.
        fresh: drop the data of an earlier run.
        port: of the gateway; 0 takes any free one, None the usual one or, where that is taken, another.
        echo: run the receiver that shows its calls.
        ready_file: see ``ready_document``.
        verbose: show all that the roles log.
    """

    data_dir: Path
    fresh: bool = False
    port: int | None = None
    echo: bool = False
    ready_file: Path | None = None
    verbose: bool = False


class DevSystem:
    """One run: ``start``, then ``tick`` several times a second, then ``stop`` or ``kill``; all on the main thread."""

    def __init__(self, options: DevOptions, audience: Audience, signals: StopSignals) -> None:
        self._options = options
        self._audience = audience
        self._signals = signals
        self._held = ExitStack()
        self._servers: Servers | None = None
        self._supervisor: Supervisor | None = None
        self._echo: EchoReceiver | None = None
        self._endpoints: Endpoints | None = None
        self._shards = 0
        self._port = 0
        self._ready = False

    @property
    def has_begun(self) -> bool:
        """Whether anything may have been started that has to be stopped."""
        return self._servers is not None

    @property
    def gateway_url(self) -> str:
        """Where the REST door is."""
        return f"http://{doors.HOST}:{self._port}"

    @property
    def echo_url(self) -> str | None:
        """Where the receiver is, if there is one."""
        return self._echo.url if self._echo else None

    @property
    def metrics_urls(self) -> dict[str, str]:
        """Where each role serves its metrics."""
        facts = self._supervisor.facts if self._supervisor else {}
        return {role: str(said["metrics_url"]) for role, said in facts.items()}

    @property
    def kafka(self) -> dict[str, Any]:
        """Settings for a librdkafka client of the broker."""
        assert self._endpoints is not None, "there is no broker before the start"
        settings = settings_for(self._endpoints).kafka
        return base_config(settings.bootstrap_servers, "tocsin-dev", settings.extra)

    def kill_role(self, role: str) -> int:
        """Kill a role's process at once, as if it had crashed; return its pid. It is started again as ever.

        Raises:
            DevError: it does not run now.
        """
        pids = self._supervisor.pids[role] if self._supervisor else []
        if not pids:
            raise DevError(f"no {role} runs that could be killed", remedy="read its log in the data directory")
        os.kill(pids[0], signal.SIGKILL)
        return pids[0]

    def start(self) -> None:
        """Bring everything up, until a create would be answered 201.

        Raises:
            DevClusterError, TocsinError: it cannot; the caller still has to call ``stop``.
        """
        options = self._options
        directory = self._held.enter_context(held(options.data_dir))
        self._remove_ready_file()
        self._port = self._choose_gateway_port(options.port)
        self._servers = Servers(directory, self._audience, self._signals)
        self._endpoints = self._servers.start(fresh=options.fresh)
        self._shards = prepare(settings_for(self._endpoints), self._audience)
        if options.echo:
            wanted = 0 if options.port == 0 else doors.ECHO_PORT
            port = doors.choose_port(wanted, insist=False, name="echo receiver")
            self._echo = EchoReceiver(doors.HOST, port, self._audience.called)
            self._echo.start()
        self._supervisor = Supervisor(
            role_specs(directory, self._endpoints, doors.HOST, self._port, os.environ),
            self._audience,
            on_change=self._write_ready_file,
            verbose=options.verbose,
            confirm=self._serves,
            next_environ=same_metrics_port,
        )
        self._supervisor.wait_ready(READY_S_MAX)
        self._ready = True
        self._write_ready_file()

    def tick(self) -> None:
        """Look after everything once."""
        if self._supervisor is not None and self._servers is not None:
            self._supervisor.tick()
            self._servers.look_after()

    def stop(self) -> None:
        """Stop the roles, then the servers; all that was started here is gone afterwards, and data are kept."""
        self._remove_ready_file()
        if self._supervisor is not None:
            self._supervisor.stop()
        if self._echo is not None:
            self._echo.stop()
        if self._servers is not None:
            self._servers.stop()
        self._held.close()

    def kill(self) -> None:
        """End everything at once; data are as after a crash, which every part is built to take."""
        if self._supervisor is not None:
            self._supervisor.kill()
        if self._servers is not None:
            self._servers.kill()
        self._remove_ready_file()
        self._held.close()

    def _choose_gateway_port(self, asked: int | None) -> int:
        wanted = doors.GATEWAY_PORT if asked is None else asked
        port = doors.choose_port(wanted, insist=asked is not None, name="gateway")
        if wanted not in (0, port):
            self._audience.said(f"port {wanted} is taken, so the gateway will listen on {port}; --port chooses another")
        return port

    def _serves(self, spec: ChildSpec, facts: Mapping[str, Any]) -> bool:
        """Tell whether what a role says is enough for creates to be accepted."""
        if spec.role == "gateway":
            return doors.answers_ready(self._port)
        if spec.role == "trigger":
            # Its own word names the shards of its first assignment; others may still be a dead predecessor's.
            return doors.shards_owned(str(facts.get("metrics_url", ""))) == self._shards
        return True

    def _write_ready_file(self) -> None:
        if self._ready and self._options.ready_file and self._supervisor and self._endpoints:
            supervisor = self._supervisor
            document = ready_document(
                self.gateway_url, self._endpoints, supervisor.pids, supervisor.facts, self.echo_url
            )
            write_ready_file(self._options.ready_file, document)

    def _remove_ready_file(self) -> None:
        """What is not up must not be described as if it were."""
        self._ready = False
        if self._options.ready_file is not None:
            self._options.ready_file.unlink(missing_ok=True)
