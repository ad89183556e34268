"""Pools in which work waits while no living worker serves them: counted, and told once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import structlog

from tocsin.domain.alerts import Alert, AlertKind
from tocsin.domain.errors import Unavailable
from tocsin.domain.instants import SECOND, Micros
from tocsin.ports.alert_sink import AlertSink
from tocsin.ports.clock import Clock
from tocsin.ports.meters import TriggerMeter
from tocsin.ports.pools import PoolRoll

log = structlog.get_logger()

IDLE_AFTER: Micros = 60 * SECOND
"""How long work may wait in a pool without workers before somebody is told."""
FIRST_SHARD: Final = 0
"""Its owner tells of idle pools, so that each is told of once."""


class IdlePools:
    """Looks at pools without workers. Every call blocks; a thread of its own makes them.

    Args:
        roll: tells whether work waits.
        workers: returns how many living workers serve each pool.
        in_charge: whether this process is the one that tells.
        alerts, meter, clock: ports.
    """

    def __init__(
        self,
        roll: PoolRoll,
        workers: Callable[[], Mapping[str, int]],
        in_charge: Callable[[], bool],
        alerts: AlertSink,
        meter: TriggerMeter,
        clock: Clock,
    ) -> None:
        self._roll = roll
        self._workers = workers
        self._in_charge = in_charge
        self._alerts = alerts
        self._meter = meter
        self._clock = clock
        self._since: dict[str, Micros] = {}
        self._told: set[str] = set()

    def look(self, pools: Mapping[str, int]) -> None:
        """Find the pools that are idle, and tell of those that have been for long."""
        if not self._in_charge():
            self._since.clear()
            self._told.clear()
            self._meter.pools_idle(0)
            return
        now = self._clock.now()
        served = self._workers()
        idle = {pool for pool in pools if not served.get(pool) and self._has_work(pool)}
        self._since = {pool: self._since.get(pool, now) for pool in sorted(idle)}
        self._told &= idle
        long = [pool for pool, since in self._since.items() if now - since >= IDLE_AFTER]
        self._meter.pools_idle(len(long))
        for pool in long:
            if pool not in self._told:
                self._tell(pool, now)

    def _has_work(self, pool: str) -> bool:
        try:
            return self._roll.has_work(pool)
        except Unavailable as error:
            log.debug("a pool cannot be looked into", action="pools.unknown", pool=pool, error=str(error))
            return pool in self._since

    def _tell(self, pool: str, now: Micros) -> None:
        message = f"work waits in the pool {pool}, and no living worker serves it: start `tocsin worker --pool {pool}`"
        try:
            self._alerts.send([Alert(AlertKind.POOL_IDLE, now, shard=FIRST_SHARD, message=message)])
        except Unavailable as error:
            log.warning("an alert is sent again later", action="pools.alert_failed", error=str(error))
            return
        log.error("work waits in a pool without workers", action="trigger.pool_idle", pool=pool)
        self._told.add(pool)
