"""Commands, reports and crashes in any order, as hostile tenants and zombie workers send them.

Whatever is sent twice, late, stale or to what has ended: of what must not overlap one runs, each run ends once, what
must not be repeated is not, and whoever takes over knows the same.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from tests.unit.trigger.overlap_world import OverlapWorld
from tests.unit.trigger.world import CODEC
from tocsin.domain.executions import AttemptError, Execution
from tocsin.domain.shard_records import IDLE, Phase
from tocsin.engine.actives import shared_by
from tocsin.engine.engine_limits import EngineLimits
from tocsin.ports.shard_log import DEAD_LETTERS

TERMINAL = ("SUCCEEDED", "DEAD", "CANCELLED", "UNKNOWN", "SKIPPED")
RETRY = {"max_attempts": 3, "backoff": "fixed", "base_s": 7, "jitter": "none"}
POLICIES = ("skip_if_running", "queue", "replace")
ENDS = ("SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED")


class Storm:
    """One world, and all that is done to it by a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = OverlapWorld(EngineLimits(ring=24, delta_bytes_max=3_000, overlap_queue_max=3))
        self.jobs: dict[str, dict[str, Any]] = {}
        self.redriven: defaultdict[str, int] = defaultdict(int)
        self.cancelled: dict[str, str] = {}
        for _ in range(3):
            self.create()

    def dispatches(self) -> list[Execution]:
        return self.world.executions()

    def step(self) -> None:
        deeds = {
            self.create: 3, self.trigger: 12, self.report: 12, self.report_anything: 8, self.cancel: 3,
            self.redrive: 5, self.verb: 3, self.edit: 2, self.wait: 6, self.take_over: 2,
        }  # fmt: skip
        self.random.choices(list(deeds), list(deeds.values()))[0]()
        self.world.settle()

    def create(self) -> None:
        if len(self.jobs) >= 8:
            return
        group = self.random.choice([None, None, "g"])
        fields: dict[str, Any] = {"retry": self.random.choice([RETRY, None])}
        if self.random.random() < 0.3:
            fields["max_duration_s"] = 40
        if self.random.random() < 0.5:
            fields["delivery"] = "at_most_once"
        if self.random.random() < 0.4:
            fields["schedule"] = {"every_s": 20}
        target = {"type": "http", "url": "https://example.test/run", "timeout_s": 15, "callback": True}
        fields["target"] = target
        fields = {name: value for name, value in fields.items() if value is not None}
        policy = self.random.choice(POLICIES)
        job = self.world.job(policy, group, **fields)
        self.jobs[job] = {**fields, "concurrency": policy, **({"concurrency_group": group} if group else {})}

    def a_job(self) -> str | None:
        return self.random.choice(list(self.jobs)) if self.jobs else None

    def trigger(self) -> None:
        if job := self.a_job():
            self.world.trigger(job)

    def report(self) -> None:
        """Report, most likely well, on what is current."""
        current = [name for name, one in self.world.active().items() if one.phase not in IDLE]
        if current:
            dispatch = self.world.dispatch_of(self.random.choice(current))
            self.say(dispatch, self.random.choice([*ENDS, "FAILED", "RUNNING", "ACCEPTED", "RETURNED", "RETURNED"]))

    def report_anything(self) -> None:
        """Say anything of any dispatch that ever was, once or twice."""
        if found := self.dispatches():
            dispatch = self.random.choice(found[-12:])
            for _ in range(self.random.choice([1, 2])):
                self.say(dispatch, self.random.choice([*ENDS, "RUNNING", "ACCEPTED", "RETURNED"]))

    def say(self, dispatch: Execution, kind: str) -> None:
        changes: dict[str, Any] = {"worker_id": self.random.choice(["worker-1", "worker-2"])}
        if kind in ("RUNNING", "ACCEPTED"):
            changes |= {"error": None, "timeout_s": 15.0}
        elif kind == "RETURNED":
            started = self.random.choice(["no", "maybe"])
            changes |= {"error": None, "started": started, "reason": self.random.choice(["stop", "predecessor", "cap"])}
        elif kind == "FAILED" and self.random.random() < 0.3:
            changes |= {"error": AttemptError("connection_refused", "refused")}
        name, (attempt, token) = dispatch.head.execution_id, dispatch.head[:2]
        self.world.settle()
        before = self.world.active().get(name)
        current = None if before is None or before.phase in IDLE else CODEC.split_head(before.execution)[0]
        self.world.report(dispatch, kind, **changes)
        self.world.settle()
        if current is None or (current.attempt, current.token) != (attempt, token):
            assert self.world.active().get(name) == before, "it is not the current dispatch's"

    def cancel(self) -> None:
        names = [*self.world.active(), *self.world.started()[-3:]]
        if names:
            name = self.random.choice(names)
            before = self.world.active().get(name)
            accepted, detail = self.world.cancel(name)
            if accepted and before is not None and before.ending is None:
                self.cancelled[name] = detail

    def redrive(self) -> None:
        dead = {event.head.execution_id: event for event in self.world.events()}
        chosen = [event for event in dead.values() if event.state in ("DEAD", "SUCCEEDED")]
        if chosen:
            event = self.random.choice(chosen)
            name = event.head.execution_id
            command = self.world.order(
                "redrive", event.head.job_id, execution_id=name, attempts_before=event.head.attempt
            )
            self.world.settle()
            if self.world.outcomes()[command].accepted:
                self.redriven[name] += 1

    def verb(self) -> None:
        job, kind = self.a_job(), self.random.choice(["pause", "resume", "resume", "resume", "delete"])
        if job:
            self.world.order(kind, job)
            self.world.settle()
            if kind == "delete":
                del self.jobs[job]

    def edit(self) -> None:
        if job := self.a_job():
            definition = {**self.jobs[job], "concurrency": self.random.choice(POLICIES)}
            self.jobs[job] = definition
            self.world.order("update", job, definition=definition)

    def wait(self) -> None:
        self.world.run(self.random.choice([0.5, 3, 8, 20, 50]), step_s=2)

    def take_over(self) -> None:
        self.world.settle()
        before = list(self.world.active().items())
        if self.random.random() < 0.5:
            self.world.start(aware=self.random.random() < 0.5)
            after = self.world.active()
            behind = [name for name, one in before if one.phase == Phase.BEHIND and name in after]
            assert [name for name, one in after.items() if one.phase == Phase.BEHIND and name in behind] == behind
            assert set(after) == {name for name, _ in before}

    # What always holds

    def check(self) -> None:
        running: defaultdict[str, list[str]] = defaultdict(list)
        for name, one in self.world.active().items():
            if one.phase not in IDLE:
                running[shared_by(name)].append(name)
        assert all(len(names) == 1 for names in running.values()), running
        for outcome in self.world.outcomes().values():
            assert not any("fault of tocsin" in fault.remedy for fault in outcome.faults), outcome
        letters = [CODEC.decode_dead_letter(record.value) for record in self.world.log.all(DEAD_LETTERS)]
        assert {letter.kind for letter in letters} <= {"execution", "record"}
        assert not any("engine fails" in letter.reason for letter in letters), letters

    def finish(self) -> None:
        """Let all end, and look at the whole story."""
        for job in list(self.jobs):
            self.world.order("pause", job)
        self.world.settle()
        for _ in range(200):
            if not self.world.active():
                break
            for name, one in list(self.world.active().items()):
                if one.phase not in IDLE:
                    self.world.report(self.world.dispatch_of(name))
            self.world.run(8, step_s=2)
        assert self.world.active() == {}
        assert not any(dispatch.head.losses for dispatch in self.dispatches() if not dispatch.is_repeatable)
        tokens: defaultdict[str, list[int]] = defaultdict(list)
        for dispatch in self.dispatches():
            tokens[dispatch.head.execution_id].append(dispatch.head.token)
        for name, seen in tokens.items():
            assert seen == sorted(set(seen)), "tokens only grow"
            states = [event.state for event in self.world.events(name)]
            assert sum(state in TERMINAL for state in states) == 1 + self.redriven[name], (name, states)
            assert states[-1] in TERMINAL
        for name in self.cancelled:
            assert "CANCELLED" in [event.state for event in self.world.events(name)], name


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_sent_one_runs_and_each_ends_once(seed: int) -> None:
    storm = Storm(seed)
    for _ in range(80):
        storm.step()
        storm.check()
    storm.finish()
    assert len(storm.world.started()) > 5
