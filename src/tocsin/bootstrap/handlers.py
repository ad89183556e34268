"""Puts a service's own handlers into a worker: found by the name of their app, here and in each child process."""

from __future__ import annotations

from tocsin.adapters.targets.handler_children import HandlerChildren
from tocsin.adapters.targets.handlers import HandlerRunner
from tocsin.config import Settings
from tocsin.domain.errors import Refused
from tocsin.domain.pools import lane_of_pool
from tocsin.handlers.loading import NoApp, load_app, ref_of
from tocsin.handlers.registry import HandlerApp
from tocsin.ports.clock import Clock
from tocsin.ports.run_logs import RunLogs
from tocsin.ports.targets import RunnerSpec


def handlers_of(settings: Settings, app: HandlerApp | None) -> HandlerApp | None:
    """Return the app that a worker serves, checked, and have the settings say so; None: it serves none.

    Args:
        settings: changed: they name the app, and its pool among those that are served.
        app: at hand already; None: the one that the settings name.

    Raises:
        Refused: it cannot be found, here or from another process, or one of its handlers cannot be called.
    """
    worker = settings.worker
    if app is None and worker.app is None:
        return None
    try:
        if app is None:
            app = load_app(str(worker.app))
        else:
            worker.app = ref_of(app)
        app.check()
    except NoApp as error:
        raise Refused(f"the app cannot be used: {error}") from error
    except (Exception, SystemExit) as error:
        raise Refused(f"the app {worker.app} cannot be used: {type(error).__name__}: {error}") from error
    worker.pools = tuple(dict.fromkeys((*worker.pools, app.pool)))
    serves_more = any(lane != lane_of_pool(app.pool) for lane in worker.all_lanes)
    if "running_max" not in worker.model_fields_set and not serves_more and not _has_async(app):
        # More would only wait for a process.
        worker.running_max = worker.handler_processes
    return app


def handler_runner(settings: Settings, clock: Clock, app: HandlerApp, logs: RunLogs) -> HandlerRunner:
    """Return what runs an app's handlers beside one another."""
    worker = settings.worker
    children = None
    if any(not handler.is_async for handler in app.handlers.values()):
        spec = RunnerSpec("tocsin.bootstrap.child_app:app_of_child", worker.app)
        children = HandlerChildren(spec, clock, worker.handler_processes, worker.handler_wait_s, logs)
    return HandlerRunner(app, clock, children, logs)


def lone_handler_runner(settings: Settings, clock: Clock, logs: RunLogs) -> HandlerRunner:
    """Return what runs one attempt in a process of its own: there a plain function needs no child."""
    return HandlerRunner(load_app(str(settings.worker.app)), clock, None, logs)


def _has_async(app: HandlerApp) -> bool:
    return any(handler.is_async for handler in app.handlers.values())
