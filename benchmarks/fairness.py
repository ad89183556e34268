"""``fairness``: how long one tenant waits behind 5,000 executions of another on the same partition that hang, or fail.

One worker process with default settings, on a real broker. A delay runs from when a record is handed to the log until
its attempt starts, by one machine's clock. Run it by ``make bench-fairness``.
"""

from __future__ import annotations

import os
import time
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console

from benchmarks.command import begin, conclude, parser
from benchmarks.http_server import http_server
from benchmarks.plot import write_cumulative
from benchmarks.results_file import Goal
from benchmarks.rig import READY_S, Rig, rig
from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.kafka.clients import base_config
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.executions import AttemptHead, dispatch_key
from tocsin.domain.ids import execution_id
from tocsin.domain.targets import HttpTarget

GOAL_S: Final = 2.0
GOOD_N: Final = 50
GOOD_EVERY_S: Final = 0.1
PARTITION: Final = 0
PATIENCE_S: Final = 120.0

console = Console()


class Lane:
    """The default lane and its reports."""

    def __init__(self, system: Rig) -> None:
        self._codec = AvroCodec()
        names = TopicNames(system.settings.kafka.topic_prefix)
        self._topic = names.executions("default")
        self._producer = Producer(base_config(system.bootstrap, "fairness") | {"acks": "all", "linger.ms": 0})
        config = {"group.id": "fairness", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        self._reports = Consumer(base_config(system.bootstrap, "fairness") | config)
        self._reports.assign([TopicPartition(names.reports, shard, 0) for shard in range(system.shards)])
        self._number = 0
        self.delays: dict[str, list[float]] = {}
        """By tenant: seconds from the log to the start."""
        self.returned: dict[str, int] = {}

    def dispatch(self, tenant_id: str, url: str, count: int) -> None:
        """Write executions that are due now."""
        now = time.time_ns() // 1_000
        for _ in range(count):
            self._number += 1
            job_id = f"{tenant_id}@j{self._number}"
            identity = execution_id(job_id, 1, now)
            head = AttemptHead(1, self._number, 0, identity, job_id, tenant_id, 1, now, now)
            value = self._codec.encode_execution(head, HttpTarget(url, timeout_s=60.0))
            key = dispatch_key(tenant_id, identity, 1, self._number).encode()
            self._producer.produce(self._topic, value, key, PARTITION)
        self._producer.flush(READY_S)

    def listen(self, wait_s: float) -> None:
        """Take reports in."""
        for message in self._reports.consume(1_000, wait_s):
            if message.error() is not None or message.value() is None:
                continue
            report = self._codec.decode_report(message.value())
            tenant_id = report.head.tenant_id
            if report.kind == "RETURNED":
                self.returned[tenant_id] = self.returned.get(tenant_id, 0) + 1
            elif report.kind == "SUCCEEDED" and report.started_at is not None:
                self.delays.setdefault(tenant_id, []).append((report.started_at - report.head.due_at) / 1e6)

    def close(self) -> None:
        self._reports.close()


def measure(system: Rig, lane: Lane, case: str, ahead: int, bad_url: str, good_url: str) -> dict[str, Any]:
    """Serve one case by a worker of its own; return its figures."""
    good, bad = f"good-{case}", f"bad-{case}"
    with system.role("worker", lambda _facts: True, name=f"worker-{case}"):
        lane.dispatch(f"first-{case}", good_url, 1)
        deadline = time.monotonic() + PATIENCE_S
        while not lane.delays.get(f"first-{case}") and time.monotonic() < deadline:
            lane.listen(0.1)
        lane.dispatch(bad, bad_url, ahead)
        for _ in range(GOOD_N):
            lane.dispatch(good, good_url, 1)
            lane.listen(GOOD_EVERY_S)
        while len(lane.delays.get(good, [])) < GOOD_N and time.monotonic() < deadline:
            lane.listen(0.1)
    delays = sorted(lane.delays.get(good, []))
    if len(delays) < GOOD_N:
        raise SystemExit(f"{case}: of {GOOD_N} only {len(delays)} were served within {PATIENCE_S:.0f} s")
    figures = {
        "ahead": ahead,
        "served": len(delays),
        "delay_s_p50": round(delays[len(delays) // 2], 3),
        "delay_s_max": round(delays[-1], 3),
        "given_back_of_the_other": lane.returned.get(bad, 0),
    }
    console.print(f"{case}: {figures}")
    return figures


def main() -> None:
    """Measure each case, and write the result and its plot."""
    words = parser("fairness", __doc__)
    words.add_argument("--ahead", type=int, default=5_000, help="executions of the other tenant")
    given = begin(words)
    os.environ["TOCSIN_WORKER__ALLOW_PRIVATE_TARGETS"] = "true"
    figures: dict[str, Any] = {}
    with rig() as system, http_server() as address:
        lane = Lane(system)
        for case, ahead, url in (
            ("alone", 0, address),
            ("behind-failing", given.ahead, "http://127.0.0.1:9/refused"),
            # The last one: what hangs is still there afterwards.
            ("behind-hanging", given.ahead, f"{address}/hang"),
        ):
            figures[case] = measure(system, lane, case, ahead, url, f"{address}/run")
        lane.close()
    goals = [
        Goal(f"longest delay {case}, s", f"< {GOAL_S}", one["delay_s_max"], one["delay_s_max"] < GOAL_S)
        for case, one in figures.items()
    ]
    conclude("fairness", given, figures, goals)
    curves = {case: [delay * 1_000 for delay in lane.delays[f"good-{case}"]] for case in figures}
    write_cumulative(given.out.with_suffix(".svg"), "one tenant behind another: delay of its starts", "ms", curves)


if __name__ == "__main__":
    main()
