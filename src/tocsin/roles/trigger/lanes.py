"""Lanes whose topics are gone: what is due in them waits in the state of its shard, and all else goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from tocsin.domain.errors import Refused
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.pools import lane_of_pool
from tocsin.engine.dispatch_desk import Lanes
from tocsin.ports.meters import TriggerMeter
from tocsin.ports.shard_log import ShardLog, executions
from tocsin.roles.pools import PoolBook

log = structlog.get_logger()

LOOK_EVERY: Micros = 10 * SECOND
"""How soon a lane that was missing is found to be back."""


class LaneWatch:
    """Keeps ``Lanes.missing``, which the engines read."""

    def __init__(self, shard_log: ShardLog, lanes: Lanes, meter: TriggerMeter, pools: PoolBook | None = None) -> None:
        self._log = shard_log
        self._lanes = lanes
        self._meter = meter
        self._pools = pools
        self._pools_seen: Mapping[str, int] | None = None
        self._looked_at: Micros = 0

    def missing(self, topics: Sequence[str], now: Micros) -> None:
        """Note that topics are gone.

        Raises:
            Refused: one of them is no lane's, and without it nothing can be decided.
        """
        by_topic = {executions(lane): lane for lane in self._lanes.partitions}
        if others := sorted(set(topics) - set(by_topic)):
            raise Refused(f"topics are missing: {', '.join(others)}; restore them, or run `tocsin topics apply`")
        log.error("the topics of lanes are missing", action="trigger.lanes_missing", topics=sorted(topics))
        self._lanes.missing.update(by_topic[topic] for topic in topics)
        self._looked_at = now
        self._meter.lanes_missing(len(self._lanes.missing))

    def look(self, now: Micros) -> None:
        """Find out, now and then, whether lanes that were missing are back; they may have other partitions.

        Raises:
            Unavailable: the brokers did not answer.
        """
        self._take_pools()
        if not self._lanes.missing or now < self._looked_at + LOOK_EVERY:
            return
        self._looked_at = now
        found = self._log.partition_counts([executions(lane) for lane in self._lanes.missing])
        for lane in sorted(self._lanes.missing):
            if (count := found.get(executions(lane), 0)) > 0:
                log.info("a lane is back", action="trigger.lane_is_back", lane=lane, partitions=count)
                self._lanes.partitions[lane] = count
                self._lanes.missing.discard(lane)
        self._meter.lanes_missing(len(self._lanes.missing))

    def _take_pools(self) -> None:
        """Add pools that were found since; a pool whose topic went stays, and is missing once it is published to."""
        found = None if self._pools is None else self._pools.known()
        if found is None or found is self._pools_seen:
            return
        self._pools_seen = found
        for pool, partitions in sorted(found.items()):
            lane = lane_of_pool(pool)
            if lane not in self._lanes.partitions:
                log.info("a pool was found", action="trigger.pool_found", pool=pool, partitions=partitions)
            self._lanes.partitions[lane] = partitions
            self._lanes.missing.discard(lane)
