"""Puts a gateway together, and runs it."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable

import structlog
import uuid_utils
import uvicorn
from fastapi import FastAPI
from prometheus_client import generate_latest

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.cassandra.run_logs import CassandraRunLogReader
from tocsin.adapters.cassandra.session import Connection
from tocsin.adapters.cassandra.view_reader import CassandraViewReader
from tocsin.adapters.kafka.command_bus import KafkaCommandBus
from tocsin.bootstrap.beats import beating
from tocsin.bootstrap.cluster import names_of
from tocsin.bootstrap.garbage import GATEWAY_YOUNG_MAX, collect_rarely
from tocsin.bootstrap.pools import PoolThread, pool_roll
from tocsin.bootstrap.process import Process
from tocsin.bootstrap.stores import store_address
from tocsin.config import GatewaySettings, Settings
from tocsin.domain.callback_keys import CallbackKeys
from tocsin.domain.errors import TocsinError
from tocsin.roles.gateway.app import create_app
from tocsin.roles.gateway.hosts import LOOPBACK
from tocsin.roles.gateway.parts import GatewayLimits
from tocsin.roles.heartbeat import LoopWatch
from tocsin.roles.pools import PoolBook

log = structlog.get_logger()

BACKLOG = 1_024
"""Connections that the system holds until they are accepted."""


def run_gateway(settings: Settings) -> int:
    """Run a gateway until it is asked to stop or must go.

    It serves from the start, whether or not log and store answer: ``/readyz`` says what is missing.

    Returns:
        The exit code: 0 after a polite stop, 3 when it cannot go on and should be started again.
    """
    process = Process("gateway", settings)
    process.stop_on_signals()
    try:
        return _serve(process, settings)
    except (TocsinError, OSError) as error:
        log.error(str(error), action="gateway.gave_up", error=type(error).__name__)
        return 3
    finally:
        process.close()


def _serve(process: Process, settings: Settings) -> int:
    listener = _bind(settings.gateway.host, settings.gateway.port)
    url = _url(listener)
    _warn_of_strangers(listener, url)
    connection = Connection(store_address(settings))
    failed: list[bool] = []
    server: GatewayServer | None = None

    def on_fatal() -> None:
        failed.append(True)
        if server is not None:
            server.should_exit = True

    book = PoolBook(pool_roll(settings, names_of(settings), f"tocsin-gateway-{process.name}"))
    pools = PoolThread(book)
    app = _app(process, settings, connection, on_fatal, _hosts(settings.gateway, listener), book)
    collect_rarely(GATEWAY_YOUNG_MAX)
    try:
        pools.start()
        with beating(process, settings) as life:
            server = GatewayServer(_uvicorn_config(app, settings.gateway), process, url, life.watch)
            server.run(sockets=[listener])
            life.clean = server.started and not failed
    finally:
        pools.stop()
        connection.close()
        listener.close()
    return 3 if failed or not server.started else 0


def _hosts(gateway: GatewaySettings, listener: socket.socket) -> tuple[str, ...]:
    """Return the names under which the gateway may be asked; none: any."""
    if gateway.hosts:
        return tuple(name.lower() for name in gateway.hosts)
    return (LOOPBACK, gateway.host.lower()) if _is_loopback(listener) else ()


def _app(
    process: Process,
    settings: Settings,
    connection: Connection,
    on_fatal: Callable[[], None],
    hosts: tuple[str, ...],
    book: PoolBook,
) -> FastAPI:
    bus = KafkaCommandBus(
        settings.kafka.bootstrap_servers,
        names_of(settings),
        f"tocsin-gateway-{process.name}",
        settings.gateway.delivery_timeout_s,
        on_fatal,
        settings.kafka.extra,
    )
    return create_app(
        bus,
        CassandraViewReader(connection),
        CassandraRunLogReader(connection),
        AvroCodec(),
        process.clock,
        lambda: uuid_utils.uuid7().hex,
        process.meter,
        lambda: generate_latest(process.meter.registry),
        _limits(settings.gateway, hosts),
        CallbackKeys([secret.get_secret_value() for secret in settings.callback_secrets]),
        book,
    )


def _limits(gateway: GatewaySettings, hosts: tuple[str, ...]) -> GatewayLimits:
    return GatewayLimits(
        outcome_wait_s=gateway.outcome_wait_s,
        store_wait_s=gateway.store_wait_s,
        body_wait_s=gateway.body_wait_s,
        body_bytes_max=gateway.body_bytes_max,
        pending_max=gateway.pending_max,
        outcomes_kept_max=gateway.outcomes_kept_max,
        outcomes_kept_bytes_max=gateway.outcomes_kept_bytes_max,
        hosts=hosts,
    )


def _uvicorn_config(app: FastAPI, gateway: GatewaySettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,  # our own logging stands already
        access_log=False,
        lifespan="on",
        ws="none",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=gateway.connections_max,
        timeout_graceful_shutdown=int(gateway.stop_grace_s),
    )


class GatewayServer(uvicorn.Server):
    """Says that it is ready once it accepts requests, and that its loop turns; forgets no early signal."""

    def __init__(self, config: uvicorn.Config, process: Process, url: str, watch: LoopWatch) -> None:
        super().__init__(config)
        self._process = process
        self._url = url
        self._watch = watch

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._process.stopping.is_set():
            self.should_exit = True
        await asyncio.to_thread(self._process.ready, gateway_url=self._url)

    async def on_tick(self, counter: int) -> bool:
        self._watch.turned()
        return await super().on_tick(counter)


def _bind(host: str, port: int) -> socket.socket:
    """Listen before anything else is done: a port that is taken is said at once, and port 0 becomes a number."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise OSError(
            f"cannot listen on {host}:{port}: {error.strerror}; TOCSIN_GATEWAY__PORT sets another port"
        ) from error
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_loopback(listener: socket.socket) -> bool:
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def _warn_of_strangers(listener: socket.socket, url: str) -> None:
    if _is_loopback(listener):
        log.warning(
            "there is no authentication yet: whoever has an account on this machine may create and delete jobs",
            action="gateway.unauthenticated",
            gateway_url=url,
        )
        return
    log.error(
        "there is no authentication yet, and this address is not loopback: whoever reaches it may create and delete"
        " jobs, and have this system call any address that its workers reach; put a proxy that authenticates before it",
        action="gateway.unauthenticated_and_exposed",
        gateway_url=url,
    )
