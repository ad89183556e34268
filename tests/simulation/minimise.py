"""Makes a failing plan short: leaves actions out as long as the same kind of violation stays."""

from __future__ import annotations

import time

from tests.simulation.plan import Action, Plan


def minimise(plan: Plan, where: str, runs_max: int = 400, seconds_max: float = 120.0) -> Plan:
    """Return a shorter plan that fails at the same check.

    Args:
        plan: fails.
        where: the check.
        runs_max, seconds_max: how often, and how long, to try.
    """
    from tests.simulation.runner import run

    actions, runs = list(plan.actions), 0
    until = time.monotonic() + seconds_max

    def fails(some: list[Action]) -> bool:
        nonlocal runs
        runs += 1
        return run(plan._replace(actions=tuple(some))).where == where

    size = max(1, len(actions) // 2)
    while runs < runs_max and time.monotonic() < until:
        at, shorter = 0, False
        while at < len(actions) and runs < runs_max and time.monotonic() < until:
            rest = actions[:at] + actions[at + size :]
            if fails(rest):
                actions, shorter = rest, True
            else:
                at += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return plan._replace(actions=tuple(actions))
