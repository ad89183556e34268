"""Telling an operator which shards wait for their index to be rebuilt, when that changes."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from tocsin.engine.shard_engine import ShardEngine

log = structlog.get_logger()


class LostIndexes:
    """What was last said."""

    def __init__(self) -> None:
        self._told: set[int] = set()

    def tell(self, engines: Mapping[int, ShardEngine]) -> None:
        """Say which shards of this process have lost their rows, and which have them again."""
        lost = {shard for shard, engine in engines.items() if engine.index_is_lost}
        if lost - self._told:
            log.error(
                "the index has lost its rows; shards wait for `tocsin index rebuild`",
                action="trigger.index_lost",
                shards=sorted(lost),
            )
        elif self._told - lost:
            log.info("the index is whole again", action="trigger.index_found", shards=sorted(self._told - lost))
        self._told = lost
