"""What must hold once all faults are over and time has passed: nothing is lost, nothing stands still."""

from __future__ import annotations

from collections import Counter

from tests.simulation.broker import Violation
from tests.simulation.nodes import TriggerNode
from tests.simulation.store import by_shard
from tests.simulation.world import World
from tocsin.domain.commands import Command
from tocsin.domain.entries import EntryKey
from tocsin.domain.instants import SECOND
from tocsin.domain.sharding import shard_of
from tocsin.domain.timers import is_timer
from tocsin.ports.shard_log import ALERTS, COMMANDS, DEAD_LETTERS, EVENTS, JOBS, REPORTS

SETTLE_S = 900
"""How long work may take to end after all faults are over: the longest deadlines and delays, added up."""

LATE_ROWS_S = 180
"""How long after a change of zone data a row may come by the former ones: a shift, and the longest period."""


def come_to_rest(world: World) -> None:
    """Let everything settle, and check that it did."""
    world.calm()
    world.rest(60, 2 * SECOND)
    for _ in range(LATE_ROWS_S // 10):
        if world.oracle.jobs.zones.awaits_rows():
            world.rest(10, 2 * SECOND)
    _everything_moves(world)
    _nothing_is_held(world)
    _index_is_right(world)
    _stop_what_recurs(world)
    world.rest(10, 2 * SECOND)
    for _ in range(SETTLE_S // 50):
        if not world.oracle.ends.active and not _waiting(world):
            break
        world.rest(50, 5 * SECOND)
    world.rest(10, 2 * SECOND)
    _everything_moves(world)
    _all_is_decided(world)
    _index_is_right(world)
    _who_asked_is_told(world)


def _stop_what_recurs(world: World) -> None:
    for number, job in enumerate(list(world.oracle.jobs.known.values())):
        if job.state == "ACTIVE" and not job.is_one_off:
            value = world.codec.encode_command(Command("pause", f"end{number}", job.job_id))
            world.broker.append(COMMANDS, job.shard, job.job_id.encode(), value)


def _waiting(world: World) -> bool:
    soon = world.broker.now + 200 * SECOND
    jobs = world.oracle.jobs.known.values()
    return any(job.state == "ACTIVE" and job.once is not None and job.once < soon for job in jobs)


def _everything_moves(world: World) -> None:
    now = world.broker.now
    for number, shard in enumerate(world.oracle.shards):
        if shard.cursor is None or now - shard.cursor.run_at > 15 * SECOND:
            raise Violation(f"shard {number} stands still at {shard.cursor}, it is {now}")
        for topic, applied in ((COMMANDS, shard.commands_offset), (REPORTS, shard.reports_offset)):
            records, _ = world.broker.partition(topic, number).read(applied, 1)
            if records and records[0].timestamp < now - 15 * SECOND:
                raise Violation(f"shard {number}: {topic} {records[0].offset} is not applied")
        left = [asked for waiting in shard.asked.values() for asked in waiting]
        if left:
            raise Violation(f"shard {number}: commands without an answer: {left}")


def _nothing_is_held(world: World) -> None:
    held = world.oracle.jobs.undecided(held=True)
    if held:
        raise Violation(f"held back for ever: {held}")


def _all_is_decided(world: World) -> None:
    undecided = world.oracle.jobs.undecided()
    if undecided:
        raise Violation(f"never decided: {undecided}")
    if world.oracle.ends.active:
        raise Violation(f"executions without an end: {world.oracle.ends.active}")


def _who_asked_is_told(world: World) -> None:
    """Each failure that was asked for is told once, by its job's name, and of what was missed nothing that was not."""
    owed: Counter[str] = Counter()
    for number in range(world.shards):
        for record in world.broker.partition(DEAD_LETTERS, number).read(0, 1_000_000)[0]:
            letter = world.codec.decode_dead_letter(record.value)
            if letter.kind == "execution" and "failure" in world.codec.decode_execution(letter.value).alert_on:
                owed[letter.job_id or ""] += 1
    missed: Counter[str] = Counter()
    for number in range(world.shards):
        for record in world.broker.partition(EVENTS, number).read(0, 1_000_000)[0]:
            event = world.codec.decode_event(record.value)
            if event.state == "SKIPPED" and event.reason in ("missed", "late", "max_catch_up"):
                missed[event.head.job_id] += event.skipped_count or 1
    told: dict[str | None, Counter[str]] = {"failure": Counter(), "missed": Counter(), None: Counter()}
    for record in world.broker.partition(ALERTS, 0).read(0, 1_000_000)[0]:
        alert = world.codec.decode_alert(record.value)
        told[alert.alert_on][alert.job_id or ""] += alert.count
    if told["failure"] != owed:
        raise Violation(f"failures are told as {told['failure']}, and are {owed}")
    if not told["missed"] <= missed:
        raise Violation(f"told as missed: {told['missed'] - missed} too many")


def _ends_are_looked_for(world: World, number: int, timed: set[str]) -> None:
    """A one-off of which nothing is to come and nothing runs is at its end, or will be looked at; none is forgotten."""
    for job in world.oracle.jobs.known.values():
        ended = job.is_one_off and job.once is None and job.shard == number and job.state == "ACTIVE"
        busy = world.oracle.ends.has_job_of(f"{job.job_id}.{job.created_version}.0")
        if ended and not busy and job.job_id not in timed:
            raise Violation(f"{job.job_id} has ended, and nothing will ever say so: {job}")


def _index_is_right(world: World) -> None:
    """The store holds what the log implies: one row for each job that has something to come, and its snapshot."""
    triggers = [node for node in world.nodes if isinstance(node, TriggerNode)]
    for _ in range(10):
        for node in triggers:
            world.turn(node)
    if not all(node.store.is_idle for node in triggers):
        raise Violation("the store's answers are not taken")
    rows = by_shard(world.tables)
    for number, shard in enumerate(world.oracle.shards):
        cursor = shard.cursor
        assert cursor is not None
        wanted: set[EntryKey] = set()
        for job in world.oracle.jobs.known.values():
            at = job.next_owed(cursor) if job.shard == number else None
            if at is not None and not (job.is_one_off and job.is_late):
                wanted.add(EntryKey(at, job.job_id, job.version, at))
        present = {key for key, row in rows[number].items() if key.place > cursor and not is_timer(row)}
        if present != wanted:
            raise Violation(
                f"shard {number}: the index lacks {sorted(wanted - present)}, has too much {sorted(present - wanted)}"
            )
        _ends_are_looked_for(world, number, {row.job_id for row in rows[number].values() if is_timer(row)})
    latest: dict[str, bytes | None] = {}
    for number in range(world.shards):
        for record in world.broker.partition(JOBS, number).read(0, 1_000_000)[0]:
            latest[(record.key or b"").decode()] = record.value
    for job_id, job in world.oracle.jobs.known.items():
        assert shard_of(job_id, world.shards) == job.shard
        snapshot = latest.get(job_id)
        gone = job.state == "DELETED"
        if gone and snapshot is not None:
            raise Violation(f"{job_id} is deleted, and has no tombstone")
        row = world.tables.snapshot(job_id)
        if row != (None if gone else snapshot) or (not gone and row is None):
            raise Violation(f"{job_id}: its row is not its snapshot")
