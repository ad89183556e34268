"""The load: recurring jobs on every shard, and a stream of one-offs through every door, all of it written down.

What was answered decides what is owed: an accepted job must fire, one of unknown outcome may, once. Recurring jobs are
there before the first fault, and paused after the last.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Producer

from tests.chaos.history import SECOND, Duty
from tests.chaos.rig import PATIENCE_S, SHARDS, Rig
from tests.e2e.system import Answer, wait_for
from tocsin.domain.sharding import shard_of

RETRY = {"max_attempts": 4, "backoff": "fixed", "base_s": 1, "max_s": 5}
PATIENT = {"concurrency": "allow", "misfire_after_s": 3600, "retry": RETRY}
"""Policies under which every window must run, however late."""
OUTCOMES_S = 60.0
MARGIN_US = 2 * SECOND
"""Windows so near to a create or a pause are not counted as owed: which came first is not for us to say."""


@dataclass
class Asked:
    """A one-off that was asked for."""

    job_id: str | None
    due: int
    accepted: bool = False
    command_id: str | None = None
    status: str = "pending"


@dataclass
class Load:
    """Creates jobs on a rig until it is told to stop.

    Attributes:
        every_second: recurring jobs of every second, spread over the shards.
        crons: jobs of every second by cron.
        default_policies: jobs of every other second under the default policies, which may skip.
        one_offs_per_s: how many one-offs are asked for.
    """

    rig: Rig
    every_second: int = 32
    crons: int = 8
    default_policies: int = 4
    one_offs_per_s: float = 4.0
    asked: list[Asked] = field(default_factory=list)
    recurring: dict[str, Duty] = field(default_factory=dict)
    undecided: int = 0
    """Commands answered with 202 that may be in the log, and of which nothing was heard."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Create the recurring jobs, each certainly, and begin the stream of one-offs."""
        for number in range(self.every_second):
            # At four different moments of the second, so that a standstill shows to a quarter of it.
            anchor = number % 4 * SECOND // 4
            schedule = {"every_s": 1, "anchor_at": _rfc3339(anchor)}
            job = self._create_surely(f"every-{number}", schedule, PATIENT, 1, anchor)
            self.rig.steady[job] = shard_of(job, SHARDS)
        for number in range(self.crons):
            self._create_surely(f"cron-{number}", {"cron": "* * * * * *", "timezone": "UTC"}, PATIENT, 1)
        for number in range(self.default_policies):
            self._create_surely(f"plain-{number}", {"every_s": 2, "anchor_at": _rfc3339(0)}, {"retry": RETRY}, 2)
        assert set(self.rig.steady.values()) == set(range(SHARDS)), "every shard has a job of every second"
        self._thread = threading.Thread(target=self._stream, daemon=True)
        self._thread.start()

    def stop(self) -> list[Duty]:
        """End the stream, pause all recurring jobs, learn every outcome, and return what is owed."""
        self._stopping.set()
        assert self._thread is not None
        self._thread.join(PATIENCE_S)
        for job, duty in self.recurring.items():
            asked_at = _now()
            wait_for(
                f"the pause of {job}", lambda job=job: self._decided("POST", f"/v1/jobs/{job}:pause", {}), PATIENCE_S
            )
            last = duty.first + (asked_at - MARGIN_US - duty.first) // duty.every * duty.every
            self.recurring[job] = Duty(job, duty.first, last, duty.every, duty.may_skip)
        pending = [one for one in self.asked if one.command_id is not None]
        until = time.monotonic() + OUTCOMES_S
        while pending and time.monotonic() < until:
            for one in pending:
                one.status = self._outcome(one.command_id) or one.status
                one.accepted = one.status == "accepted"
            pending = [one for one in pending if one.status == "pending"]
        self.undecided = len(pending)
        owed = [Duty(one.job_id, one.due, one.due) for one in self.asked if one.accepted and one.job_id]
        return [*self.recurring.values(), *owed]

    def last_due(self) -> int:
        """Return when the last one-off that was asked for is due."""
        return max((one.due for one in self.asked), default=0)

    def _create_surely(
        self, name: str, schedule: dict[str, Any], policies: dict[str, Any], every_s: int, anchor: int = 0
    ) -> str:
        body = {"job_id": name, "schedule": schedule, "target": self._target(), **policies}
        wait_for(f"{name} to be created", lambda: self._decided("POST", "/v1/jobs", body), PATIENCE_S)
        job, every = f"default@{name}", every_s * SECOND
        first = (_now() + MARGIN_US) // every * every + anchor
        self.recurring[job] = Duty(job, first, first, every, may_skip="concurrency" not in policies)
        return job

    def _decided(self, method: str, path: str, body: Any) -> bool:
        """Ask until it is done; asking again is harmless."""
        answer = self._ask(method, path, body)
        assert answer is None or answer.status in (200, 201, 202, 503), answer
        return answer is not None and answer.status in (200, 201)

    def _stream(self) -> None:
        count, began = 0, time.monotonic()
        while not self._stopping.is_set():
            self._one_off(count)
            count += 1
            self._stopping.wait(max(0.0, began + count / self.one_offs_per_s - time.monotonic()))

    def _one_off(self, number: int) -> None:
        """Ask once, as a client without patience; every other one under an id of its own."""
        due = _now() + (number % 20) * SECOND // 2
        job_id = f"one-{number}-{uuid.uuid4().hex[:6]}" if number % 2 else None
        body = {"run_at": _rfc3339(due), "target": self._target(), "retry": RETRY}
        asked = Asked(f"default@{job_id}" if job_id else None, due)
        answer = self._ask("POST", "/v1/jobs", body | ({"job_id": job_id} if job_id else {}))
        if answer is not None and answer.status in (200, 201, 202):
            asked.job_id = str(answer.body["job_id"])
            asked.accepted = answer.status != 202
            asked.command_id = answer.headers.get("location", "").rpartition("/")[2] if answer.status == 202 else None
        self.asked.append(asked)

    def _outcome(self, command_id: str | None) -> str | None:
        answer = self._ask("GET", f"/v1/commands/{command_id}")
        return str(answer.body["status"]) if answer is not None and answer.status == 200 else None

    def _ask(self, method: str, path: str, body: Any = None) -> Answer | None:
        """Return the gateway's answer, or None where it gave none."""
        try:
            return self.rig.system.ask(method, path, body)
        except (OSError, http.client.HTTPException):
            return None

    def _target(self) -> dict[str, Any]:
        return {"type": "http", "method": "POST", "url": f"{self.rig.receiver.url}/run", "timeout_s": 10}


def duplicated_and_reordered(rig: Rig, load: Load, count: int) -> None:
    """Write raw commands to the log: creates twice, and for some a delete that comes before its create."""
    producer = Producer(
        {"bootstrap.servers": rig.system.endpoints.kafka_bootstrap, "partitioner": "murmur2_random", "log_level": 0}
    )
    topic, run = f"{rig.prefix}commands", uuid.uuid4().hex[:6]
    twice: list[tuple[str, bytes]] = []
    for number in range(count):
        name, due = f"raw-{run}-{number}", _now() + (3 + number % 5) * SECOND
        definition = {"run_at": _rfc3339(due), "target": load._target(), "retry": RETRY}
        create = {"kind": "create", "command_id": f"c-{name}", "job_id": name, "definition": definition}
        delete = {"kind": "delete", "command_id": f"d-{name}", "job_id": name}
        if number % 3 == 0:
            producer.produce(topic, json.dumps(delete), f"default@{name}")
        producer.produce(topic, json.dumps(create), f"default@{name}")
        twice.append((f"default@{name}", json.dumps(create).encode()))
        load.asked.append(Asked(f"default@{name}", due, accepted=True))
    for key, value in reversed(twice):
        producer.produce(topic, value, key)
    assert producer.flush(60) == 0


def _rfc3339(at: int) -> str:
    return datetime.fromtimestamp(at / SECOND, UTC).isoformat(timespec="microseconds")


def _now() -> int:
    return time.time_ns() // 1000
