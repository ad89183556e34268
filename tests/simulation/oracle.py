"""What must hold after every commit. Knows the commands and what was committed, and nothing of the engine's insides.

Every turn of a shard says how far its cursor goes. From the commands that were answered by then, it follows which
occurrences the turn must decide: exactly those, each once.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.simulation.broker import Transaction, Violation
from tests.simulation.ends import Ends
from tests.simulation.jobs import Jobs
from tests.simulation.known_job import EPOCH, TOLD_BY_COMMANDS, Asked, Cursors
from tocsin.domain import ids
from tocsin.domain.commands import Command
from tocsin.domain.entries import Place
from tocsin.domain.errors import Undecodable
from tocsin.domain.executions import AttemptHead
from tocsin.domain.shard_records import Active, EndNote, StateDelta
from tocsin.engine.own_commands import OwnNote
from tocsin.ports.shard_log import (
    COMMANDS,
    DEAD_LETTERS,
    EVENTS,
    OUTCOMES,
    REPORTS,
    SHARD_STATE,
    WORKER_CONTROL,
    LogRecord,
    NewRecord,
    ShardTurn,
)

if TYPE_CHECKING:
    from tests.simulation.world import World


OWN = "own."


@dataclass(slots=True)
class Shard:
    """What is known of a shard from its committed turns."""

    number: int = 0
    cursor: Place | None = None
    commands_offset: int = 0
    reports_offset: int = 0
    owner: str = ""
    read: int = 0
    """Where the commands that were not looked at begin."""
    asked: defaultdict[str, deque[Asked]] = field(default_factory=lambda: defaultdict(deque))
    """Commands without an answer, by their id."""
    own: dict[int, Asked] = field(default_factory=dict)
    """Commands that owners gave to themselves, by offset; nobody answers them."""
    ends: defaultdict[tuple[int, str], list[Asked]] = field(default_factory=lambda: defaultdict(list))
    """Jobs that owners told themselves to end, by the offset of that command: as if each had one of its own. One job
    may stand there under several versions."""
    ending: dict[str, list[EndNote]] = field(default_factory=dict)
    """What the state notes of such commands that were not read yet."""

    def parked(self, applied: int) -> set[str]:
        """Return the jobs about which a command is applied and not answered: what is due of them is held back."""
        return {one.job_id for waiting in self.asked.values() for one in waiting if one.offset < applied}


class Oracle:
    """Watches every commit."""

    def __init__(self, world: World) -> None:
        self.began_at = world.broker.now
        self.turns = 0
        self.takeovers = 0
        self._world = world
        self._broker = world.broker
        self._codec = world.codec
        self._changed: dict[str, Active] = {}
        """What the turn at hand changed of executions, by id."""
        self.shards = [Shard() for _ in range(world.shards)]
        self.jobs = Jobs()
        self.ends = Ends(world.codec, world.was_silent, world.heard_upto)

    def appended(self, topic: str, record: LogRecord) -> None:
        """Something was written outside transactions."""
        if topic == REPORTS:
            self.ends.reported(record)

    def committed(self, transaction: Transaction) -> None:
        """A transaction was committed."""
        for turn in transaction.turns:
            self._turn(turn, transaction.began_at)

    def _turn(self, turn: ShardTurn, written_at: int) -> None:
        self.turns += 1
        shard = self.shards[turn.shard]
        delta = self._delta(shard, turn)
        header = delta.header
        before = shard.cursor if shard.cursor is not None else header.cursor
        if header.cursor < before:
            raise Violation(f"shard {turn.shard}: the cursor went back from {before} to {header.cursor}")
        if header.cursor.run_at > self._broker.now + 1:
            ahead = header.cursor.run_at - self._broker.now
            raise Violation(f"shard {turn.shard}: the cursor is {ahead} µs ahead of the time")
        if header.owner != shard.owner:
            self.takeovers += 1
        self._tell(turn, delta)
        changed = {self._codec.decode_head(one.execution).execution_id: one for one in delta.changed}
        self._changed = {name: one for name, one in changed.items() if name not in delta.ended}
        self.ends.overlaps.turn_begins(self._changed)
        self.jobs.begins(turn.shard, delta.at, header.cursor, shard.parked(shard.commands_offset))
        self._look_at_commands(shard, turn.shard)
        triggered = self._answers(shard, turn, delta, before)
        expected = self.ends.apply_reports(turn.shard, shard.reports_offset, header.reports_offset, delta.at)
        self._decisions(turn, delta, before, written_at, expected, triggered)
        self._jobs_end(shard, turn)
        self.ends.lost(delta.changed, delta.at)
        self.ends.overlaps.turn_ends(self._changed)
        if expected:
            raise Violation(f"shard {turn.shard}: reports were applied without their events: {list(expected)}")
        self.jobs.passed(turn.shard, header.cursor, shard.parked(header.commands_offset))
        shard.cursor, shard.owner = header.cursor, header.owner
        shard.commands_offset, shard.reports_offset = header.commands_offset, header.reports_offset

    def _delta(self, shard: Shard, turn: ShardTurn) -> StateDelta:
        deltas = [self._codec.decode_delta(r.value) for r in turn.records if r.topic == SHARD_STATE and r.key[0] == "d"]
        numbers = {delta.number for delta in deltas}
        if numbers != {shard.number + 1}:
            raise Violation(f"shard {turn.shard}: delta {sorted(numbers)} was committed after {shard.number}")
        shard.number += 1
        header = deltas[-1].header
        if header.commands_offset < shard.commands_offset or header.reports_offset < shard.reports_offset:
            raise Violation(f"shard {turn.shard}: its applied offsets went back")
        work = [item for delta in deltas for item in delta.work]
        self.jobs.zones.take(turn.shard, work, shard.cursor or header.cursor)
        for item in work:
            if item.id.startswith(OWN) and (notes := OwnNote(*json.loads(item.data)).jobs):
                shard.ending[item.id] = [EndNote(*note) for note in notes]
        return replace(
            deltas[-1],
            changed=tuple(one for delta in deltas for one in delta.changed),
            ended=tuple(name for delta in deltas for name in delta.ended),
        )

    def _tell(self, turn: ShardTurn, delta: StateDelta) -> None:
        if self._world.story is not None:
            cursor = delta.header.cursor.run_at - self.began_at
            released = ", released" if delta.header.released else ""
            rows = f"{len(turn.records)} records, cursor {cursor:,}"
            self._world.tell(f"shard {turn.shard} turn {turn.number} of {delta.header.owner}{released}: {rows}")

    # Commands and their answers

    def _look_at_commands(self, shard: Shard, number: int) -> None:
        partition = self._broker.partition(COMMANDS, number)
        records, shard.read = partition.read(shard.read, 1_000_000)
        for record in records:
            derived = f"1.{number}.{record.offset}"
            try:
                command = self._codec.decode_command(record.value)
            except Undecodable:
                command = Command("unknown")
            command_id = command.command_id or derived
            asked = Asked(number, record.offset, record.timestamp, command_id, command)
            if command_id.startswith(OWN) and command.kind == "end":
                for note in shard.ending.pop(command_id, []):
                    one = Command(note.kind, command_id, note.job_id, if_version=note.version)
                    shard.ends[record.offset, note.job_id].append(asked._replace(command=one))
            elif command_id.startswith(OWN) and command.kind in ("finish", "remove", "suspend", "move"):
                shard.own[record.offset] = asked
            else:
                shard.asked[command_id].append(asked)

    def _answers(self, shard: Shard, turn: ShardTurn, delta: StateDelta, before: Place) -> set[str]:
        dispatched: set[str] = set()
        own = self._own_of(shard, turn)
        for record in turn.records:
            if record.topic == OUTCOMES:
                outcome = self._codec.decode_outcome(record.value)
                waiting = shard.asked.get(outcome.command_id)
                if not waiting:
                    raise Violation(f"shard {turn.shard}: {outcome.command_id} is answered, and was not asked")
                asked = waiting.popleft()
                for one in [one for one in own if one.job_id == outcome.job_id and one.offset < asked.offset]:
                    self.jobs.by_owner(one, own.pop(one), self.ends)
                triggered = self.jobs.answered(
                    asked, outcome, Cursors(before, delta.header.cursor), self.ends, delta.at
                )
                self._world.tell(f"    {outcome.command_id} {outcome.kind}: {outcome.detail}")
                if triggered is not None:
                    dispatched.add(triggered)
                    self.ends.dispatched_first(self._execution(turn, triggered), turn.number, delta.at)
            elif record.topic == COMMANDS:
                self._passed_on(shard, record)
        for one, state in own.items():
            self.jobs.by_owner(one, state, self.ends)
        return dispatched

    def _own_of(self, shard: Shard, turn: ShardTurn) -> dict[Asked, str]:
        """Return the owner's own commands by which this turn changes jobs, and what those become, in log order."""
        jobs = [self._codec.decode_job(record.value) for record in turn.jobs if record.value is not None]
        states = {job.version: str(job.state) for job in jobs}
        found = [offset for offset in shard.own if ids.version_of(EPOCH, offset) in states]
        return {shard.own.pop(offset): states[ids.version_of(EPOCH, offset)] for offset in sorted(found)}

    def _jobs_end(self, shard: Shard, turn: ShardTurn) -> None:
        """Check the jobs that a turn ends, behind all else that it decides, by commands of their owner to itself."""
        for record in turn.jobs:
            if record.value is None:
                continue
            job = self._codec.decode_job(record.value)
            told = shard.ends.pop((ids.offset_of_version(job.version), job.job_id), None)
            if told:
                known = self.jobs.known.get(job.job_id)
                asked = next((one for one in told if known and one.command.if_version == known.version), told[0])
                self.jobs.by_owner(asked, str(job.state), self.ends)

    def _passed_on(self, shard: Shard, record: NewRecord) -> None:
        command = self._codec.decode_command(record.value)
        if (command.command_id or "").startswith(OWN):
            return
        origin = command.forwarded_from or ""
        for waiting in shard.asked.values():
            if waiting and f"{waiting[0].shard}/{waiting[0].offset}" == origin:
                waiting.popleft()
                return
        raise Violation(f"a command from {origin} was passed on that nobody sent")

    def _execution(self, turn: ShardTurn, execution_id: str) -> NewRecord:
        for record in turn.records:
            if record.topic.startswith("executions.") and record.key.split("|")[1] == execution_id:
                return record
        raise Violation(f"{execution_id} was promised and not dispatched")

    # Decisions

    def _decisions(
        self,
        turn: ShardTurn,
        delta: StateDelta,
        before: Place,
        written_at: int,
        expected: deque[tuple[str, ...]],
        triggered: set[str],
    ) -> None:
        tell = self._world.tell
        parked = self.shards[turn.shard].parked(delta.header.commands_offset)
        for record in turn.records:
            if record.topic == EVENTS:
                event = self._codec.decode_event(record.value)
                head = event.head
                tell(f"    {head.execution_id} {event.state} attempt {head.attempt} token {head.token}")
                if self.ends.overlaps.takes(event):
                    continue
                if event.state == "SKIPPED" and event.reason == "replaced":
                    self.ends.overlaps.dropped(event)
                    continue
                if event.state not in ("SKIPPED", "QUEUED"):
                    self.ends.changed(event, expected, delta.at)
                    continue
                if head.job_id in parked and event.reason not in TOLD_BY_COMMANDS:
                    raise Violation(f"{head.execution_id} was {event.state} past commands that are parked")
                if event.state == "QUEUED":
                    self._check_time(head, written_at)
                    self.jobs.fired(head, delta.at, before, self.ends.overlaps, "behind")
                    self.ends.stand_behind(head.execution_id, delta.at)
                    continue
                upto = event.skipped_upto or head.scheduled_for
                self.jobs.skipped(event, upto, delta.at, before, self.ends.overlaps)
            elif record.topic.startswith("executions."):
                head = self._codec.decode_head(record.value)
                tell(f"    {head.execution_id} dispatched: attempt {head.attempt} token {head.token}")
                if head.execution_id in triggered and head.token == turn.number and head.losses == 0:
                    continue
                if self.ends.knows(head.execution_id):
                    self.ends.dispatched_again(record, head, turn.number, delta.at)
                    continue
                self._check_time(head, written_at)
                if head.job_id in parked:
                    raise Violation(f"{head.execution_id} was dispatched past commands that are parked")
                self.jobs.fired(head, delta.at, before, self.ends.overlaps, "free")
                self.ends.dispatched_first(record, turn.number, delta.at)
            elif record.topic == WORKER_CONTROL:
                cancel = self._codec.decode_cancel(record.value)
                if not self.ends.overlaps.told_workers(cancel, self._changed, delta.at):
                    self.ends.outlived(cancel, delta.at)
            elif record.topic == DEAD_LETTERS:
                letter = self._codec.decode_dead_letter(record.value)
                if letter.kind == "entry":
                    raise Violation(f"a sound row was set aside: {letter.reason}")

    def _check_time(self, head: AttemptHead, written_at: int) -> None:
        if written_at // 1000 * 1000 < head.due_at or head.due_at < head.scheduled_for:
            raise Violation(f"{head.execution_id} was dispatched early")
