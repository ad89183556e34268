"""The circuit breakers of a worker process: one for each target of each tenant.

By tenant too, so that what one tenant does to a host that others call as well keeps only its own work away. A target is
what fails as a whole: scheme, host and port of a URL; else its pool and its name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

import structlog

from tocsin.domain.executions import AttemptError, Execution, ReportKind
from tocsin.domain.retries import speaks_against_target
from tocsin.domain.targets import HandlerTarget, HttpTarget, Target
from tocsin.engine.circuit_breaker import BreakerLimits, BreakerState, CircuitBreaker
from tocsin.ports.meters import WorkerMeter

log = structlog.get_logger()

BREAKER: Final = "breaker"
"""Why a dispatch is returned whose target's breaker is open."""
PORTS: Final = {"http": 80, "https": 443}
URLS_KEPT: Final = 4_096

Key = tuple[str, str]
"""Tenant and target."""


class Breakers:
    """Tells what may start by how its target fared lately.

    Args:
        limits: of each breaker.
        meter: counts those that are not closed.
        kept_max: breakers that are kept; beyond, the one that failed least lately is forgotten, open or not.
    """

    def __init__(self, limits: BreakerLimits, meter: WorkerMeter, kept_max: int) -> None:
        self._limits = limits
        self._meter = meter
        self._kept_max = kept_max
        self._breakers: dict[Key, CircuitBreaker] = {}
        """In the order in which they were made or last failed."""
        self._disturbed: set[Key] = set()
        """Those that are not closed."""
        self._last: tuple[Target | None, str] = None, ""
        """The target that was named last, and its name: mostly the next is the same."""

    def __len__(self) -> int:
        return len(self._breakers)

    @property
    def disturbed(self) -> bool:
        """Something is kept away from: not everything may start."""
        return bool(self._disturbed)

    def _key_of(self, execution: Execution) -> Key:
        """Return whose breaker an execution stands behind."""
        target, name = self._last
        if target is not execution.target:
            self._last = execution.target, (name := name_of(execution.target))
        return execution.head.tenant_id, name

    def wait_s(self, ref: object, execution: Execution, now_s: float) -> float | None:
        """Return how long to stay away from an execution's target; None: it may start now, under ``ref``."""
        if not self._disturbed:
            return None
        key = self._key_of(execution)
        if key not in self._disturbed:
            return None
        breaker = self._breakers[key]
        before = breaker.state
        admitted = breaker.admit(ref, now_s)
        if breaker.state is not before:
            self._tell(key, before, breaker)
        return None if admitted else breaker.try_at_s - now_s

    def ended(
        self, ref: object, execution: Execution, kind: ReportKind, error: AttemptError | None, now_s: float
    ) -> None:
        """Note how an attempt that was started has ended."""
        key = self._key_of(execution)
        breaker = self._breakers.get(key)
        failed = speaks_against_target(kind, error)
        if breaker is None:
            if failed is None:
                return
            breaker = self._breakers[key] = CircuitBreaker(self._limits)
            self._forget_oldest()
        elif failed:
            self._breakers[key] = self._breakers.pop(key)
        before = breaker.state
        breaker.ended(ref, failed, now_s)
        if breaker.state is not before:
            self._tell(key, before, breaker)

    def _forget_oldest(self) -> None:
        if len(self._breakers) > self._kept_max:
            oldest = next(iter(self._breakers))
            del self._breakers[oldest]
            self._disturbed.discard(oldest)

    def _tell(self, key: Key, before: BreakerState, breaker: CircuitBreaker) -> None:
        if breaker.state is BreakerState.CLOSED:
            self._disturbed.discard(key)
        else:
            self._disturbed.add(key)
        self._meter.breakers(len(self._disturbed))
        if before is BreakerState.CLOSED:
            log.warning(
                "nearly all attempts of a target fail: its work is returned",
                action="worker.breaker_opened",
                tenant=key[0],
                target=key[1],
                again_in_s=self._limits.open_s,
            )
        elif breaker.state is BreakerState.CLOSED:
            log.info("a target is well again", action="worker.breaker_closed", tenant=key[0], target=key[1])


def name_of(target: Target) -> str:
    """Return what fails as a whole where a target does."""
    if isinstance(target, HttpTarget):
        return _address_of(target.url)
    if isinstance(target, HandlerTarget):
        return f"{target.type}:{target.pool}/{target.name}"
    fields = (getattr(target, name, None) for name in ("pool", "topic", "name", "image", "argv"))
    parts = [str(one[0] if isinstance(one, list | tuple) and one else one) for one in fields if one]
    return f"{target.type}:{'/'.join(parts)}"


@lru_cache(URLS_KEPT)
def _address_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or PORTS.get(parts.scheme)}"
