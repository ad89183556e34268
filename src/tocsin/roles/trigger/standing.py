"""Shards that were given to this process and cannot be restored: each stands still alone, and somebody is told.

Nothing of such a shard is decided, and no other process gets it for that: what its last owner left is the same for all.
It is tried again now and then, so that it goes on by itself once it was mended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from tocsin.domain.alerts import Alert, AlertKind
from tocsin.domain.instants import SECOND, Micros
from tocsin.ports.meters import TriggerMeter
from tocsin.roles.trigger.takeover import Hindered, Hindrance

log = structlog.get_logger()

TRY_AGAIN: Final[dict[Hindrance, Micros]] = {Hindrance.HIDDEN_END: 2 * SECOND, Hindrance.DAMAGED: 60 * SECOND}
"""How long a shard is left alone before it is tried again. Whether an end is hidden is asked quickly."""
TELL_AFTER: Final[dict[Hindrance, Micros]] = {Hindrance.HIDDEN_END: 20 * SECOND, Hindrance.DAMAGED: 0}
"""How long a shard stands before people are alerted: transactions end by themselves within that time."""
LOG_EVERY: Final[Micros] = 60 * SECOND
TELL_EVERY: Final[Micros] = 3_600 * SECOND
"""How often people are alerted to one shard, also to one that goes and stands by turns."""

TellPeople = Callable[[Sequence[Alert]], None]


def nobody(alerts: Sequence[Alert]) -> None:
    """Tell nobody but the log of this process."""


@dataclass(slots=True)
class _Standing:
    why: Hindrance
    since: Micros
    not_before: Micros
    logged_at: Micros | None = None


class StandingShards:
    """The shards of one process that stand still.

    Args:
        meter: is told how many there are.
        tell: alerts people; must not wait for anything.
    """

    def __init__(self, meter: TriggerMeter, tell: TellPeople) -> None:
        self._meter = meter
        self._tell = tell
        self._shards: dict[int, _Standing] = {}
        self._told: dict[int, Micros] = {}

    def stands(self, shard: int, hindered: Hindered, now: Micros) -> None:
        """A shard could not be restored."""
        one = self._shards.get(shard)
        if one is None or one.why is not hindered.why:
            one = self._shards[shard] = _Standing(hindered.why, now, now)
        one.not_before = now + TRY_AGAIN[hindered.why]
        if one.logged_at is None or now >= one.logged_at + LOG_EVERY:
            one.logged_at = now
            told = {"shard": shard, "why": str(hindered.why), "error": hindered.problem}
            log.error("a shard stands still", action="trigger.shard_stands", **told)
        told_at = self._told.get(shard)
        if (told_at is None or now >= told_at + TELL_EVERY) and now >= one.since + TELL_AFTER[hindered.why]:
            self._told[shard] = now
            message = f"the shard stands still, nothing of it fires: {hindered.problem}"
            self._tell([Alert(AlertKind.SHARD_STOPPED, now, shard=shard, message=message)])
            self._meter.alerted(AlertKind.SHARD_STOPPED, 1)
        self._meter.standing(len(self._shards))

    def goes(self, shards: Iterable[int]) -> None:
        """Shards were restored, or are no longer ours."""
        for shard in shards:
            if self._shards.pop(shard, None) is not None:
                log.info("a shard stands no longer", action="trigger.shard_goes", shard=shard)
        self._meter.standing(len(self._shards))

    def waits(self, shard: int, now: Micros) -> bool:
        """Tell whether a shard is not to be tried yet."""
        one = self._shards.get(shard)
        return one is not None and now < one.not_before

    def hidden(self) -> list[int]:
        """Return the shards whose end was hidden when they were tried last."""
        return [shard for shard, one in self._shards.items() if one.why is Hindrance.HIDDEN_END]
