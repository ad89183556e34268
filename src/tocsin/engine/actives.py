"""The executions in motion of one shard, and the ways to find them: by id, job, group, holder, time.

The state holds them; the indexes beside it are derived, and every change goes through here so that they agree.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from itertools import dropwhile, islice

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
        self._ends: list[tuple[Micros, str]] = []
        """A heap of when executions are over at the latest, likewise."""
        self._groups: defaultdict[str, set[str]] = defaultdict(set)
        """Ids by concurrency group, of jobs that are in one."""
        self._behind: dict[str, dict[str, None]] = {}
        """By what they share: those that stand behind another, the first to come first."""
        self._free: dict[str, None] = {}
        """What has some that stand behind, and nothing any more before them."""
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

    def is_taken(self, execution_id: str) -> bool:
        """Tell whether an execution of the same job, or of its concurrency group, has not ended."""
        group = group_of(execution_id)
        return job_of(execution_id) in self._by_job if group is None else group in self._groups

    def sharing(self, execution_id: str) -> Collection[str]:
        """Return the executions of the same job, or of its concurrency group, in no order."""
        group = group_of(execution_id)
        if group is not None:
            return self._groups.get(group, ())
        found = self._by_job.get(job_of(execution_id), ())
        return (found,) if isinstance(found, str) else found

    def unstopped_before(self, execution_id: str) -> Iterator[str]:
        """Return what an execution stands behind, but for what is being stopped already, in no order."""
        after = dropwhile(lambda one: one != execution_id, self._behind.get(shared_by(execution_id), ()))
        spared = set(after)
        return (one for one in self.sharing(execution_id) if one not in spared and self._active[one].ending is None)

    def beside(self, execution_id: str) -> int:
        """Return how many of the same job have not ended."""
        found = self._by_job.get(job_of(execution_id), ())
        return 1 if isinstance(found, str) else len(found)

    def behind(self, execution_id: str) -> int:
        """Return how many of the same job, or of its concurrency group, stand behind another."""
        return len(self._behind.get(shared_by(execution_id), ()))

    def behind_of(self, job: str) -> Iterator[str]:
        """Return the executions of a job, given as ``job_of`` does, that stand behind others; the first comes first."""
        found = self._by_job.get(job)
        if found is None:
            return iter(())
        shared = shared_by(found if isinstance(found, str) else next(iter(found)))
        return (one for one in self._behind.get(shared, ()) if job_of(one) == job)

    def next_free(self) -> str | None:
        """Return one that stands behind others that have ended all; None where there is none."""
        shared = next(iter(self._free), None)
        return None if shared is None else next(iter(self._behind[shared]))

    def of_job(self, job: str) -> list[str]:
        """Return the executions of a job, given as ``job_of`` does."""
        found = self._by_job.get(job, set())
        return [found] if isinstance(found, str) else sorted(found)

    def begin(self, execution_id: str, one: Active) -> None:
        """Add an execution that was never active, and waits for nothing: what firing does most."""
        job_id = job_of(execution_id)
        if job_id in self._by_job or self._behind or group_of(execution_id) is not None:
            self.put(execution_id, one)
            return
        self._active[execution_id] = one
        self._by_job[job_id] = execution_id

    def jobs(self) -> Container[str]:
        """Return the jobs of which something has not ended, each as ``job_of`` names it."""
        return self._by_job.keys()

    def begin_all(self, begun: Mapping[str, str], actives: Iterable[Active]) -> None:
        """Add executions of jobs that have none and are in no group, one of each: as ``begin`` does, but many at once.

        Args:
            begun: their ids by job.
            actives: they, in that order.
        """
        self._active.update(zip(begun.values(), actives, strict=True))
        self._by_job.update(begun)

    def put(self, execution_id: str, one: Active) -> None:
        """Add an execution, or replace what is known of it."""
        self._unindex(execution_id)
        self._active[execution_id] = one
        self._index(execution_id, job_of(execution_id), one)

    def end(self, execution_id: str) -> Active:
        """Take an execution out; return it as it was."""
        self._unindex(execution_id)
        return self._active.pop(execution_id)

    def held_by(self, process_id: str) -> list[str]:
        """Return the executions that a process holds under leases."""
        return sorted(self._by_holder.get(process_id, ()))

    def holders(self) -> list[str]:
        """Return the processes that hold leases."""
        return list(self._by_holder)

    def next_wake(self) -> Micros | None:
        """Return when the next execution wakes, or is over at the latest; None where none does."""
        self._drop_stale()
        self._drop_stale_ends()
        firsts = [heap[0][0] for heap in (self._timers, self._ends) if heap]
        return min(firsts, default=None)

    def overdue(self, now: Micros, limit: int) -> list[tuple[str, Micros]]:
        """Return executions that are to be over at or before now, and when; they stay until they are changed."""
        found: list[tuple[Micros, str]] = []
        while len(found) < limit:
            self._drop_stale_ends()
            if not self._ends or self._ends[0][0] > now:
                break
            found.append(heapq.heappop(self._ends))
        for one in found:
            heapq.heappush(self._ends, one)
        return [(execution_id, ends_by) for ends_by, execution_id in dict.fromkeys(found)]

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

    def _drop_stale_ends(self) -> None:
        while self._ends:
            ends_by, execution_id = self._ends[0]
            one = self._active.get(execution_id)
            if one is not None and one.ends_by == ends_by:
                return
            heapq.heappop(self._ends)

    def _note_order(self, execution_id: str) -> None:
        """See whether what stands behind others may go now."""
        shared = shared_by(execution_id)
        behind = self._behind.get(shared)
        if behind is None:
            return
        if not behind:
            del self._behind[shared]
            self._free.pop(shared, None)
        elif len(behind) == len(self.sharing(execution_id)):
            self._free[shared] = None
        else:
            self._free.pop(shared, None)

    def _index(self, execution_id: str, job_id: str, one: Active) -> None:
        known = self._by_job.get(job_id)
        if known is None:
            self._by_job[job_id] = execution_id
        elif isinstance(known, set):
            known.add(execution_id)
        elif known != execution_id:
            self._by_job[job_id] = {known, execution_id}
        if (group := group_of(execution_id)) is not None:
            self._groups[group].add(execution_id)
        if one.phase == Phase.BEHIND:
            self._behind.setdefault(shared_by(execution_id), {})[execution_id] = None
        if self._behind:
            self._note_order(execution_id)
        if one.ends_by is not None:
            heapq.heappush(self._ends, (one.ends_by, execution_id))
        if one.phase == Phase.LEASED and one.holder is not None:
            self._by_holder[one.holder].add(execution_id)
        if one.phase in (Phase.LEASED, Phase.WAITING):
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
        if (group := group_of(execution_id)) is not None:
            self._groups[group].discard(execution_id)
            if not self._groups[group]:
                del self._groups[group]
        if self._behind:
            if one.phase == Phase.BEHIND:
                self._behind[shared_by(execution_id)].pop(execution_id, None)
            self._note_order(execution_id)
        if one.holder is not None and one.holder in self._by_holder:
            self._by_holder[one.holder].discard(execution_id)
            if not self._by_holder[one.holder]:
                del self._by_holder[one.holder]


def job_of(execution_id: str) -> str:
    """Return the part of an execution id that says which job: its id, which holds no dot, and its first version."""
    job_id, version, _ = execution_id.split(".", 2)
    return f"{job_id}.{version}"


def group_of(execution_id: str) -> str | None:
    """Return the concurrency group of an execution's job, with which its id begins; None where it is in none."""
    return execution_id.partition("~")[0] if "~" in execution_id else None


def shared_by(execution_id: str) -> str:
    """Return what executions must share to be in each other's way: their group, or else their job."""
    return group_of(execution_id) or job_of(execution_id)
