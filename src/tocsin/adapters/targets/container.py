"""Container targets by the command line of podman or docker: an attempt is a container, named after its dispatch."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tocsin.adapters.targets.command import judge_exit, own_environment
from tocsin.adapters.targets.programs import ProgramRunner, ProgramSpec, signal_name
from tocsin.domain.executions import AttemptError, AttemptHead
from tocsin.domain.programs import ContainerTarget, memory_bytes_of
from tocsin.ports.clock import Clock
from tocsin.ports.run_logs import RunLogs
from tocsin.ports.targets import Attempt

CLI_FAILED: Final = 125
"""What both command lines end with where they could not make or start the container."""
SIGNALLED: Final = range(129, 193)
"""128 and the number of the signal that ended the container's first process."""
LINGER_S: Final = 5.0
"""How long what the command line leaves behind may go on tidying up, such as removing the container."""


@dataclass(frozen=True, slots=True)
class ContainerCli:
    """How containers are run.

    Attributes:
        command: podman or docker, with options that stand before the verb.
        network: the network of containers; None: what the command line takes by itself.
        run_options: further options of the verb ``run``.
    """

    command: Sequence[str] = ("podman",)
    network: str | None = None
    run_options: Sequence[str] = ()


def digest_of(execution_id: str) -> str:
    """Return a short name of an execution, of letters and digits only."""
    return hashlib.blake2b(execution_id.encode(), digest_size=10).hexdigest()


def container_name(head: AttemptHead) -> str:
    """Return the name of a dispatch's container: the same whoever asks, and another for each dispatch."""
    return f"tocsin-{digest_of(head.execution_id)}-{head.attempt}-{head.token}"


def judge_container(code: int) -> AttemptError | None:
    """Return what the exit status of a container means; None: success."""
    if code not in SIGNALLED:
        return judge_exit(code)
    return AttemptError("signal", f"killed by {signal_name(code - 128)}", code)


def run_command(cli: ContainerCli, attempt: Attempt, target: ContainerTarget) -> list[str]:
    """Return the command that runs a dispatch's container."""
    head, resources = attempt.execution.head, target.resources
    options = [
        *("--rm", "--name", container_name(head)),
        *("--security-opt", "no-new-privileges"),
        *("--label", f"tocsin.execution_id={head.execution_id}"),
        *("--label", f"tocsin.attempt={head.attempt}", "--label", f"tocsin.token={head.token}"),
    ]
    if cli.network is not None:
        options += ["--network", cli.network]
    if "cpus" in resources:
        options += ["--cpus", resources["cpus"]]
    if "memory" in resources:
        options += ["--memory", str(memory_bytes_of(resources["memory"]))]
    if "pids" in resources:
        options += ["--pids-limit", resources["pids"]]
    for name, value in (dict(target.env) | own_environment(attempt)).items():
        options += ["--env", f"{name}={value}"]
    return [*cli.command, "run", *options, *cli.run_options, target.image, *target.argv]


class ContainerRunner(ProgramRunner):
    """Fulfils ``ports.targets.TargetRunner`` for container targets.

    Args:
        clock: stamps start and end.
        logs: where output goes.
        grace_s: between the polite and the forced end of a container.
        scratch: where the command line starts, in a directory of its own.
        cli: how containers are run.
    """

    def __init__(self, clock: Clock, logs: RunLogs, grace_s: float, scratch: str, cli: ContainerCli) -> None:
        super().__init__(clock, "containers", logs, grace_s, scratch)
        self._cli = cli

    def _spec(self, attempt: Attempt) -> ProgramSpec:
        target = attempt.execution.target
        if not isinstance(target, ContainerTarget):
            raise ValueError(f"a target of the type {target.type!r} is no container")
        name = container_name(attempt.execution.head)
        # The command line is the operator's and finds its sockets and credentials by its environment; of tocsin's own
        # settings it needs none.
        env = {key: value for key, value in os.environ.items() if not key.upper().startswith("TOCSIN_")}
        clean_up = ((*self._cli.command, "kill", name), (*self._cli.command, "rm", "-f", name))
        argv = run_command(self._cli, attempt, target)
        return ProgramSpec(argv, env, target.timeout_s, clean_up=clean_up, linger_s=LINGER_S)

    def _judge(self, code: int) -> AttemptError | None:
        if code == CLI_FAILED:
            return AttemptError("container", "the container could not be started", code)
        return judge_container(code)
