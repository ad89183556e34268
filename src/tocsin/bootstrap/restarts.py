"""When a process that died is started again. Pure: time is an argument, and nothing is started here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How patient a supervisor is.

    Attributes:
        first_s: the wait after a first death, doubled with each that follows soon.
        max_s: the longest wait.
        settled_s: a process that lived so long starts afresh: its death is a first one.
        loop_deaths: so many deaths in a row make a crash loop.
    """

    first_s: float = 0.5
    max_s: float = 5.0
    settled_s: float = 30.0
    loop_deaths: int = 4


POLICY: Final = RestartPolicy()


@dataclass(slots=True)
class Restarts:
    """What is remembered of one process's deaths."""

    policy: RestartPolicy = POLICY
    deaths: int = field(default=0, init=False)
    """In a row: each soon after its start."""
    total: int = field(default=0, init=False)

    def died(self, lived_s: float) -> float:
        """Take note of a death, and return how many seconds to wait before the next start."""
        self.total += 1
        self.deaths = 1 if lived_s >= self.policy.settled_s else self.deaths + 1
        # The exponent is held down, for a float overflows long before a patient supervisor gives up.
        return min(self.policy.max_s, self.policy.first_s * 2.0 ** min(self.deaths - 1, 16))

    @property
    def looping(self) -> bool:
        """Whether it dies again and again."""
        return self.deaths >= self.policy.loop_deaths
