"""Command targets: a program of the worker's machine, without a shell, and with nothing of the worker's environment."""

from __future__ import annotations

import os
from typing import Final

from tocsin.adapters.targets.programs import ProgramRunner, ProgramSpec
from tocsin.domain.executions import AttemptError
from tocsin.domain.instants import format_rfc3339
from tocsin.domain.programs import CommandTarget
from tocsin.ports.clock import Clock
from tocsin.ports.run_logs import RunLogs
from tocsin.ports.targets import Attempt

EX_TEMPFAIL: Final = 75
"""Of sysexits.h: what failed may go well later."""
NOT_EXECUTABLE: Final = (126, 127)
"""What shells and ``env`` end with where they cannot run, or find, what they were given."""


def own_environment(attempt: Attempt) -> dict[str, str]:
    """Return the variables that tell a program whose run it is."""
    head = attempt.execution.head
    return {
        "TOCSIN_EXECUTION_ID": head.execution_id,
        "TOCSIN_JOB_ID": head.job_id,
        "TOCSIN_SCHEDULED_FOR": format_rfc3339(head.scheduled_for),
        "TOCSIN_ATTEMPT": str(head.attempt),
        "TOCSIN_TOKEN": str(head.token),
        "TOCSIN_REDELIVERED": "true" if attempt.redelivered else "false",
    }


def judge_exit(code: int) -> AttemptError | None:
    """Return what a program's exit status means; None: success."""
    if code == 0:
        return None
    error_class = "exit"
    if code == EX_TEMPFAIL:
        error_class = "temporary"
    elif code in NOT_EXECUTABLE:
        error_class = "not_executable"
    return AttemptError(error_class, f"exit status {code}", code)


class CommandRunner(ProgramRunner):
    """Fulfils ``ports.targets.TargetRunner`` for command targets.

    Args:
        clock: stamps start and end.
        logs: where output goes.
        grace_s: between the polite and the forced end of a program.
        scratch: where directories of programs without one of their own are made.
    """

    def __init__(self, clock: Clock, logs: RunLogs, grace_s: float, scratch: str) -> None:
        super().__init__(clock, "commands", logs, grace_s, scratch)

    def _spec(self, attempt: Attempt) -> ProgramSpec:
        target = attempt.execution.target
        if not isinstance(target, CommandTarget):
            raise ValueError(f"a target of the type {target.type!r} is no program")
        path = {"PATH": os.environ.get("PATH", os.defpath)}
        env = path | dict(target.env) | own_environment(attempt)
        return ProgramSpec(target.argv, env, target.timeout_s, target.cwd)

    def _judge(self, code: int) -> AttemptError | None:
        return judge_exit(code)
