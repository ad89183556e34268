"""The executions in motion of one shard, and the ways to find them: by id, by job, by holder, by when they wake.

The state holds them; the indexes beside it are derived, and every change goes through here so that they agree.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from itertools import islice

from tocsin.domain.instants import Micros
from tocsin.domain.shard_records import Active, Phase
from tocsin.engine.shard_state import ShardState


class Actives:
    """Executions that have not ended."""

    def __init__(self, state: ShardState) -> None:
        self._active = state.active
        self._by_job: dict[str, str | set[str]] = {}
        """Ids by job: mostly one, and then no set is made for it."""
        self._by_holder: defaultdict[str, set[str]] = defaultdict(set)
        self._timers: list[tuple[Micros, str, str]] = []
        """A heap of when executions wake; what has changed since is skipped when it comes up."""
        for execution_id, one in self._active.items():
            self._index(execution_id, job_of(execution_id), one)

    def __len__(self) -> int:
        return len(self._active)

    def get(self, execution_id: str) -> Active | None:
        return self._active.get(execution_id)

    def has_job_of(self, execution_id: str) -> bool:
        """Tell whether an execution of the same job has not ended; one that waits for a retry counts.

        A job that was deleted and created anew under its id is another job.
        """
        return job_of(execution_id) in self._by_job

    def of_job(self, job: str) -> list[str]:
        """Return the executions of a job, given as ``job_of`` does."""
        found = self._by_job.get(job, set())
        return [found] if isinstance(found, str) else sorted(found)

    def put(self, execution_id: str, one: Active) -> None:
        """Add an execution, or replace what is known of it."""
        self._unindex(execution_id)
        self._active[execution_id] = one
        self._index(execution_id, job_of(execution_id), one)

    def end(self, execution_id: str) -> None:
        self._unindex(execution_id)
        del self._active[execution_id]

    def held_by(self, process_id: str) -> list[str]:
        """Return the executions that a process holds under leases."""
        return sorted(self._by_holder.get(process_id, ()))

    def holders(self) -> list[str]:
        """Return the processes that hold leases."""
        return list(self._by_holder)

    def next_wake(self) -> Micros | None:
        """Return when the next execution wakes, or None."""
        self._drop_stale()
        return self._timers[0][0] if self._timers else None

    def due(self, now: Micros, phase: Phase, limit: int) -> list[str]:
        """Take out the executions of a phase that wake at or before now; others that are due stay for their turn."""
        found: list[str] = []
        taken: set[str] = set()
        kept: list[tuple[Micros, str, str]] = []
        while len(found) < limit:
            self._drop_stale()
            if not self._timers or self._timers[0][0] > now:
                break
            timer = heapq.heappop(self._timers)
            if self._active[timer[1]].phase == phase and timer[1] not in taken:
                found.append(timer[1])
                taken.add(timer[1])
            elif timer[1] not in taken:
                kept.append(timer)
        for timer in kept:
            heapq.heappush(self._timers, timer)
        return found

    def queued_since(self, instant: Micros, limit: int) -> list[tuple[str, Micros]]:
        """Return executions that were dispatched at or before an instant and of which nothing was heard, and when.

        Looks at all of them, so it is for now and then.
        """
        old = (
            (execution_id, one.published_at)
            for execution_id, one in self._active.items()
            if one.phase == Phase.QUEUED and one.published_at <= instant
        )
        return list(islice(old, limit))

    def wake_again(self, execution_id: str) -> None:
        """Put an execution that ``due`` took out back."""
        one = self._active[execution_id]
        heapq.heappush(self._timers, (one.wake_at, execution_id, one.phase))

    def _drop_stale(self) -> None:
        while self._timers:
            wake_at, execution_id, phase = self._timers[0]
            one = self._active.get(execution_id)
            if one is not None and one.wake_at == wake_at and one.phase == phase:
                return
            heapq.heappop(self._timers)

    def _index(self, execution_id: str, job_id: str, one: Active) -> None:
        known = self._by_job.get(job_id)
        if known is None:
            self._by_job[job_id] = execution_id
        elif isinstance(known, set):
            known.add(execution_id)
        elif known != execution_id:
            self._by_job[job_id] = {known, execution_id}
        if one.phase == Phase.LEASED and one.holder is not None:
            self._by_holder[one.holder].add(execution_id)
        if one.phase != Phase.QUEUED:
            heapq.heappush(self._timers, (one.wake_at, execution_id, one.phase))

    def _unindex(self, execution_id: str) -> None:
        one = self._active.get(execution_id)
        if one is None:
            return
        job_id = job_of(execution_id)
        known = self._by_job[job_id]
        if isinstance(known, set):
            known.discard(execution_id)
        if not known or known == execution_id:
            del self._by_job[job_id]
        if one.holder is not None and one.holder in self._by_holder:
            self._by_holder[one.holder].discard(execution_id)
            if not self._by_holder[one.holder]:
                del self._by_holder[one.holder]


def job_of(execution_id: str) -> str:
    """Return the part of an execution id that says which job: its id, which holds no dot, and its first version."""
    job_id, version, _ = execution_id.split(".", 2)
    return f"{job_id}.{version}"
