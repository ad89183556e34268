"""When work that workers gave back without having started goes out again: later each time, and never as a flood."""

from __future__ import annotations

from tocsin.domain.executions import AttemptReport
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.retries import RETURN_DELAY_S, return_delay

RETURNED_BY_STOP = "stop"
"""The reason of work that a stopping worker had not started: others may start it now."""
LONGEST: Micros = round(RETURN_DELAY_S[1] * SECOND)
TIDIED_ABOVE = 5_000


class Returns:
    """The returns of one shard. Its memory only sets a pace: a new owner begins with an empty one.

    Args:
        per_s: dispatches of one tenant that go out again in one second.
    """

    def __init__(self, per_s: int) -> None:
        self._per_s = per_s
        self._tidied_above = TIDIED_ABOVE
        self._taken: dict[tuple[str, int], int] = {}
        """How many of a tenant go out in a second, by that second since 1970."""
        self._free: dict[tuple[str, int], int] = {}
        """By a second that is taken up: one at or after it that was free when it was last looked for."""

    def again(self, report: AttemptReport, returns: int, now: Micros) -> tuple[Micros, int]:
        """Return when a returned dispatch goes out again, µs, and how often in a row it has come back now."""
        if report.reason == RETURNED_BY_STOP:
            return now, returns
        returns += 1
        delay = return_delay(returns)
        if report.not_before is not None:
            # A worker's word, by a worker's clock: it may lengthen the delay, within what any return may wait.
            delay = max(delay, min(report.not_before - now, LONGEST))
        return self._paced(report.head.tenant_id, now + delay, now), returns

    def _paced(self, tenant_id: str, wake_at: Micros, now: Micros) -> Micros:
        """Return the instant, or a later one if too much of the tenant goes out then; at most the longest delay."""
        first, last = wake_at // SECOND, max(wake_at, now + LONGEST) // SECOND
        second = self._free.get((tenant_id, first), first)
        while second < last and self._taken.get((tenant_id, second), 0) >= self._per_s:
            second += 1
        if second != first:
            self._free[tenant_id, first] = second
        self._taken[tenant_id, second] = self._taken.get((tenant_id, second), 0) + 1
        if len(self._taken) + len(self._free) > self._tidied_above:
            self._tidy(now // SECOND)
            # What is still to come may be more than that by itself: then it is not gone through each time.
            self._tidied_above = max(TIDIED_ABOVE, 2 * (len(self._taken) + len(self._free)))
        return max(wake_at, second * SECOND)

    def _tidy(self, present: int) -> None:
        self._taken = {key: count for key, count in self._taken.items() if key[1] >= present}
        self._free = {key: second for key, second in self._free.items() if key[1] >= present}
