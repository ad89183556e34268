"""Which pools there are, as far as this process knows: looked up on a thread, read from any.

A pool that is made while all roles run becomes known with the next look.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from tocsin.domain.errors import Unavailable
from tocsin.ports.pools import PoolRoll

log = structlog.get_logger()

LOOK_EVERY_S: Final = 5.0


class PoolBook:
    """What is known of a cluster's pools."""

    def __init__(self, roll: PoolRoll) -> None:
        self._roll = roll
        self._known: Mapping[str, int] | None = None

    def known(self) -> Mapping[str, int] | None:
        """Return each pool with its partitions, the same object until it changes; None: nothing is known yet."""
        return self._known

    def look(self) -> None:
        """Look the pools up; without an answer, what was known stays. Blocks."""
        try:
            found = self._roll.partitions()
        except Unavailable as error:
            log.debug("the pools cannot be looked up", action="pools.unknown", error=str(error))
            return
        if found != self._known:
            self._known = found
