"""What runs attempts in a worker: targets by their type, and suspects alone in a process of their own."""

from __future__ import annotations

from tocsin.adapters.targets.addresses import AddressRules
from tocsin.adapters.targets.alone import AloneRunner
from tocsin.adapters.targets.http import HttpTargetRunner
from tocsin.adapters.targets.routing import RoutingRunner
from tocsin.adapters.targets.signatures import Signer
from tocsin.bootstrap.handlers import handler_runner, lone_handler_runner
from tocsin.bootstrap.logs import configure_logging
from tocsin.bootstrap.process import SystemClock
from tocsin.config import Settings
from tocsin.domain.callback_keys import CallbackKeys
from tocsin.domain.errors import Refused
from tocsin.domain.targets import HandlerTarget, HttpTarget
from tocsin.handlers.registry import HandlerApp
from tocsin.ports.clock import Clock
from tocsin.ports.targets import RunnerSpec, TargetRunner


def worker_runner(settings: Settings, clock: Clock, app: HandlerApp | None = None) -> TargetRunner:
    """Return the runner of a worker's loop.

    Args:
        settings: they name the app, for processes of its own.
        clock: stamps start and end.
        app: whose handlers it runs; None: none.

    Raises:
        Refused: a file that the settings name cannot be read.
    """
    spec = RunnerSpec("tocsin.bootstrap.runners:runner_of_child", settings)
    handlers = None if app is None else handler_runner(settings, clock, app)
    return AloneRunner(shared_runner(settings, clock, handlers), spec, clock, settings.worker.alone_max)


def runner_of_child(settings: Settings) -> TargetRunner:
    """Return the runner of a process that runs one attempt alone; it logs as its worker does."""
    configure_logging("worker")
    clock = SystemClock()
    return shared_runner(settings, clock, lone_handler_runner(settings, clock) if settings.worker.app else None)


def shared_runner(settings: Settings, clock: Clock, handlers: TargetRunner | None = None) -> TargetRunner:
    """Return the runner that attempts share, for every type of target that a worker runs."""
    runners: dict[str, TargetRunner] = {HttpTarget.type: _http_runner(settings, clock)}
    if handlers is not None:
        runners[HandlerTarget.type] = handlers
    return RoutingRunner(clock, runners)


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
