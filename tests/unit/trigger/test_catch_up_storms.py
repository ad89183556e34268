"""Long absences, crashes, pauses and edits, by seeds, over jobs of every policy: each occurrence is decided once.

An occurrence is decided where it was dispatched under its nominal time, or where a SKIPPED event's range holds it.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from tests.unit.trigger.world import CODEC, TARGET, World, work_of
from tocsin.domain.instants import SECOND, format_rfc3339
from tocsin.engine.catch_up import CatchUpLimits
from tocsin.engine.shard_engine import EngineLimits
from tocsin.ports.shard_log import EVENTS

SEEDS = int(os.environ.get("STORM_SEEDS", "60"))
BEGIN = 1_800_000_000 * SECOND
LIMITS = EngineLimits(
    fires_max=7, commands_max=4, delta_bytes_max=10_000, cursor_persist_s=2.0, ring=64, work_portions_max=3,
    catch_up=CatchUpLimits(50, 20),
)  # fmt: skip
POLICIES: list[dict[str, object]] = [
    {},
    {"catch_up": "skip"},
    {"catch_up": "skip", "grace_s": 200},
    {"catch_up": "fire_all"},
    {"catch_up": "fire_all", "max_catch_up": 3},
]


@dataclass
class Storm:
    """A world, what is in it, and what was reported."""

    chance: random.Random
    world: World
    jobs: dict[str, tuple[int, dict[str, object]]] = field(default_factory=dict)
    """Period in seconds, and definition."""
    deleted: set[str] = field(default_factory=set)
    reported: set[str] = field(default_factory=set)

    def create(self) -> None:
        period = self.chance.choice([40, 60, 70, 600])
        schedule: dict[str, object] = {"every_s": period, "anchor_at": format_rfc3339(BEGIN)}
        if period == 60 and self.chance.random() < 0.5:
            schedule = {"cron": "* * * * *", "timezone": "UTC"}
        fields = {
            **self.chance.choice(POLICIES),
            "concurrency": self.chance.choice(["allow", "skip_if_running"]),
            "misfire_after_s": self.chance.choice([0, 30, 60]),
        }
        if self.chance.random() < 0.3:
            fields["on_resume"] = self.chance.choice(["skip", "catch_up"])
        job = self.world.recur(schedule, **fields)
        self.jobs[job] = (period, {"schedule": schedule, "target": TARGET, **fields})

    def change(self) -> None:
        job = self.chance.choice(sorted(set(self.jobs) - self.deleted))
        verb = self.chance.choice(["pause", "pause", "resume", "resume", "resume", "update", "delete"])
        if verb == "update":
            named = {**self.jobs[job][1], "name": f"n{self.chance.random()}"}
            self.world.order("update", job, definition=named)
            return
        self.deleted |= {job} if verb == "delete" else set()
        self.world.order(verb, job)

    def report(self) -> None:
        for execution in self.world.executions():
            if execution.head.execution_id not in self.reported and self.chance.random() < 0.7:
                self.reported.add(execution.head.execution_id)
                self.world.report(execution)

    def report_all(self) -> None:
        for record in self.world.log.all("executions.default"):
            execution_id = (record.key or b"").decode().split("|")[1]
            if execution_id not in self.reported:
                self.reported.add(execution_id)
                self.world.report(CODEC.decode_execution(record.value))

    def behind(self) -> bool:
        """Tell whether something that is past may not be decided yet."""
        now = self.world.clock.now()
        return any(engine.state.cursor.run_at < now - SECOND for engine in self.world.engines.values())

    def take_over(self) -> None:
        self.world.be_taken_over(self.chance, zombie_turns=2)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_storm_of_absences(seed: int) -> None:
    chance = random.Random(seed)
    storm = Storm(chance, World(limits=LIMITS))
    world = storm.world
    world.clock.set(BEGIN + 3 * SECOND)
    world.start()
    for _ in range(60):
        deed = chance.random()
        if deed < 0.15 and len(storm.jobs) < 6:
            storm.create()
        elif deed < 0.3 and set(storm.jobs) - storm.deleted:
            storm.change()
        elif deed < 0.4:
            world.store.held = chance.random() < 0.5
        elif deed < 0.48:
            world.store.release(chance.randrange(4), newest=chance.random() < 0.5)
        elif deed < 0.62:
            storm.take_over()
        elif deed < 0.75:
            storm.report()
        else:
            world.clock.advance(chance.choice([0.3, 1, 7, 45, 130, 900]))
        world.settle(chance.randrange(3))
    world.store.held = False
    for job in sorted(set(storm.jobs) - storm.deleted):
        world.order("resume", job)
    for turn in range(6_000):
        world.clock.advance(0.25)
        world.settle(1)
        storm.report_all()
        caught_up = not any(work_of(engine) for engine in world.engines.values())
        if turn > 100 and caught_up and not storm.behind():
            break
    verdict(storm)


def verdict(storm: Storm) -> None:
    world = storm.world
    assert not any(work_of(engine) for engine in world.engines.values()), "all is caught up with"
    assert world.dead_letters() == []
    dispatches = Counter(e.head.execution_id for e in world.executions())
    assert all(count == 1 for count in dispatches.values())
    for record, execution in zip(world.log.all("executions.default"), world.executions(), strict=True):
        assert record.timestamp >= execution.head.scheduled_for, "never early"
    decided: dict[str, Counter[int]] = {job: Counter() for job in storm.jobs}
    for execution in world.executions():
        decided[execution.head.job_id][execution.head.scheduled_for] += 1
    for event in map(CODEC.decode_event, (record.value for record in world.log.all(EVENTS))):
        if event.state != "SKIPPED":
            continue
        job, first = event.head.job_id, event.head.scheduled_for
        times = range(first, (event.skipped_upto or first) + 1, storm.jobs[job][0] * SECOND)
        assert len(times) == event.skipped_count and times[-1] == (event.skipped_upto or first)
        decided[job].update(times)
    for job, counts in decided.items():
        period = storm.jobs[job][0] * SECOND
        assert set(counts.values()) <= {1}, f"{job} decided twice: {[at for at, n in counts.items() if n > 1]}"
        if counts:
            whole = set(range(min(counts), max(counts) + 1, period))
            assert set(counts) == whole, f"{job} left out {sorted(whole - set(counts))}"
        if job not in storm.deleted and world.clock.now() - BEGIN > 2 * period:
            assert not counts or max(counts) > world.clock.now() - period - 2 * SECOND, f"{job} stands still"
