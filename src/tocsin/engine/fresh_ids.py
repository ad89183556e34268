"""Which ids of jobs can have no job yet, so that creates go on while the store is away."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from tocsin.domain import ids
from tocsin.domain.instants import MILLISECOND, Micros

SKEW_MS: Final = 5_000
"""How far the clock of whoever makes ids may be from the owner's."""
REMEMBERED_AHEAD_MS: Final = 3_600_000
FRESH_IDS_MAX: Final = 10_000
"""Of one shard: 2.4 MB, and a process may own hundreds. An id made before the oldest of them costs a read of its job's
row: at a hundred creates a second on a shard, one that came more than a hundred seconds after it was made."""


class FreshIds:
    """Tells which made ids are new.

    An id that tocsin makes carries its time. One that was made after this owner began, by the owner's own clock, is
    new unless this owner has seen it; it remembers those. All others may be anybody's repetition, as may be what
    claims to come from the future. What a sender says of the time is never trusted alone.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[str, int] = OrderedDict()
        self._after_ms: int | None = None

    def begin(self, now: Micros) -> None:
        """The owner goes on; only the first call counts."""
        if self._after_ms is None:
            # What was made before we began, by a clock that may be ahead of ours, a predecessor may have seen.
            self._after_ms = now // MILLISECOND + SKEW_MS

    def is_new(self, job_id: str, now: Micros) -> bool:
        """Tell whether no job can stand under an id, when its create arrives at the owner's ``now``."""
        made_ms = ids.job_made_at_ms(job_id)
        if made_ms is None or self._after_ms is None or job_id in self._seen:
            return False
        return self._after_ms < made_ms <= now // MILLISECOND + SKEW_MS

    def remember(self, job_id: str, now: Micros) -> None:
        """A create of a made id has come, whether it was new or not."""
        made_ms = ids.job_made_at_ms(job_id)
        if made_ms is None or made_ms <= (self._after_ms or 0) or made_ms > now // MILLISECOND + REMEMBERED_AHEAD_MS:
            return
        self._seen[job_id] = made_ms
        if len(self._seen) > FRESH_IDS_MAX:
            _, forgotten_ms = self._seen.popitem(last=False)
            self._after_ms = max(self._after_ms or 0, forgotten_ms)
