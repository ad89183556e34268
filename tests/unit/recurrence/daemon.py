"""The oracle: the cron daemon's loop, minute by minute, as simple as it can be.

It knows nothing of segments, calendars in tables or parsers. A clock is a list of wall minutes, one for each minute
that really passes; a job is two sets and a predicate on dates. Two forms of the rule are here, written independently:
the loop with its virtual clock, and the definition of the policies for times that are skipped or shown twice.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta
from functools import lru_cache
from typing import NamedTuple

from tests.unit.recurrence.expressions import Expression
from tests.unit.recurrence.zone_files import offset_s, zone_file

_EPOCH = date(1970, 1, 1)
MARGIN_S = 2 * 86_400
"""Time at both ends of a window that is simulated but not judged: longer than any jump."""


class Window(NamedTuple):
    """A stretch of a zone's clock: ``walls[i]`` is the wall time, in steps, of step ``start + i`` of UTC."""

    start: int
    step_s: int
    margin: int
    """Steps at both ends that are not judged."""
    walls: tuple[int, ...]

    @property
    def judged(self) -> tuple[int, int]:
        """The first second at which answers are compared, and the one after the last."""
        inside = self.inside
        return (self.start + inside.start) * self.step_s, (self.start + inside.stop) * self.step_s

    @property
    def inside(self) -> range:
        """Indexes of the walls that are judged."""
        return range(self.margin, len(self.walls) - self.margin)


@lru_cache(maxsize=64)
def window_around(name: str, transition_s: int, steps: int, step_s: int = 60, margin_s: int = MARGIN_S) -> Window:
    """Return a zone's clock ``steps`` steps to both sides of a transition, and the margins."""
    zone = zone_file(name)
    margin = margin_s // step_s
    start = transition_s // step_s - steps - margin
    length = 2 * (steps + margin)
    # Offsets hold for at least some minutes; looking at each step's would cost more than all the rest.
    stride = max(1, 900 // step_s)
    walls: list[int] = []
    for first in range(start, start + length, stride):
        ahead = offset_s(zone, first * step_s)
        if offset_s(zone, (first + stride) * step_s) == ahead:
            assert ahead % step_s == 0
            walls.extend(at + ahead // step_s for at in range(first, first + stride))
        else:
            walls.extend(at + offset_s(zone, at * step_s) // step_s for at in range(first, first + stride))
    return Window(start, step_s, margin, tuple(walls[:length]))


class Daemon:
    """The daemon with one job on one stretch of a clock."""

    def __init__(self, job: Expression, window: Window) -> None:
        self.job = job
        self.window = window
        self._dates: dict[int, bool] = {}

    def matches(self, wall: int) -> bool:
        """Tell whether the job names a wall time (in steps)."""
        wall_s = wall * self.window.step_s
        day, time_s = divmod(wall_s, 86_400)
        if (
            time_s % 60 not in self.job.seconds
            or time_s // 60 % 60 not in self.job.minutes
            or time_s // 3600 not in self.job.hours
        ):
            return False
        if day not in self._dates:
            self._dates[day] = self.job.has_date(_EPOCH + timedelta(days=day))
        return self._dates[day]

    def run(self) -> list[int]:
        """Return the seconds of UTC at which the daemon starts the job, by its loop with a virtual clock."""
        walls, step_s = self.window.walls, self.window.step_s
        virtual = max(walls[: self.window.margin])
        fired = []
        for index in self.window.inside:
            wall = walls[index]
            if self.job.cadence:
                due = self.matches(wall)
            else:
                # What was missed is made up for; while the clock shows times again, nothing is.
                due = any(self.matches(missed) for missed in range(virtual + 1, wall + 1))
            virtual = max(virtual, wall)
            if due:
                fired.append((self.window.start + index) * step_s)
        return fired

    def by_policy(self, gap: str, overlap: str) -> list[int]:
        """Return the seconds of UTC at which a fixed-time job is due under a policy, from the policy's definition."""
        walls = self.window.walls
        shown = defaultdict(list)
        for index, wall in enumerate(walls):
            shown[wall].append(index)
        due: set[int] = set()
        for wall in range(walls[0], walls[-1] + 1):
            if not self.matches(wall):
                continue
            at = shown.get(wall)
            if at is not None:
                due.update({"first": at[:1], "second": at[-1:], "both": at}[overlap])
            elif gap == "shift":
                due.add(next(index for index, later in enumerate(walls) if later > wall))
        inside = sorted(index for index in due if index in self.window.inside)
        return [(self.window.start + index) * self.window.step_s for index in inside]
