"""The clock by which jobs are due: our own, never ahead of the broker's.

It runs on monotonic time from the wall clock's reading at the start, so a step of the machine's clock moves nothing.
Each of our heartbeats that comes back tells how far the broker's clock is from ours: it was stamped after we sent it
and before we read it. ``now`` is held at or below the lower edge of the tightest recent such interval: early means by
the broker's clock. An interval widens with its age, for no two clocks run alike.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from tocsin.domain.instants import MILLISECOND, SECOND, Micros

INTERVALS_KEPT: Final = 12
"""A minute's worth, at a beat each five seconds."""
OFF_BY_MAX: Final[Micros] = SECOND // 2
"""A clock that is certainly further off than this must not decide anything."""
DRIFT_PPM_MAX: Final = 500
"""How much faster or slower than the broker's our clock may run, millionths: as much as time daemons slew one."""


class Skew(NamedTuple):
    """How far the broker's clock was ahead of ours at an instant of ours: somewhere from ``low`` to ``high``, µs."""

    low: Micros
    high: Micros
    at: Micros

    def by(self, local: Micros) -> Skew:
        """Return the skew at a later instant of ours."""
        drift = max(0, local - self.at) * DRIFT_PPM_MAX // 1_000_000 + 1
        return Skew(self.low - drift, self.high + drift, local)


class BrokerClock:
    """Time for one trigger.

    Args:
        wall: the wall clock's reading at the start, µs since the epoch.
        monotonic: the monotonic clock's at the same moment, µs.
    """

    def __init__(self, wall: Micros, monotonic: Micros) -> None:
        self._base = wall - monotonic
        self._skews: deque[Skew] = deque(maxlen=INTERVALS_KEPT)
        self._latest = 0

    def local(self, monotonic: Micros) -> Micros:
        """Return our own time, whatever the broker says; what beats are stamped with when they are sent and read."""
        return self._base + monotonic

    def now(self, monotonic: Micros) -> Micros:
        """Return the instant by which to decide; it never goes back once it is known to be good."""
        local = self.local(monotonic)
        tightest = self._tightest(local)
        if tightest is None:
            return local
        self._latest = max(self._latest, local + min(0, tightest.low))
        return self._latest

    def at_most(self, monotonic: Micros) -> Micros:
        """Return the latest that the broker's time can be; our own where nothing is known of it."""
        local = self.local(monotonic)
        tightest = self._tightest(local)
        return local if tightest is None else local + max(0, tightest.high)

    def is_known(self) -> bool:
        """Tell whether the broker's time was seen: before that, nothing must be decided by this clock."""
        return bool(self._skews)

    def observe(self, sent_at: Micros, appended_at: Micros, received_at: Micros) -> None:
        """One of our beats came back.

        Args:
            sent_at, received_at: our own time (``local``), µs.
            appended_at: the broker's, µs; it keeps whole milliseconds.
        """
        self._skews.append(Skew(appended_at - received_at, appended_at + MILLISECOND - sent_at, received_at))

    def off_by(self) -> Micros | None:
        """Return by how much our clock is certainly off at least, above the bound; None while it is good enough."""
        tightest = self._tightest(self._skews[-1].at) if self._skews else None
        if tightest is None:
            return None
        if tightest.low > OFF_BY_MAX:
            return -tightest.low
        if tightest.high < -OFF_BY_MAX:
            return -tightest.high
        return None

    def _tightest(self, local: Micros) -> Skew | None:
        skews = [skew.by(local) for skew in self._skews]
        return min(skews, key=lambda skew: skew.high - skew.low, default=None)
