"""One runner made of several: each kind of target has its own. Fulfils ``ports.targets.TargetRunner``."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.ports.clock import Clock
from tocsin.ports.targets import Attempt, AttemptEnd, TargetRunner


class RoutingRunner:
    """Fulfils ``ports.targets.TargetRunner``.

    Args:
        clock: stamps what ends here.
        runners: by the type of target. What has none ends as FAILED, to be attempted again: another worker of its
            lane may have one, and so may this one once it is rolled out.
        after_close: called once all runners are closed: what they share is closed then.
    """

    def __init__(
        self, clock: Clock, runners: Mapping[str, TargetRunner], after_close: Callable[[], None] = lambda: None
    ) -> None:
        self._clock = clock
        self._runners = dict(runners)
        self._after_close = after_close
        self._unserved: deque[AttemptEnd] = deque()

    def start(self, attempts: Sequence[Attempt]) -> None:
        by_type: dict[str, list[Attempt]] = {}
        for attempt in attempts:
            by_type.setdefault(attempt.execution.target.type, []).append(attempt)
        for kind, of_kind in by_type.items():
            runner = self._runners.get(kind)
            if runner is not None:
                runner.start(of_kind)
            else:
                self._unserved.extend(self._refused(attempt, kind) for attempt in of_kind)

    def ended(self) -> list[AttemptEnd]:
        ends = [end for runner in self._runners.values() for end in runner.ended()]
        while self._unserved:
            ends.append(self._unserved.popleft())
        return ends

    def cancel(self, refs: Sequence[Any]) -> None:
        for runner in self._runners.values():
            runner.cancel(refs)

    def close(self) -> None:
        for runner in self._runners.values():
            runner.close()
        self._after_close()

    def _refused(self, attempt: Attempt, kind: str) -> AttemptEnd:
        now = self._clock.now()
        error = AttemptError("not_served", f"this worker runs no targets of the type {kind!r}")
        return AttemptEnd(attempt.ref, ReportKind.FAILED, now, now, error)
