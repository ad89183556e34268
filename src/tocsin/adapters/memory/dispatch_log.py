"""A lane and its consumer group in memory. Fulfils ``ports.dispatch_log``."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence

from tocsin.ports.dispatch_log import AssignmentListener, CommitOutcome, Delivery, Mark, Start


class MemoryLane:
    """The topic of a lane, what its group committed, and who owns which partition.

    Attributes:
        committed: offset and metadata by partition.
        answers: what the next commits are answered, instead of what they deserve. A refused one is not written; one
            of unknown outcome is, when ``land`` is called.
    """

    def __init__(self, partitions: int) -> None:
        self.logs: list[list[Delivery]] = [[] for _ in range(partitions)]
        self.ends = [0] * partitions
        self.committed: dict[int, tuple[int, str]] = dict.fromkeys(range(partitions), (0, ""))
        self.answers: deque[CommitOutcome] = deque()
        self.commits = 0
        self._members: list[MemoryDispatchLog] = []
        self._owners: list[MemoryDispatchLog | None] = [None] * partitions
        self._terms = [0] * partitions
        """Counts the assignments of each partition; a commit under an old one is refused, however late it comes."""
        self._under_way: deque[list[tuple[Mark, int]]] = deque()

    def append(self, partition: int, key: bytes | None, value: bytes | None) -> int:
        """Write a record; return its offset."""
        offset = self.ends[partition]
        self.logs[partition].append(Delivery(partition, offset, key, value))
        self.ends[partition] += 1
        return offset

    def leave_gap(self, partition: int, count: int = 1) -> None:
        """Use offsets up that nobody will ever be given, as transaction markers and aborted records do."""
        self.ends[partition] += count

    def expel(self, member: MemoryDispatchLog) -> None:
        """Take a member out, as after its session timed out; it learns of it in its next poll, if it ever polls."""
        if member not in self._members:
            return
        member.is_expelled = True
        self._members.remove(member)
        self._owners = [None if owner is member else owner for owner in self._owners]

    def enter(self, member: MemoryDispatchLog) -> None:
        self._members.append(member)

    def leave(self, member: MemoryDispatchLog) -> None:
        if member in self._members:
            self._members.remove(member)

    def release(self, partitions: Collection[int]) -> None:
        for partition in partitions:
            self._owners[partition] = None

    def wanted(self, member: MemoryDispatchLog) -> set[int]:
        """Return the partitions that a member should have: dealt out in turn."""
        place = self._members.index(member)
        return set(range(place, len(self.logs), len(self._members)))

    def take(self, member: MemoryDispatchLog, partitions: Collection[int]) -> list[int]:
        """Give a member those of the partitions that nobody holds any more."""
        taken = [partition for partition in sorted(partitions) if self._owners[partition] is None]
        for partition in taken:
            self._owners[partition] = member
            self._terms[partition] += 1
        return taken

    def write(self, member: MemoryDispatchLog, marks: Sequence[Mark]) -> CommitOutcome:
        self.commits += 1
        answer = self.answers.popleft() if self.answers else CommitOutcome.ACCEPTED
        if answer is CommitOutcome.UNKNOWN:
            self._under_way.append([(mark, self._terms[mark.partition]) for mark in marks])
        if answer is not CommitOutcome.ACCEPTED:
            return answer
        if any(self._owners[mark.partition] is not member for mark in marks):
            return CommitOutcome.REFUSED
        for mark in marks:
            self.committed[mark.partition] = (mark.offset, mark.metadata)
        return CommitOutcome.ACCEPTED

    def land(self) -> None:
        """Let the oldest commit of unknown outcome arrive, after others that were sent later."""
        if self._under_way:
            for mark, term in self._under_way.popleft():
                if self._terms[mark.partition] == term and self._owners[mark.partition] is not None:
                    self.committed[mark.partition] = (mark.offset, mark.metadata)


class MemoryDispatchLog:
    """Fulfils ``ports.dispatch_log.DispatchLog``: one member of a ``MemoryLane``'s group."""

    def __init__(self, lane: MemoryLane) -> None:
        self.is_expelled = False
        self.paused: set[int] = set()
        self._lane = lane
        self._listener: AssignmentListener | None = None
        self._heard = False
        """The listener has heard of an assignment since this member joined."""
        self._positions: dict[int, int] = {}

    @property
    def _told(self) -> AssignmentListener:
        if self._listener is None:
            raise RuntimeError("join first")
        return self._listener

    def join(self, listener: AssignmentListener) -> None:
        self._listener = listener
        self._heard = False
        self._lane.enter(self)

    def poll(self, limit: int, wait_s: float) -> list[Delivery]:
        self._rebalance()
        found: list[Delivery] = []
        for partition, position in self._positions.items():
            if partition in self.paused:
                continue
            log = self._lane.logs[partition]
            fresh = [delivery for delivery in log if delivery.offset >= position][: limit - len(found)]
            if fresh:
                self._positions[partition] = fresh[-1].offset + 1
                found += fresh
        return found

    def _rebalance(self) -> None:
        if self.is_expelled:
            self.is_expelled = False
            lost = list(self._positions)
            self._positions.clear()
            self._lane.enter(self)
            self._told.lost(lost)
        wanted = self._lane.wanted(self)
        self._revoke(self._positions.keys() - wanted)
        coming = self._lane.take(self, wanted - self._positions.keys())
        if coming or not self._heard:
            self._assign(coming)

    def _assign(self, partitions: list[int]) -> None:
        starts = []
        for partition in partitions:
            offset, metadata = self._lane.committed.get(partition, (None, ""))
            self._positions[partition] = offset or 0
            starts.append(Start(partition, offset, metadata, 0 if offset is not None else self._lane.ends[partition]))
        self.paused.difference_update(partitions)
        self._heard = True
        self._told.assigned(starts)

    def _revoke(self, partitions: Collection[int]) -> None:
        if partitions:
            going = sorted(partitions)
            self._told.revoked(going)
            for partition in going:
                del self._positions[partition]
            self._lane.release(going)

    def commit(self, marks: Sequence[Mark]) -> CommitOutcome:
        return self._lane.write(self, marks) if marks else CommitOutcome.ACCEPTED

    def pause(self, partitions: Collection[int]) -> None:
        self.paused.update(partitions)

    def resume(self, partitions: Collection[int]) -> None:
        self.paused.difference_update(partitions)

    def rejoin(self) -> None:
        self.close()
        self._heard = False
        self._lane.enter(self)

    def close(self) -> None:
        if self.is_expelled:
            self.is_expelled = False
            lost = list(self._positions)
            self._positions.clear()
            self._told.lost(lost)
        self._revoke(list(self._positions))
        self._lane.leave(self)
