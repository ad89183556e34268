"""``history``: events a second that one projector files, beside a bare loop of the same batched writes in one run.

Rounds of both alternate, and the median of their ratios counts. The projector is a real process; it is done with a
round once its group has committed offsets behind all of it, which it does after the store acknowledged. The bare loop
binds the same values to the same statement, in batches alike, on the same store; it reads no log and decodes nothing.
Then events come at half of the rate that was found, and the lag of the views is how long each waited until it was
filed. Run it by ``make bench-history``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any, Final

import uuid_utils
from cassandra.concurrent import execute_concurrent
from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console

from benchmarks.command import begin, conclude, parser
from benchmarks.results_file import Goal
from benchmarks.rig import READY_S, Rig, cpu_s, peak_memory_mib, rig, spread
from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.cassandra.batches import joined
from tocsin.adapters.cassandra.run_rows import event_write
from tocsin.adapters.cassandra.session import Connection, connect
from tocsin.adapters.kafka.clients import base_config
from tocsin.adapters.kafka.names import TopicNames
from tocsin.bootstrap.stores import store_address
from tocsin.domain.executions import AttemptHead, ExecutionEvent, ExecutionState
from tocsin.domain.ids import execution_id, made_job_id
from tocsin.domain.sharding import shard_of
from tocsin.domain.targets import HttpTarget
from tocsin.ports.views import EventSeen

RATIO_GOAL: Final = 0.5
LAG_GOAL_MS: Final = 2_000.0
PATIENCE_S: Final = 300.0
LOOK_EVERY_S: Final = 0.02

console = Console()


def made_events(n: int) -> list[ExecutionEvent]:
    """Return the ends of one execution each of N jobs."""
    now = time.time_ns() // 1000
    events = []
    for number in range(n):
        job_id = made_job_id(uuid_utils.uuid7().hex)
        at = now + number
        head = AttemptHead(1, 1, 0, execution_id(job_id, 1, at), job_id, "default", 1, at, at)
        events.append(
            ExecutionEvent(
                head,
                ExecutionState.SUCCEEDED,
                published_at=now,
                decided_at=now,
                attempt_state="SUCCEEDED",
                started_at=now,
                finished_at=now,
                worker_id="worker-benchmark",
                result="200 OK",
            )
        )
    return events


class Log:
    """The topic of events, written to as owners do but for their transactions; and how far the projectors are."""

    def __init__(self, system: Rig, names: TopicNames) -> None:
        base = base_config(system.bootstrap, "history")
        self._topic, self._shards, self._codec = names.events, system.shards, AvroCodec()
        self._producer = Producer({**base, "enable.idempotence": True, "linger.ms": 1})
        self._asker = Consumer({**base, "group.id": names.group("projector"), "enable.auto.commit": False})
        self._places = [TopicPartition(self._topic, partition) for partition in range(system.shards)]
        self._sent = [0] * system.shards  # the topic is new

    def encoded(self, events: Sequence[ExecutionEvent]) -> list[tuple[bytes, bytes, int]]:
        """Return value, key and partition of each."""
        records = []
        for event in events:
            execution = self._codec.encode_execution(event.head, HttpTarget("http://127.0.0.1:9/nobody"))
            value = self._codec.encode_event(self._codec.split_head(execution)[1], event)
            records.append((value, event.head.execution_id.encode(), shard_of(event.head.job_id, self._shards)))
        return records

    def send(self, records: Sequence[tuple[bytes, bytes, int]]) -> None:
        for value, key, partition in records:
            while True:
                try:
                    self._producer.produce(self._topic, value, key, partition)
                    break
                except BufferError:
                    self._producer.poll(0.05)
            self._sent[partition] += 1
        self._producer.poll(0)

    def filed(self) -> list[int]:
        """Return for each partition the offset up to which all is filed."""
        return [max(0, place.offset) for place in self._asker.committed(self._places, timeout=READY_S)]

    def await_filed(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while any(filed < sent for filed, sent in zip(self.filed(), self._sent, strict=True)):
            if time.monotonic() > deadline:
                raise SystemExit(f"the projector did not file all within {PATIENCE_S:.0f} s")
            time.sleep(LOOK_EVERY_S)

    def next_offset(self, partition: int) -> int:
        return self._sent[partition]

    def close(self) -> None:
        self._asker.close()


def projector_round(log: Log, events: Sequence[ExecutionEvent]) -> float:
    """Return events a second of the projector."""
    records = log.encoded(events)
    began = time.monotonic()
    log.send(records)
    log.await_filed()
    return len(events) / (time.monotonic() - began)


def bare_round(system: Rig, connection: Connection, events: Sequence[ExecutionEvent]) -> float:
    """Return events a second of the bare loop."""
    settings = system.settings
    writes = [event_write(EventSeen(event, number + 1)) for number, event in enumerate(events)]
    size, rows = settings.projector.batch_records_max, settings.cassandra.mixed_batch_rows_max
    began = time.monotonic()
    for at in range(0, len(writes), size):
        bound = [connection.bound(write.query, write.values) for write in writes[at : at + size]]
        batches = [(joined(bound[first : first + rows]), None) for first in range(0, len(bound), rows)]
        in_flight = settings.cassandra.requests_in_flight_max
        execute_concurrent(connection.session, batches, concurrency=in_flight, raise_on_first_error=True)
    return len(events) / (time.monotonic() - began)


def lag_at(log: Log, per_s: float, lasts_s: float) -> list[float]:
    """Send events at a steady rate; return how long each waited until it was filed, ms, the looking included."""
    records = log.encoded(made_events(round(per_s * lasts_s)))
    waiting: list[tuple[int, int, float]] = []
    lags: list[float] = []
    sent, began = 0, time.monotonic()
    while sent < len(records) or waiting:
        now = time.monotonic()
        if now - began > lasts_s + PATIENCE_S:
            raise SystemExit(f"{len(waiting)} events were not filed within {PATIENCE_S:.0f} s")
        due = records[sent : round((now - began) * per_s)]
        for record in due:
            waiting.append((record[2], log.next_offset(record[2]), now))
            log.send([record])
        sent += len(due)
        filed, now = log.filed(), time.monotonic()
        lags += [(now - at) * 1000 for partition, offset, at in waiting if offset < filed[partition]]
        waiting = [one for one in waiting if one[1] >= filed[one[0]]]
        time.sleep(LOOK_EVERY_S)
    return lags


def main() -> None:
    """Run the pairs and the steady rate, and write the result."""
    words = parser("history", __doc__)
    words.add_argument("--n", type=int, default=40_000, help="events of a round")
    words.add_argument("--pairs", type=int, default=5, help="of rounds, after one that does not count")
    words.add_argument("--lasts-s", type=float, default=30.0, help="how long events come at half the rate")
    given = begin(words)
    with rig() as system:
        names = TopicNames(system.settings.kafka.topic_prefix)
        connection = connect(store_address(system.settings))
        log = Log(system, names)
        with system.role("projector", lambda facts: True) as projector:
            rates, bare_rates = [], []
            used_s = 0.0
            for number in range(given.pairs + 1):
                before_s = cpu_s(projector.pid)
                rate = projector_round(log, made_events(given.n))
                spent_s = cpu_s(projector.pid) - before_s
                bare = bare_round(system, connection, made_events(given.n))
                console.print(f"filed {rate:,.0f}/s, bare {bare:,.0f}/s")
                if number:
                    rates.append(rate)
                    bare_rates.append(bare)
                    used_s += spent_s
            half = statistics.median(rates) / 2
            lags = lag_at(log, half, given.lasts_s)
            memory = peak_memory_mib(projector.pid)
        log.close()
        connection.close()
    ratio = round(statistics.median(a / b for a, b in zip(rates, bare_rates, strict=True)), 3)
    figures: dict[str, Any] = {
        "n": given.n,
        "filed_per_s": [round(rate) for rate in rates],
        "bare_per_s": [round(rate) for rate in bare_rates],
        "ratio_to_bare": ratio,
        "projector_cpu_us_per_event": round(used_s / len(rates) / given.n * 1e6),
        "projector_memory_mib_max": memory,
        "half_rate_per_s": round(half),
        "lag_at_half_rate_ms": spread(lags),
    }
    p99 = figures["lag_at_half_rate_ms"]["p99"]
    goals = [
        Goal("share of the bare loop", f">= {RATIO_GOAL}", ratio, ratio >= RATIO_GOAL),
        Goal("p99 lag of the views at half that rate, ms", f"< {LAG_GOAL_MS:.0f}", p99, p99 < LAG_GOAL_MS),
    ]
    conclude("history", given, figures, goals)


if __name__ == "__main__":
    main()
