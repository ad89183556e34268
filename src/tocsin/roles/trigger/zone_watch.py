"""Whether this process may own shards as far as time zones go: all owners work by one release of the zone database.

Two releases may disagree about when a job is due, and a row that one owner filed must be the row that its successor
looks for. Which release it is, is a fact of the cluster, changed by an operator.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

import structlog

from tocsin.domain.errors import Refused, Unavailable
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.recurrence import TZDATA_VERSION
from tocsin.ports.clock import Clock
from tocsin.ports.cluster_facts import ClusterFacts

log = structlog.get_logger()

ZONE_DATA: Final = "zone_data"
"""Name of the fact that says which release of the zone database the cluster works by."""
ASK_EVERY: Final[Micros] = 5 * SECOND
"""However many commands ask for it, the store is asked no more often."""


class Gated(Protocol):
    """A shard whose commands may wait for the cluster's zone data."""

    @property
    def zone_data_wanted(self) -> str | None:
        """The release that a waiting command names and this process does not have; None where none waits."""

    def refuse_zone_data(self, release: str) -> None:
        """Reject waiting commands that name a release: it is not the cluster's."""


def refuse_other_zone_data(facts: ClusterFacts) -> None:
    """Make sure that this process works by the cluster's zone data; where none is recorded, any will do.

    Raises:
        Refused: it does not.
        Unavailable: the store did not answer.
    """
    recorded = facts.read_fact(ZONE_DATA)
    if recorded not in (None, TZDATA_VERSION):
        raise Refused(
            f"this cluster works by the zone data {recorded}, and this process has {TZDATA_VERSION}: it takes no "
            f"shards. Install the tzdata package of {recorded} here, or move the cluster by `tocsin tz set "
            f"{TZDATA_VERSION}`"
        )


class ZoneWatch:
    """Looks at commands that name other zone data than ours, and asks the store who is right.

    A command alone proves nothing, for anybody may write one: the fact decides. Until it is read, the command waits,
    and is left to a successor where it is right.
    """

    def __init__(self, facts: ClusterFacts, clock: Clock) -> None:
        self._facts = facts
        self._clock = clock
        self._not_before: Micros = 0

    def look(self, shards: Collection[Gated]) -> None:
        """Have waiting commands refused, or say that this process must go.

        Raises:
            Refused: the cluster works by other zone data by now.
        """
        wanted = {shard.zone_data_wanted for shard in shards} - {None}
        if not wanted or self._clock.now() < self._not_before:
            return
        self._not_before = self._clock.now() + ASK_EVERY
        try:
            refuse_other_zone_data(self._facts)
        except Unavailable as error:
            log.warning(
                "commands wait for the cluster's zone data", action="trigger.zone_data_unknown", error=str(error)
            )
            return
        for shard in shards:
            if (release := shard.zone_data_wanted) is not None:
                shard.refuse_zone_data(release)
