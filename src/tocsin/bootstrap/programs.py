"""What runs programs in a worker, where the operator allows it: commands, and containers by podman or docker."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from tocsin.adapters.targets.command import CommandRunner
from tocsin.adapters.targets.container import ContainerCli, ContainerRunner
from tocsin.adapters.targets.refusing import RefusingRunner
from tocsin.config import WorkerSettings
from tocsin.domain.errors import Refused
from tocsin.domain.programs import CommandTarget, ContainerTarget
from tocsin.ports.clock import Clock
from tocsin.ports.run_logs import RunLogs
from tocsin.ports.targets import TargetRunner

NO_COMMANDS: Final = (
    "this worker runs no commands; start those of the pool that may with --allow-command, or "
    "TOCSIN_WORKER__ALLOW_COMMAND"
)
NO_CONTAINERS: Final = (
    "this worker runs no containers; start those of the pool that may with --allow-container, or "
    "TOCSIN_WORKER__ALLOW_CONTAINER"
)


def program_runners(worker: WorkerSettings, clock: Clock, logs: RunLogs) -> dict[str, TargetRunner]:
    """Return the runners of programs by the type of their targets; what is not allowed is refused by one, too.

    Raises:
        Refused: what they need is not there.
    """
    commands: TargetRunner = RefusingRunner(clock, NO_COMMANDS)
    containers: TargetRunner = RefusingRunner(clock, NO_CONTAINERS)
    if worker.allow_command:
        commands = CommandRunner(clock, logs, worker.program_grace_s, _scratch(worker))
    if worker.allow_container and worker.container_runtime == "kubernetes":
        containers = _kubernetes(worker, clock, logs)
    elif worker.allow_container:
        containers = ContainerRunner(clock, logs, worker.program_grace_s, _scratch(worker), _container_cli(worker))
    return {CommandTarget.type: commands, ContainerTarget.type: containers}


def _scratch(worker: WorkerSettings) -> str:
    directory = worker.scratch_dir or tempfile.gettempdir()
    if not Path(directory).is_dir():
        raise Refused(
            f"there is no directory {directory}; TOCSIN_WORKER__SCRATCH_DIR names one that this worker may use"
        )
    return directory


def _container_cli(worker: WorkerSettings) -> ContainerCli:
    program = worker.container_cli[0]
    if shutil.which(program) is None:
        raise Refused(
            f"there is no program {program!r} for containers; TOCSIN_WORKER__CONTAINER_CLI names podman or docker"
        )
    return ContainerCli(worker.container_cli, worker.container_network, worker.container_run_options)


def _kubernetes(worker: WorkerSettings, clock: Clock, logs: RunLogs) -> TargetRunner:
    """Return what runs containers as Jobs; its modules need a library that is there only where it was asked for."""
    try:
        from tocsin.bootstrap.kubernetes import kubernetes_runner
    except ImportError as error:
        raise Refused(
            f"Kubernetes Jobs need its client library ({error}); install tocsin[kubernetes], or leave "
            "TOCSIN_WORKER__CONTAINER_RUNTIME out"
        ) from error
    return kubernetes_runner(worker, clock, logs)
