"""Whose work starts next: tenants take turns, and none takes all of the room.

Without a setting a tenant may have as much under way as there is still free: one alone takes half of the room, two
take a third each, so that something is left for whoever comes next, however many targets hang. What waits behind its
tenant's share does not count as read ahead, so that others' work behind it is found. Only where it holds up fetching
all the same is it given back to its owner, and only as much as would not start here within the time that the owner
keeps it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from tocsin.domain.retries import RETURN_DELAY_S
from tocsin.roles.worker.partitions import Item, Partition

CAP: Final = "cap"
"""Why a dispatch is returned that waited behind its tenant's share."""
GIVEN_BACK_AT_ONCE: Final = 250
"""So much is given back in one step of a lane, so that its partitions' begun lists keep room for what starts."""
PACE_MEASURED_S: Final = 4.0
RUN_MAX: Final = 16
"""So many records of one tenant are marked in a row where there is much room: each by itself takes twice as long. Few,
for tenants also share the begun lists of partitions."""
RUN_SHARE: Final = 4
"""A round of turns gives away at most one in so many of the free places, so that rounds become finer at the end."""
_tenant_of = attrgetter("tenant")


class Shares:
    """The room of a process, and how much of it each tenant has.

    Args:
        running_max: attempts under way at once.
        tenant_running_max: of one tenant; None: as many as are free.
    """

    def __init__(self, running_max: int, tenant_running_max: int | None) -> None:
        self.room = 0
        self._running_max = running_max
        self._tenant_running_max = tenant_running_max
        self._counts: Counter[bytes] = Counter()

    def count(self, under_way: Iterable[Item]) -> None:
        """Learn what is under way now."""
        self._counts = Counter(map(_tenant_of, under_way))
        self.room = self._running_max - self._counts.total()

    def of(self, tenant: bytes) -> int:
        """Return how much a tenant has under way."""
        return self._counts.get(tenant, 0)

    def admit(self, tenant: bytes) -> bool:
        """Tell whether a tenant may have one more under way."""
        bound = self.room if self._tenant_running_max is None else self._tenant_running_max
        return self.room > 0 and self._counts.get(tenant, 0) < bound

    def run(self, tenants: Sequence[bytes]) -> int:
        """Return how many each of some tenants may take at its turn: each ends with what turns of one would give it."""
        highest = max(map(self.of, tenants))
        if self._tenant_running_max is None:
            fair = (self.room - highest) // (len(tenants) + 1)
        else:
            fair = self._tenant_running_max - highest
        return max(1, min(RUN_MAX, self.room // (RUN_SHARE * len(tenants)), fair))

    def take(self, tenant: bytes, count: int) -> None:
        """Give a tenant so many more."""
        self._counts[tenant] = self._counts.get(tenant, 0) + count
        self.room -= count


class Waiting:
    """What a lane has received and not marked, by tenant and partition, each in order."""

    def __init__(self) -> None:
        self._queues: dict[bytes, dict[Partition, deque[Item]]] = {}
        """The tenant, and of a tenant the partition, whose turn was longest ago comes first."""
        self._counts: dict[bytes, int] = {}
        self.capped: set[bytes] = set()
        """Tenants that had more to start than their share, when this was last looked at."""
        self.started: dict[bytes, int] = {}
        """How much of each was marked to be started, for whoever measures."""

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, item: Item) -> None:
        tenant, partition = item.tenant, item.partition
        queues = self._queues.get(tenant)
        if queues is None:
            queues = self._queues[tenant] = {}
        queue = queues.get(partition)
        if queue is None:
            queue = queues[partition] = deque()
        queue.append(item)
        self._counts[tenant] = self._counts.get(tenant, 0) + 1

    def of(self, tenant: bytes) -> int:
        """Return how much of a tenant waits."""
        return self._counts.get(tenant, 0)

    @property
    def behind_share(self) -> int:
        """How much waits because its tenant has its share."""
        return sum([self._counts.get(tenant, 0) for tenant in self.capped])

    def mark(self, shares: Shares) -> list[Item]:
        """Mark what may start now, of each tenant in turn: one record, or a few while there is much room."""
        marked: list[Item] = []
        if shares.room <= 0:
            return marked
        self.capped.clear()
        turn = list(self._queues)
        while turn:
            going_on = []
            run = shares.run(turn)
            for tenant in turn:
                if shares.room <= 0:
                    return marked
                if not shares.admit(tenant):
                    self.capped.add(tenant)
                    continue
                items = self._mark_next(tenant, run)
                if not items:
                    continue
                count = len(items)
                shares.take(tenant, count)
                marked += items
                self.started[tenant] = self.started.get(tenant, 0) + count
                if tenant in self._queues:
                    going_on.append(tenant)
            turn = going_on
        return marked

    def _mark_next(self, tenant: bytes, limit: int) -> list[Item]:
        """Mark the next records of a tenant; fewer where no partition of its has room on the begun list."""
        queues = self._queues.pop(tenant)
        self._queues[tenant] = queues
        items: list[Item] = []
        for partition in list(queues):
            queue = queues[partition]
            if taken := partition.mark_run(queue, limit - len(items)):
                items += taken
                del queues[partition]
                if queue:
                    queues[partition] = queue
                if len(items) == limit:
                    break
        if items:
            self._counted_out(tenant, len(items))
        return items

    def mark_to_give_back(self, tenant: bytes, partition: Partition | None, below: int, limit: int) -> list[Item]:
        """Mark the oldest waiting records of a tenant that are to be given back.

        Args:
            tenant: whose.
            partition: only of this one; None: of all.
            below: only offsets below this one; of interest with a partition.
            limit: how many at most.
        """
        found: list[Item] = []
        queues = self._queues.get(tenant, {})
        for one in list(queues) if partition is None else [partition]:
            queue = queues.get(one)
            while queue and len(found) < limit:
                if (partition is not None and queue[0].offset >= below) or not one.mark(queue[0]):
                    break
                item = queue.popleft()
                item.surplus = True
                found.append(item)
            if queue is not None and not queue:
                del queues[one]
        if found:
            self._counted_out(tenant, len(found))
        return found

    def drop(self, partition: Partition) -> list[Item]:
        """Forget what waits of a partition; return it."""
        dropped: list[Item] = []
        for tenant in list(self._queues):
            if going := self._queues[tenant].pop(partition, None):
                dropped += going
                self._counted_out(tenant, len(going))
        return dropped

    def _counted_out(self, tenant: bytes, count: int) -> None:
        self._counts[tenant] -= count
        if not self._counts[tenant]:
            del self._counts[tenant], self._queues[tenant]


class Surplus:
    """Decides what a lane gives back.

    Args:
        waiting: of the lane.
        window_max: see ``OffsetWindow``.
        patience_s: how long fetching is held up before anything is given back.
    """

    def __init__(self, waiting: Waiting, window_max: int, patience_s: float) -> None:
        self._waiting = waiting
        self._window_max = window_max
        self._patience_s = patience_s
        self._since_s: float | None = None
        """Since when fetching is held up, or the pace is measured."""
        self._patient = True

    def mark(self, shares: Shares, partitions: Mapping[int, Partition], full: bool, now_s: float) -> list[Item]:
        """Mark what is to be given back now.

        Args:
            shares: as they are after what may start was marked.
            partitions: of the lane.
            full: what is read ahead holds all of them up.
            now_s: monotonic.
        """
        waiting = self._waiting
        held_up = [partition for partition in partitions.values() if partition.full]
        if not waiting.capped or not (full or held_up):
            self._since_s, self._patient = None, True
            return []
        if self._since_s is None:
            self._since_s = now_s
            waiting.started.clear()
        passed_s = now_s - self._since_s
        if self._patient and passed_s < self._patience_s:
            return []
        self._patient = False
        found: list[Item] = []
        for tenant in sorted(waiting.capped):
            soon = waiting.started.get(tenant, 0) / max(passed_s, self._patience_s) * RETURN_DELAY_S[0]
            if full:
                surplus = waiting.of(tenant) - max(shares.of(tenant), int(soon))
                found += waiting.mark_to_give_back(tenant, None, 0, min(surplus, GIVEN_BACK_AT_ONCE - len(found)))
            for partition in held_up:
                half = partition.window.position - self._window_max // 2
                room = GIVEN_BACK_AT_ONCE - len(found)
                found += waiting.mark_to_give_back(tenant, partition, half, room)
        if passed_s >= PACE_MEASURED_S:
            self._since_s = now_s - passed_s / 2
            for tenant in waiting.started:
                waiting.started[tenant] //= 2
        return found
