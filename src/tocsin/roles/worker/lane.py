"""A lane: its membership in the group, its partitions, and the records read ahead.

Attempts and reports are the loop's; the lane only knows what may be marked, what must be committed, and when a
partition goes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

import structlog

from tocsin.domain.errors import Undecodable
from tocsin.engine.offset_metadata import WINDOW_MAX, Marks, decode_marks
from tocsin.engine.offset_window import OffsetWindow, Seen
from tocsin.ports.dispatch_log import CommitOutcome, DispatchLog, Mark, Start
from tocsin.ports.meters import WorkerMeter
from tocsin.roles.worker.fairness import Shares, Surplus, Waiting
from tocsin.roles.worker.limits import WorkerLimits
from tocsin.roles.worker.partitions import Item, Partition
from tocsin.roles.worker.read_ahead import ReadAhead

log = structlog.get_logger()

STOP: Final = "stop"
REVOKED: Final = "revoked"
LOST: Final = "lost"
"""Why an attempt without a lease is returned when its partition goes."""

# By the class they are looked up slowly, and they are named for each record.
_NEW, _BEGUN = Seen.NEW, Seen.BEGUN


class Lane:
    """One lane of a worker. Fulfils ``AssignmentListener``.

    Args:
        name: of the lane.
        records: its log.
        limits: bounds.
        meter, monotonic_s: to measure commits.
        hand_over: called with partitions that are about to go, and the reason: waits, bounded, for leases and reports.
        abandon: called with items that run without a lease when their assignment ends, and the reason.
    """

    def __init__(
        self,
        name: str,
        records: DispatchLog,
        limits: WorkerLimits,
        meter: WorkerMeter,
        monotonic_s: Callable[[], float],
        hand_over: Callable[[Collection[Partition], str], None],
        abandon: Callable[[Sequence[Item], str], None],
    ) -> None:
        self.name = name
        self.records = records
        self.partitions: dict[int, Partition] = {}
        self.marked: list[Item] = []
        """Marked, and not started yet."""
        self.joined = False
        """The group has assigned something, be it nothing, at least once."""
        self.suspect = False
        """A commit of unknown outcome may yet overwrite later ones, and drop what they list as begun: nothing starts
        until the group is joined anew. A later acknowledged commit does not help, nor does a new member epoch while
        the partition stays (KIP-1251 accepts the old one)."""
        self._limits = limits
        self._meter = meter
        self._monotonic_s = monotonic_s
        self._hand_over = hand_over
        self._abandon = abandon
        self._ahead = ReadAhead(limits.read_ahead_records_max, limits.read_ahead_bytes_max)
        self._waiting = Waiting()
        self._surplus = Surplus(self._waiting, limits.window_max, limits.cap_patience_s)
        self._full = False
        self._epoch = 0
        self._stopped = False
        self._commit_s = 0.0
        """How long the last commit took."""

    # Receiving

    @property
    def has_room(self) -> bool:
        """More records are wanted than wait already."""
        return self._ahead.room(self._monotonic_s()) > 0

    def receive(self, wait_s: float) -> int:
        """Poll once; return how many records came that were wanted."""
        room = self._ahead.room(self._monotonic_s())
        deliveries = self.records.poll(max(1, room), wait_s)
        fresh: list[Item] = []
        size = 0
        for number, offset, key, value in deliveries:
            partition = self.partitions.get(number)
            if partition is None or self._stopped:
                continue  # Whoever owns it next receives it.
            seen = partition.window.received(offset)
            if seen is _NEW or seen is _BEGUN:
                tenant = key.partition(b"|")[0] if key else b""
                held = len(key or b"") + len(value or b"")
                fresh.append(Item(partition, offset, key, value, seen is _BEGUN, tenant, held))
                size += held
            elif seen is Seen.SETTLED:
                partition.changed = True
            else:
                place = {"lane": self.name, "partition": number, "offset": offset}
                log.warning("a record came again and was ignored", action="worker.record_repeated", **place)
        self._ahead.add(len(fresh), size)
        for item in fresh:
            if item.inherited:
                item.partition.legacy.append(item)
            else:
                self._waiting.add(item)
        self._regulate()
        return len(deliveries) if room else 0

    def _regulate(self) -> None:
        """Fetch only what there is room for."""
        self._ahead.behind_share = self._waiting.behind_share
        self._full = full = self._ahead.is_full(self._monotonic_s())
        pause: list[int] = []
        resume: list[int] = []
        for partition in self.partitions.values():
            partition.full = not partition.window.is_roomy if partition.full else partition.window.is_full
            stop = full or partition.full or partition.holds_back or self._stopped
            if stop != partition.paused:
                partition.paused = stop
                (pause if stop else resume).append(partition.number)
        if pause:
            self.records.pause(pause)
        if resume:
            self.records.resume(resume)

    # Marking and committing

    def mark(self, shares: Shares) -> None:
        """Mark what may start now, what is to be given back, and all that predecessors had begun."""
        if self.suspect:
            return
        for partition in self.partitions.values():
            if partition.legacy:
                self._take_out(partition.mark_legacy(self._limits.begun_max))
        if self._waiting:
            self._take_out(self._waiting.mark(shares))
            self._take_out(self._surplus.mark(shares, self.partitions, self._full, self._monotonic_s()))

    def _take_out(self, marked: list[Item]) -> None:
        self._ahead.remove(marked)
        self.marked += marked

    def unleased(self) -> list[Item]:
        """Return what runs and is not settled."""
        return [item for partition in self.partitions.values() for item in partition.running()]

    def holding_up(self) -> list[Item]:
        """Return what runs while marks have gone on by half a window; only a lease keeps the window from its end."""
        half = self._limits.window_max // 2
        found: list[Item] = []
        for partition in self.partitions.values():
            if partition.reached - partition.window.prefix >= half:
                found += [item for item in partition.running() if partition.reached - item.offset >= half]
        return found

    def has_changes(self) -> bool:
        return any(p.changed for p in self.partitions.values())

    def commit(self) -> CommitOutcome:
        """Commit prefix and marks of every changed partition in one request."""
        changed = [p for p in self.partitions.values() if p.changed]
        outcome = self._commit(changed, released=False)
        if outcome is CommitOutcome.UNKNOWN:
            if not self.suspect:
                text = "a commit is of unknown outcome: nothing starts until the group is joined anew"
                log.warning(text, action="worker.commit_in_doubt", lane=self.name)
            self.suspect = True
            for partition in changed:
                partition.withdraw_marked()
            self.marked.clear()
        return outcome

    def _commit(self, partitions: list[Partition], *, released: bool) -> CommitOutcome:
        marks = [Mark(p.number, p.window.prefix, p.window.metadata(released=released)) for p in partitions]
        sent_at_s = self._monotonic_s()
        outcome = self.records.commit(marks)
        self._commit_s = self._monotonic_s() - sent_at_s
        self._meter.commit(self._commit_s, outcome is not CommitOutcome.ACCEPTED)
        if outcome is CommitOutcome.ACCEPTED:
            for partition in partitions:
                partition.changed = False
        return outcome

    def take_marked(self) -> list[Item]:
        """Return what an acknowledged commit lists as begun and is still ours: it must be started or returned now."""
        taken = [item for item in self.marked if item.partition.live]
        self.marked = []
        return taken

    # Coming and going

    def assigned(self, starts: Sequence[Start]) -> None:
        for start in starts:
            self._epoch += 1
            marks = self._predecessor(start)
            window = OffsetWindow(start.offset or 0, marks, self._limits.window_max, self._limits.begun_max)
            partition = Partition(start.partition, self._epoch, window)
            # The count of takeovers is written before the first record is decoded: decoding may be what kills. And
            # where nothing is committed something is, so that it is missed when it is lost again.
            partition.changed = window.takeovers > 0 or start.offset is None
            self.partitions[start.partition] = partition
        self.joined = True
        log.info(
            "partitions assigned",
            action="worker.assigned",
            lane=self.name,
            partitions=[start.partition for start in starts],
            owned=len(self.partitions),
        )

    def _predecessor(self, start: Start) -> Marks:
        if start.offset is None:
            if start.end > 0:
                log.error(
                    "what the group had committed is lost: all that is in the log is returned to its owners",
                    action="worker.offsets_lost",
                    lane=self.name,
                    partition=start.partition,
                    end=start.end,
                )
            return Marks(doubt=start.end)
        try:
            marks = decode_marks(start.metadata)
        except Undecodable as error:
            log.error(
                "what the last owner committed cannot be read: what it may have begun is returned",
                action="worker.metadata_unreadable",
                lane=self.name,
                partition=start.partition,
                offset=start.offset,
                problem=str(error),
            )
            # It can have begun nothing beyond its window.
            marks = Marks(doubt=WINDOW_MAX)
        return marks._replace(takeovers=marks.takeovers + 1)

    def revoked(self, partitions: Collection[int]) -> None:
        going = [self.partitions[number] for number in partitions if number in self.partitions]
        for partition in going:
            partition.withdraw_marked()
            self._drop_queue(partition)
        reason = STOP if self._stopped else REVOKED
        began_at_s, self._commit_s = self._monotonic_s(), 0.0
        self._hand_over(going, reason)
        # Also the unchanged ones: giving up in peace ends the count of takeovers.
        untold = [p for p in going if p.changed or p.window.takeovers]
        if untold:
            self._commit(untold, released=True)
        took_s = {"handover_s": self._monotonic_s() - began_at_s, "commit_s": self._commit_s}
        self._let_go(going, reason, **{name: round(seconds, 4) for name, seconds in took_s.items()})

    def lost(self, partitions: Collection[int]) -> None:
        going = [self.partitions[number] for number in partitions if number in self.partitions]
        self._let_go(going, LOST)

    def _let_go(self, going: list[Partition], reason: str, **took_s: float) -> None:
        running: list[Item] = []
        for partition in going:
            self._drop_queue(partition)
            running += partition.let_go()
            del self.partitions[partition.number]
        # What was marked and is not ours any more must not take the room of what is to be started.
        self.marked = [item for item in self.marked if item.partition.live]
        if not self.partitions:
            self.suspect = False
        self._abandon(running, reason)
        log.info(
            "partitions lost" if reason is LOST else "partitions revoked",
            action="worker.lost" if reason is LOST else "worker.revoked",
            lane=self.name,
            partitions=[partition.number for partition in going],
            owned=len(self.partitions),
            abandoned=len(running),
            **took_s,
        )

    def _drop_queue(self, partition: Partition) -> None:
        self._ahead.remove([*partition.drop_legacy(), *self._waiting.drop(partition)])

    def stop(self) -> None:
        """Take nothing new: what has not started goes to the next owner."""
        self._stopped = True
        self.marked.clear()
        for partition in self.partitions.values():
            partition.withdraw_marked()
            self._drop_queue(partition)
