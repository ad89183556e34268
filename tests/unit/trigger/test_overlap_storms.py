"""Crashes at any moment, by seeds, over all policies of overlap, groups, cancels, longest durations and deliveries.

Whatever happens: of jobs that exclude one another at most one is in motion, everything that was accepted ends exactly
once, and nothing is dispatched that was to end.
"""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.unit.trigger.overlap_world import OverlapWorld
from tests.unit.trigger.world import CODEC, TARGET, work_of
from tocsin.adapters.memory.shard_log import MemoryTakeover
from tocsin.domain import ids
from tocsin.domain.executions import Execution
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.shard_records import Phase
from tocsin.engine.actives import shared_by
from tocsin.engine.engine_limits import EngineLimits
from tocsin.engine.restore import restore
from tocsin.engine.shard_state import ShardState
from tocsin.ports.shard_log import executions

SEEDS = int(os.environ.get("STORM_SEEDS", "40"))
QUEUE_MAX = 4
CROWD = 8
LIMITS = EngineLimits(
    fires_max=5, commands_max=4, delta_bytes_max=10_000, cursor_persist_s=2.0, ring=16, work_portions_max=3,
    overlap_queue_max=QUEUE_MAX,
)  # fmt: skip
EXCLUSIVE = ("skip_if_running", "queue", "replace")
RETRIES: Sequence[dict[str, object]] = (
    {},
    {"retry": {"max_attempts": 3, "backoff": "fixed", "base_s": 4, "jitter": "none"}},
)
OVER = frozenset({"SUCCEEDED", "DEAD", "CANCELLED", "UNKNOWN", "SKIPPED"})
TIMEOUT_S = 20


@dataclass
class Ordered:
    """A command that was sent, and what had been dispatched of its executions once its outcome was seen."""

    kind: str
    name: str
    seen: Counter[str] | None = None


@dataclass
class Storm:
    """A world, what is in it, and what its workers have done."""

    chance: random.Random
    world: OverlapWorld = field(default_factory=lambda: OverlapWorld(LIMITS))
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    policies: dict[str, Sequence[str]] = field(default_factory=dict)
    """By job: those that it may have."""
    deleted: set[str] = field(default_factory=set)
    sent: dict[str, Ordered] = field(default_factory=dict)
    ended: set[tuple[str, int, int]] = field(default_factory=set)
    """Dispatches of which nothing is to come."""
    begun: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """By execution: tokens of dispatches that were begun."""
    dispatched: list[tuple[Micros, Execution]] = field(default_factory=list)
    """When, and what."""
    known: set[bytes | None] = field(default_factory=set)
    """Keys of these dispatches: none is there twice."""
    attempts: Counter[str] = field(default_factory=Counter)
    """By execution: the latest attempt."""

    def create(self, policies: Sequence[str], group: str | None = None, **fields: object) -> None:
        chance = self.chance
        definition: dict[str, Any] = {**chance.choice(RETRIES), **fields}
        if chance.random() < 0.3:
            definition["delivery"] = "at_most_once"
        if chance.random() < 0.4:
            definition["max_duration_s"] = chance.choice([6, 25])
        definition["target"] = {**TARGET, "timeout_s": TIMEOUT_S}
        job = self.world.job(chance.choice(policies), group, **definition)
        self.jobs[job], self.policies[job] = definition, policies

    def order(self, kind: str, job: str, **fields: object) -> None:
        command_id = self.world.order(kind, job, **fields)
        self.sent[command_id] = Ordered(kind, str(fields.get("execution_id", job)))

    def edit(self, job: str, policy: str) -> None:
        self.order("update", job, definition={**self.jobs[job], "concurrency": policy})

    def delete(self, job: str) -> None:
        self.deleted.add(job)
        self.order("delete", job)

    def crowd(self, job: str) -> None:
        """Have as many runs of a job as it lets there be, and then something done to all of them."""
        if "allow" in self.policies[job]:
            self.edit(job, "allow")
        for _ in range(CROWD):
            self.order("trigger", job)
        self.turn(self.chance.randrange(8))
        self.work(0.4)
        if self.chance.random() < 0.3 and len(self.alive()) > 3:
            self.delete(job)
        else:
            self.edit(job, self.chance.choice(self.policies[job]))
            self.order("trigger", job)

    def alive(self) -> list[str]:
        return sorted(set(self.jobs) - self.deleted)

    def deed(self) -> None:
        """Do one thing that a client does."""
        chance, deed = self.chance, self.chance.random()
        job = chance.choice(self.alive())
        if deed < 0.5:
            self.order("trigger", job)
        elif deed < 0.6:
            self.crowd(job)
        elif deed < 0.75:
            if active := sorted(self.world.active()):
                name = chance.choice(active)
                self.order("cancel", ids.parse_execution_id(name).job_id, execution_id=name)
        elif deed < 0.9:
            self.edit(job, chance.choice(self.policies[job]))
        elif deed < 0.95 and len(self.alive()) > 3:
            self.delete(job)
        else:
            dead = sorted(e.head.execution_id for e in self.world.events() if e.state == "DEAD")
            if dead and ids.parse_execution_id(name := chance.choice(dead)).job_id in self.alive():
                job = ids.parse_execution_id(name).job_id
                self.order("redrive", job, execution_id=name, attempts_before=self.attempts[name])

    def read(self) -> None:
        """Read what has been dispatched since."""
        for record in self.world.log.all(executions("default")):
            if record.key in self.known:
                continue
            self.known.add(record.key)
            execution = CODEC.decode_execution(record.value)
            self.dispatched.append((record.timestamp, execution))
            head = execution.head
            self.attempts[head.execution_id] = max(self.attempts[head.execution_id], head.attempt)

    def work(self, share: float, *, well: bool = False) -> None:
        """Let workers say something of a share of what is dispatched; nothing but good where all goes ``well``."""
        self.read()
        told = {(cancel.execution_id, cancel.token) for cancel in self.world.cancels()}
        for _, execution in self.dispatched:
            head = execution.head
            dispatch = (head.execution_id, head.attempt, head.token)
            if dispatch in self.ended or self.chance.random() > share:
                continue
            began = head.token in self.begun[head.execution_id]
            stopped = any(name == head.execution_id and token >= head.token for name, token in told)
            kinds = (
                ["SUCCEEDED"]
                if well
                else ["SUCCEEDED", "FAILED", "TIMED_OUT", "RUNNING", "maybe"] + ([] if began else ["no"] * 2)
            )
            self.report(execution, "CANCELLED" if stopped and began else "no" if stopped else self.chance.choice(kinds))

    def report(self, execution: Execution, kind: str) -> None:
        head = execution.head
        if kind == "RUNNING":
            self.world.report(execution, kind, error=None, timeout_s=float(TIMEOUT_S))
        elif kind in ("no", "maybe"):
            self.world.report(execution, "RETURNED", error=None, started=kind, reason="predecessor")
        elif kind in ("SUCCEEDED", "CANCELLED"):
            self.world.report(execution, kind, error=None)
        else:
            self.world.report(execution, kind)
        if kind != "no":
            self.begun[head.execution_id].add(head.token)
        # Now and then something is said twice; but nobody begins what he has given back.
        if kind == "no" or (kind != "RUNNING" and self.chance.random() < 0.95):
            self.ended.add((head.execution_id, head.attempt, head.token))

    def take_over(self) -> None:
        self.world.be_taken_over(self.chance, zombie_turns=2)

    def turn(self, turns: int) -> None:
        """Turn the loop, and look after each turn at what must always be so."""
        for _ in range(turns):
            self.world.settle(1)
            self.look()

    def look(self) -> None:
        self.read()
        world, in_motion, behind = self.world, Counter[str](), Counter[str]()
        for name, one in world.active().items():
            exclusive = "allow" not in self.policies[ids.parse_execution_id(name).job_id]
            in_motion[shared_by(name)] += exclusive and one.phase != Phase.BEHIND
            behind[shared_by(name)] += one.phase == Phase.BEHIND
        assert max(in_motion.values(), default=0) <= 1, f"they overlap: {in_motion}"
        # One that replaces a full queue is put behind it before it is gone.
        assert max(behind.values(), default=0) <= QUEUE_MAX + 1, f"it is longer than it may be: {behind}"
        self._see_outcomes()
        if self.chance.random() < 0.2:
            self._compare_with_the_log()

    def _compare_with_the_log(self) -> None:
        for shard, records in MemoryTakeover(self.world.log).read_states(range(self.world.shards)).items():
            state, present = restore(shard, records, CODEC), self.world.engines[shard].state
            if state is not None and state.number == present.number:
                assert state.active == present.active
                assert _queues(state) == _queues(present)

    def _see_outcomes(self) -> None:
        waiting = [command_id for command_id, ordered in self.sent.items() if ordered.seen is None]
        outcomes = self.world.outcomes() if waiting else {}
        for command_id in waiting:
            if command_id in outcomes:
                self.sent[command_id].seen = self.attempts.copy()

    def drain(self) -> None:
        """Let everything come to its end."""
        self.world.store.held = False
        for job in self.alive():
            if "schedule" in self.jobs[job]:
                self.world.order("pause", job)
        for turn in range(300):
            self.world.clock.advance(1)
            self.turn(2)
            self.work(0.7, well=turn > 10)
            busy = any(work_of(engine) for engine in self.world.engines.values())
            if turn > 20 and not self.world.active() and not busy:
                return
        pytest.fail(f"it does not end: {self.world.active()}")


def _queues(state: ShardState) -> dict[str, list[str]]:
    """Return what stands behind others, by what it shares with them."""
    found = defaultdict(list)
    for name, one in state.active.items():
        if one.phase == Phase.BEHIND:
            found[shared_by(name)].append(name)
    return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_storm_of_overlaps(seed: int) -> None:
    chance = random.Random(seed)
    storm = Storm(chance)
    storm.create(("queue",))
    storm.create(("replace",), schedule={"every_s": 15})
    storm.create((*EXCLUSIVE, "allow"))
    storm.create((*EXCLUSIVE, "allow"), schedule={"every_s": 20}, catch_up="fire_all", misfire_after_s=10)
    storm.create(EXCLUSIVE)
    for _ in range(3):
        seldom = {"schedule": {"every_s": 30}} if chance.random() < 0.5 else {}
        storm.create(EXCLUSIVE, "group", **seldom)
    for _ in range(100):
        deed = chance.random()
        if deed < 0.45:
            storm.deed()
        elif deed < 0.65:
            storm.work(0.3)
        elif deed < 0.71:
            storm.world.store.held = chance.random() < 0.5
        elif deed < 0.81:
            storm.take_over()
        else:
            storm.world.clock.advance(chance.choice([0.0005, 0.3, 1, 3, 7, 25, 60]))
        storm.turn(chance.randrange(3))
    storm.drain()
    verdict(storm)


def verdict(storm: Storm) -> None:
    world = storm.world
    assert set(world.dead_letters()) <= {"execution"}
    outcomes = world.outcomes()
    accepted = {command_id: sent for command_id, sent in storm.sent.items() if outcomes[command_id].accepted}
    redriven = Counter(sent.name for sent in accepted.values() if sent.kind == "redrive")
    assert len(storm.known) == len(world.log.all(executions("default"))), "no dispatch is there twice"
    events = defaultdict(list)
    for event in world.events():
        if event.skipped_count in (None, 1):
            events[event.head.execution_id].append(event)
    dispatched: defaultdict[str, list[tuple[Micros, Execution]]] = defaultdict(list)
    for at, execution in storm.dispatched:
        dispatched[execution.head.execution_id].append((at, execution))
    triggered = {outcomes[name].execution_id or "" for name, sent in accepted.items() if sent.kind == "trigger"}
    for name in triggered | set(dispatched):
        ends = [event for event in events[name] if event.state in OVER]
        assert len(ends) == 1 + redriven[name], f"{name} ended as {ends}"
        assert events[name][-1].state in OVER
    _each_was_dispatched_as_it_should(storm, dispatched, redriven)
    _nothing_went_on_that_was_to_end(storm, accepted, events, dispatched)
    _each_queue_kept_its_order(storm, dispatched)


def _each_was_dispatched_as_it_should(
    storm: Storm, dispatched: dict[str, list[tuple[Micros, Execution]]], redriven: Counter[str]
) -> None:
    for name, all_of in dispatched.items():
        definition = storm.jobs[ids.parse_execution_id(name).job_id]
        if redriven[name]:
            continue
        if definition.get("delivery") == "at_most_once":
            assert len(storm.begun[name]) <= 1, f"{name} may have run twice"
        longest = definition.get("max_duration_s")
        if longest is not None:
            assert all_of[-1][0] < all_of[0][0] + longest * SECOND, f"{name} was to be over"


def _nothing_went_on_that_was_to_end(
    storm: Storm,
    accepted: dict[str, Ordered],
    events: dict[str, list[Any]],
    dispatched: dict[str, list[tuple[Micros, Execution]]],
) -> None:
    final = storm.attempts
    for sent in accepted.values():
        assert sent.seen is not None
        if sent.kind == "cancel":
            assert final[sent.name] == sent.seen[sent.name] or len(events[sent.name]) > 1
            [*_, end] = [event for event in events[sent.name] if event.state in OVER]
            assert end.state in ("CANCELLED", "SKIPPED") or end.reason == "max_duration" or redriven_later(storm, sent)
        elif sent.kind == "delete":
            of_job = [name for name in dispatched if ids.parse_execution_id(name).job_id == sent.name]
            assert {name: final[name] for name in of_job} == {name: sent.seen[name] for name in of_job}


def redriven_later(storm: Storm, sent: Ordered) -> bool:
    return any(other.kind == "redrive" and other.name == sent.name for other in storm.sent.values())


def _each_queue_kept_its_order(storm: Storm, dispatched: dict[str, list[tuple[Micros, Execution]]]) -> None:
    for job in (job for job, policies in storm.policies.items() if policies == ("queue",)):
        queued = [
            event.head.execution_id
            for event in storm.world.events()
            if event.head.job_id == job and event.reason == "overlap" and event.head.attempt == 1
        ]
        firsts = [name for name in dispatched if name in queued]
        assert firsts == [name for name in queued if name in dispatched]
