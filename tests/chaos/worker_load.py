"""The load for workers: a stream of executions, most of them short and some of them long, with each written down."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final

import uuid_utils
from confluent_kafka import Producer

from tests.chaos.history import SECOND, Duty
from tests.chaos.load import RETRY
from tests.chaos.rig import PATIENCE_S, SHARDS, Rig
from tocsin.adapters.avro import AvroCodec
from tocsin.domain.commands import Command
from tocsin.domain.ids import made_job_id
from tocsin.domain.instants import format_rfc3339
from tocsin.domain.sharding import shard_of

LONG_EVERY: Final = 10
"""One execution of so many is long."""
LONG_S: Final = (30.0, 90.0)
SHORT_S: Final = (0.05, 0.95)
AHEAD_US: Final = 2 * SECOND
TICK_S: Final = 0.25


@dataclass
class WorkerLoad:
    """One-offs, written to the log as a service does, at a steady rate until it is told to stop.

    Attributes:
        per_s: how many become due in a second.
        long_s: between what and what the long ones last, s.
        at_most_once_every: one of so many must not be made again, whatever happens; 0: none.
    """

    rig: Rig
    per_s: float
    long_s: tuple[float, float] = LONG_S
    at_most_once_every: int = 0
    duties: list[Duty] = field(default_factory=list)
    at_most_once: set[str] = field(default_factory=set)
    """Jobs."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        settings: dict[str, Any] = {"bootstrap.servers": self.rig.system.endpoints.kafka_bootstrap, "log_level": 0}
        self._producer = Producer(settings | {"enable.idempotence": True, "message.timeout.ms": 300_000})
        self._codec = AvroCodec()
        self._random = random.Random(7)
        self._thread = threading.Thread(target=self._stream, daemon=True)
        self._thread.start()

    def stop(self) -> list[Duty]:
        """End the stream; return what is owed."""
        self._stopping.set()
        assert self._thread is not None
        self._thread.join(PATIENCE_S)
        assert self._producer.flush(PATIENCE_S) == 0, "every create is in the log"
        return list(self.duties)

    def last_due(self) -> int:
        """Return when the last execution is due."""
        return max((duty.first for duty in self.duties), default=0)

    def _stream(self) -> None:
        began = time.monotonic()
        while not self._stopping.wait(TICK_S):
            while len(self.duties) < (time.monotonic() - began) * self.per_s:
                self._create(len(self.duties))
            self._producer.poll(0)

    def _create(self, number: int) -> None:
        job_id, due = made_job_id(uuid_utils.uuid7().hex), time.time_ns() // 1000 + AHEAD_US
        lasts_s = self._random.uniform(*(self.long_s if number % LONG_EVERY == 0 else SHORT_S))
        target = {
            "type": "http",
            "method": "POST",
            "url": f"{self.rig.receiver.url}/work/{lasts_s:.2f}",
            "timeout_s": 2 * self.long_s[1] + 30,
        }
        definition = {"run_at": format_rfc3339(due), "target": target, "retry": RETRY, "misfire_after_s": 3600}
        if self.at_most_once_every and number // LONG_EVERY % self.at_most_once_every == 0:
            # Ten in a row, so that they are long as often as others.
            definition["delivery"] = "at_most_once"
            self.at_most_once.add(job_id)
        command = Command("create", f"c-{job_id}", job_id, None, 0, definition)  # type: ignore[arg-type]
        value = self._codec.encode_command(command)
        self._producer.produce(f"{self.rig.prefix}commands", value, job_id, shard_of(job_id, SHARDS))
        self.duties.append(Duty(job_id, due, due))
