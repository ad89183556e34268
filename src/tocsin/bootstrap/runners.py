"""What runs attempts in a worker: targets by their type, and suspects alone in a process of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from tocsin.adapters.cassandra.run_logs import CassandraRunLogStore
from tocsin.adapters.cassandra.session import Connection
from tocsin.adapters.metrics import PrometheusMeter
from tocsin.adapters.targets.addresses import AddressRules
from tocsin.adapters.targets.alone import AloneRunner
from tocsin.adapters.targets.http import HttpTargetRunner
from tocsin.adapters.targets.output import OutputLimits, OutputWriter
from tocsin.adapters.targets.routing import RoutingRunner
from tocsin.adapters.targets.signatures import Signer
from tocsin.bootstrap.handlers import handler_runner, lone_handler_runner
from tocsin.bootstrap.logs import configure_logging
from tocsin.bootstrap.process import SystemClock
from tocsin.bootstrap.programs import program_runners
from tocsin.bootstrap.stores import store_address
from tocsin.config import Settings
from tocsin.domain.callback_keys import CallbackKeys
from tocsin.domain.errors import Refused
from tocsin.domain.instants import DAY, SECOND
from tocsin.domain.targets import HandlerTarget, HttpTarget
from tocsin.handlers.registry import HandlerApp
from tocsin.ports.clock import Clock
from tocsin.ports.meters import OutputMeter
from tocsin.ports.run_logs import RunLogs
from tocsin.ports.targets import RunnerSpec, TargetRunner

OUTPUT_WAIT_S: Final = 1.5
"""How long an end waits for output to be written; less than a process that runs one attempt alone has for its end."""


def worker_runner(settings: Settings, clock: Clock, meter: OutputMeter, app: HandlerApp | None = None) -> TargetRunner:
    """Return the runner of a worker's loop.

    Args:
        settings: they name the app, for processes of its own.
        clock: stamps start and end.
        meter: counts output.
        app: whose handlers it runs; None: none.

    Raises:
        Refused: a file that the settings name cannot be read.
    """
    spec = RunnerSpec("tocsin.bootstrap.runners:runner_of_child", settings)
    handlers = None if app is None else partial(handler_runner, settings, clock, app)
    return AloneRunner(shared_runner(settings, clock, meter, handlers), spec, clock, settings.worker.alone_max)


def runner_of_child(settings: Settings) -> TargetRunner:
    """Return the runner of a process that runs one attempt alone; it logs as its worker does."""
    configure_logging("worker")
    clock = SystemClock()
    handlers = partial(lone_handler_runner, settings, clock) if settings.worker.app else None
    return shared_runner(settings, clock, PrometheusMeter(), handlers)


def shared_runner(
    settings: Settings, clock: Clock, meter: OutputMeter, handlers: Callable[[RunLogs], TargetRunner] | None = None
) -> TargetRunner:
    """Return the runner that attempts share, for every type of target that a worker runs."""
    logs = _output(settings, clock, meter)
    runners: dict[str, TargetRunner] = {HttpTarget.type: _http_runner(settings, clock)}
    runners |= program_runners(settings.worker, clock, logs)
    if handlers is not None:
        runners[HandlerTarget.type] = handlers(logs)
    return RoutingRunner(clock, runners, lambda: logs.close(OUTPUT_WAIT_S))


def _output(settings: Settings, clock: Clock, meter: OutputMeter) -> OutputWriter:
    worker = settings.worker
    store = CassandraRunLogStore(Connection(store_address(settings)), round(worker.log_kept_days * DAY / SECOND))
    limits = OutputLimits(worker.log_bytes_max, worker.log_waiting_bytes_max, linger_s=worker.log_linger_s)
    return OutputWriter(store, clock, meter, limits)


def _http_runner(settings: Settings, clock: Clock) -> HttpTargetRunner:
    worker = settings.worker
    callbacks = CallbackKeys([secret.get_secret_value() for secret in settings.callback_secrets])
    rules = AddressRules(allow_private=worker.allow_private_targets, allow=worker.target_allow, deny=worker.target_deny)
    secrets = {
        tenant: [secret.get_secret_value() for secret in given] for tenant, given in worker.signing_secrets.items()
    }
    try:
        return HttpTargetRunner(clock, worker.response_bytes_max, rules, Signer(secrets), worker.ca_file, callbacks)
    except OSError as error:
        raise Refused(
            f"the certificates in {worker.ca_file} cannot be read ({error.strerror or error}); "
            "TOCSIN_WORKER__CA_FILE names a file in PEM"
        ) from error
