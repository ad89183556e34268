"""An owner's side of the simulated log, and what a successor reads of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tests.simulation.broker import Handle, Transaction
from tocsin.domain.errors import OwnershipLost, TurnAborted
from tocsin.domain.instants import Micros
from tocsin.ports.fleet_log import SeenBeat
from tocsin.ports.shard_log import COMMANDS, JOBS, REPORTS, SHARD_STATE, LogRecord, Polled, ShardTurn
from tocsin.ports.takeover import JobsTail

if TYPE_CHECKING:
    from tests.simulation.nodes import TriggerNode


class SimShardLog:
    """Fulfils ``ports.shard_log.ShardLog``: a member of the triggers' group, and its transactional producer."""

    def __init__(self, node: TriggerNode) -> None:
        self._node = node
        self._broker = node.world.broker
        self._group = node.world.triggers
        self._handle: Handle | None = None
        self._held: set[int] = set()
        self._positions: dict[tuple[str, int], int] = {}
        self._paused: set[int] = set()
        self._news = Polled()
        self._on_revoke: Callable[[set[int]], None] = lambda _: None
        self._wanted = False
        self._entered = False
        self._open: Transaction | None = None
        self._ahead: dict[int, ShardTurn] = {}
        """What lies in the open transaction, sent before its commit."""

    def join(self, on_revoke: Callable[[set[int]], None]) -> None:
        self._on_revoke = on_revoke
        self._wanted = True

    def leave(self) -> None:
        self._wanted = False

    def begin(self, starts: Mapping[int, tuple[int, int]]) -> None:
        self._node.point("begin")
        for shard, (command, report) in starts.items():
            self._positions[COMMANDS, shard] = command
            self._positions[REPORTS, shard] = report

    def renew(self, transactional_id: str) -> None:
        self._handle = self._broker.init(transactional_id)
        self._open, self._ahead = None, {}

    def reports_end(self, shard: int) -> int:
        self._node.point("reports_end")
        return self._broker.partition(REPORTS, shard).end

    def poll(self, wait_s: float, commands_max: int, reports_max: int) -> Polled:
        self._node.point("poll")
        self._follow_group()
        polled, self._news = self._news, Polled()
        share = self._node.world.chance.random()
        # At times a fetch brings little: a broker answers partition by partition.
        few = self._node.world.chance.randrange(3) if share < 0.3 else None
        polled.commands = self._take(COMMANDS, commands_max if few is None else few, polled)
        if not self._node.world.is_deaf():
            polled.reports = self._take(REPORTS, reports_max if few is None else few, polled)
        return polled

    def _take(self, topic: str, limit: int, polled: Polled) -> list[LogRecord]:
        taken: list[LogRecord] = []
        for (name, shard), position in list(self._positions.items()):
            if name != topic or (topic == COMMANDS and shard in self._paused):
                continue
            partition = self._broker.partition(topic, shard)
            records, after = partition.read(position, limit - len(taken))
            self._positions[name, shard] = after
            taken += records
            if topic == REPORTS and not records and after >= partition.stable_end():
                polled.reports_seen[shard] = after
        return taken

    def _follow_group(self) -> None:
        group = self._group
        if self._entered and not group.is_member(self):
            lost, self._entered = self._held, False
            self._let_go(lost)
            self._news.lost |= lost
            self._held = set()
        if not self._wanted:
            if self._entered:
                self._give_up(self._held)
                group.leave(self)
                self._entered = False
            return
        if not self._entered:
            group.enter(self)
            self._entered = True
        group.catch_up(self)
        going = set(group.to_give_up(self)) & self._held
        if going:
            self._give_up(going)
            if group.is_member(self):
                group.give_up(sorted(going))
                group.catch_up(self)
        if group.is_member(self):
            coming = group.take(self)
            self._held |= set(coming)
            self._news.assigned |= set(coming)

    def _give_up(self, shards: set[int]) -> None:
        going = set(shards)
        if going:
            self._on_revoke(going)
            self._let_go(going)
            self._held -= going

    def _let_go(self, shards: set[int]) -> None:
        for shard in shards:
            self._positions.pop((COMMANDS, shard), None)
            self._positions.pop((REPORTS, shard), None)
        self._news.assigned -= shards

    def pause(self, shard: int) -> None:
        self._paused.add(shard)

    def resume(self, shard: int) -> None:
        self._paused.discard(shard)

    def send_ahead(self, turn: ShardTurn) -> None:
        self._node.point("sends ahead")
        handle = self._handle
        if handle is None or handle.broken or not self._broker.is_current(handle):
            return
        if self._open is None:
            self._open = self._broker.begin(handle)
        if self._open.decided is None:
            for record in turn.records:
                self._broker.produce(self._open, record)
            self._ahead[turn.shard] = turn

    def commit(self, turns: Sequence[ShardTurn]) -> dict[int, int]:
        node, broker, handle = self._node, self._broker, self._handle
        assert handle is not None, "renew comes before the first commit"
        opened, ahead = self._open, self._ahead
        self._open, self._ahead = None, {}
        if not self._group.is_member(self):
            if opened is not None and opened.decided is None:
                broker.end(opened, False)
            raise TurnAborted("this trigger is not a member of its group")
        node.point("commit")
        self._refuse_fenced(handle, opened)
        mine = {turn.shard: turn.records for turn in turns}
        assert all(mine.get(shard) is turn.records for shard, turn in ahead.items()), "it commits what it sent ahead"
        transaction = opened or broker.begin(handle)
        jobs_end: dict[int, int] = {}
        for turn in turns:
            for record in turn.records if turn.shard not in ahead else ():
                broker.produce(transaction, record)
            for record in turn.jobs:
                jobs_end[turn.shard] = broker.produce(transaction, record) + 1
        transaction.turns = turns
        node.point("produced")
        self._refuse_fenced(handle, transaction)
        if not self._group.knows(self):
            broker.end(transaction, False)
            raise TurnAborted("this trigger's generation is over")
        transaction.offsets = frozenset(turn.shard for turn in turns)
        node.point("offsets sent")
        self._refuse_fenced(handle, transaction)
        self._end(transaction)
        node.point("committed")
        return jobs_end

    def _end(self, transaction: Transaction) -> None:
        fault = self._node.take_commit_fault()
        if fault is None:
            self._broker.end(transaction, True)
            return
        self._node.world.tell(f"{self._node.name}: the end of its transaction is {fault}")
        assert transaction.handle is not None
        transaction.handle.broken = True
        if fault == "aborted":
            self._broker.end(transaction, False)
        elif fault == "unknown, done":
            self._broker.end(transaction, True)
        else:
            transaction.late = fault == "unknown, late"
        raise OwnershipLost(f"a turn's commit is {fault}")

    def _refuse_fenced(self, handle: Handle, transaction: Transaction | None = None) -> None:
        if (
            handle.broken
            or not self._broker.is_current(handle)
            or (transaction is not None and transaction.decided is not None)
        ):
            raise OwnershipLost("this owner is fenced")

    def trim(self, topic: str, shard: int, below: int, older_than: Micros) -> None:
        """Nothing here grows old."""

    def close(self, leave: bool) -> None:
        if leave and self._entered:
            self.leave()
            self._follow_group()


class SimTakeover:
    """Fulfils ``ports.takeover.Takeover``; every answer may let others act first."""

    def __init__(self, node: TriggerNode) -> None:
        self._node = node
        self._broker = node.world.broker

    def fence(self, owner: str) -> None:
        self._node.point("fence")
        self._broker.init(owner)

    def wait_for_offsets(self, shards: Sequence[int]) -> None:
        self._node.point("wait for offsets")
        self._node.wait_until(lambda: not self._broker.pending_offsets(shards))

    def read_states(self, shards: Sequence[int], *, stable: bool = False) -> dict[int, dict[str, bytes]]:
        states: dict[int, dict[str, bytes]] = {}
        for shard in shards:
            self._node.point("read states")
            found = self._read(SHARD_STATE, shard, 0, stable=stable)
            if found is not None:
                latest = {(r.key or b"").decode(): r.value for r in found[0]}
                states[shard] = {key: value for key, value in latest.items() if value is not None}
        return states

    def read_jobs(self, starts: Mapping[int, int]) -> dict[int, JobsTail]:
        tails: dict[int, JobsTail] = {}
        for shard, start in starts.items():
            self._node.point("read jobs")
            found = self._read(JOBS, shard, start)
            if found is None:
                continue
            records, end = found
            if self._node.world.chance.random() < 0.5:
                records = _compacted(records)
            tails[shard] = JobsTail([((r.key or b"").decode(), r.value) for r in records], end)
        return tails

    def hidden(self, shards: Sequence[int]) -> set[int]:
        self._node.point("look for hidden ends")
        topics = (SHARD_STATE, JOBS)
        return {shard for shard in shards if any(self._is_hidden(topic, shard) for topic in topics)}

    def _is_hidden(self, topic: str, shard: int) -> bool:
        return self._broker.partition(topic, shard).stable_end() < self.end(topic, shard)

    def end(self, topic: str, shard: int) -> int:
        """Return the end as a read_uncommitted client sees it."""
        return self._broker.partition(topic, shard).end

    def _read(self, topic: str, shard: int, start: int, *, stable: bool = False) -> tuple[list[LogRecord], int] | None:
        """Read what is committed; at times an end that an open transaction hides is waited for in vain."""
        partition = self._broker.partition(topic, shard)
        end = partition.stable_end() if stable else self.end(topic, shard)
        if partition.stable_end() < end and self._node.world.chance.random() < 0.3:
            return None
        self._node.wait_until(lambda: partition.stable_end() >= end)
        records, _ = partition.read(start, 1_000_000)
        return [record for record in records if record.offset < end], end

    def has_run(self, shard: int) -> bool:
        return bool(self._broker.partition(JOBS, shard).records)


def _compacted(records: list[LogRecord]) -> list[LogRecord]:
    """Leave only the last record of each key, as the log's cleaner does some time."""
    last = {record.key: record.offset for record in records}
    return [record for record in records if last[record.key] == record.offset]


class CommittedLog:
    """What a read_committed reader sees, as ``MemoryJobsLog`` asks for it."""

    def __init__(self, node: TriggerNode) -> None:
        self._broker = node.world.broker

    def end(self, topic: str, shard: int) -> int:
        return self._broker.partition(topic, shard).stable_end()

    def read(self, topic: str, shard: int, start: int = 0) -> list[LogRecord]:
        return self._broker.partition(topic, shard).read(start, 1_000_000)[0]


class SimFleetLog:
    """Fulfils ``ports.fleet_log.FleetLog``: all beats, from the first that is kept."""

    def __init__(self, node: TriggerNode) -> None:
        self._beats = node.world.beats
        self._position = 0

    def poll(self, limit: int) -> list[SeenBeat]:
        found = self._beats[self._position : self._position + limit]
        self._position += len(found)
        return found

    def close(self) -> None:
        """Nothing is held."""
