"""Isolation of deterministic faults: what fails for what it is must neither stop its shard nor anybody else.

A failure counts here only if it is an exception of the engine, or a record that the brokers refuse for what it is;
timeouts never do. The shard is restored, and either told to set the culprit aside, where the failure names one, or
worked in ever smaller portions until a failure does. What cannot be pinned on anything is tried again ever more
rarely. So the number of tries for one culprit is bounded, and no loop comes of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import structlog

from tocsin.domain.instants import SECOND, Micros
from tocsin.engine.suspects import Severity, Suspect, SuspectId, Suspicion

log = structlog.get_logger()

PORTIONS: Final = (1, 32, 0)
"""By how much a step is divided; 0: one thing a step."""
STEPS_WITHOUT_FAULT: Final = 400
"""After so many turns in small portions what failed did not fail again, and the shard goes on as usual."""
CULPRITS_MAX: Final = 1_000
"""Of one shard; the oldest are forgotten, and found again where they still fail."""
PAUSE_MAX: Final[Micros] = 300 * SECOND


@dataclass(slots=True)
class _Suspected:
    """A shard with a fault.

    Attributes:
        portion: index into ``PORTIONS``.
        passed: turns committed since the last failure.
        pauses: how often in a row a failure could not be pinned on anything in the smallest portion.
    """

    portion: int = 0
    passed: int = 0
    pauses: int = 0
    not_before: Micros = 0
    culprits: dict[SuspectId, Severity] = field(default_factory=dict)


class Isolation:
    """The faults of the shards of one process. They stay known while it lives, also over losses of the shards."""

    def __init__(self) -> None:
        self._shards: dict[int, _Suspected] = {}

    def failed(self, shard: int, culprit: Suspect | None, problem: Exception, now: Micros) -> None:
        """A shard failed for a deterministic reason, and is to be restored.

        Args:
            shard: which.
            culprit: what it failed on, where that is certain.
            problem: the failure.
            now: the instant.
        """
        suspected = self._shards.setdefault(shard, _Suspected())
        suspected.passed = 0
        if culprit is not None and suspected.culprits.get(culprit.id) is not Severity.PASSED_OVER:
            severity = Severity(suspected.culprits.pop(culprit.id, 0) + 1)
            suspected.culprits[culprit.id] = severity
            if len(suspected.culprits) > CULPRITS_MAX:
                del suspected.culprits[next(iter(suspected.culprits))]
            suspected.portion = 0
            what = {"kind": culprit.kind, "which": str(culprit.id[1])[:300], "severity": severity.name.lower()}
            log.error("a culprit is set aside", action="trigger.culprit", shard=shard, error=str(problem), **what)
        elif suspected.portion < len(PORTIONS) - 1:
            suspected.portion += 1
            log.error("a shard failed; looking closer", action="trigger.suspects", shard=shard, error=str(problem))
        else:
            suspected.pauses += 1
            pause = min(PAUSE_MAX, SECOND << min(suspected.pauses - 1, 20))
            suspected.not_before = now + pause
            told = {"shard": shard, "error": str(problem), "pause_s": pause / SECOND}
            log.error("a shard fails, and nothing can be blamed; it waits", action="trigger.shard_waits", **told)

    def passed(self, shards: Iterable[int]) -> None:
        """Turns of these shards were committed."""
        if not self._shards:
            return
        for shard in shards:
            suspected = self._shards.get(shard)
            if suspected is None:
                continue
            suspected.passed += 1
            suspected.pauses = 0

    def calm(self) -> list[int]:
        """Return shards that work in small portions and need not any more; they are restored to work as usual."""
        found = [n for n, one in self._shards.items() if one.portion and one.passed >= STEPS_WITHOUT_FAULT]
        for shard in found:
            self._shards[shard].portion = 0
            self._shards[shard].passed = 0
        return found

    def waits(self, shard: int, now: Micros) -> bool:
        """Tell whether a shard is not to be tried yet."""
        suspected = self._shards.get(shard)
        return suspected is not None and now < suspected.not_before

    @property
    def waiting(self) -> int:
        """How many shards stand still because nothing can be blamed for their failures."""
        return sum(one.pauses > 0 for one in self._shards.values())

    def suspicions(self) -> dict[int, Suspicion]:
        """Return what new engines are to be told, by shard."""
        return {
            shard: Suspicion(dict(one.culprits), PORTIONS[one.portion])
            for shard, one in self._shards.items()
            if one.culprits or one.portion
        }
