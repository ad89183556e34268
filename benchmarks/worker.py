"""``worker``: executions a second of one worker process, beside bare loops of the same client calls in the same run.

Three kinds. ``loop``: attempts that end at once in the loop's own thread, and ``handler``: an async handler that does
nothing, both with marks, reports and offsets really committed, beside a loop that consumes, commits, produces and
flushes in batches of 500. ``http``: the HTTP runner, beside an aiohttp loop that makes the same requests to the same
server. Rounds of both alternate, and the median of their ratios counts. Run it by ``make bench-worker``.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from rich.console import Console

from benchmarks.command import begin, conclude, parser
from benchmarks.http_server import http_server
from benchmarks.plot import write_bars
from benchmarks.results_file import Goal
from benchmarks.rig import READY_S, Rig, rig
from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.kafka.clients import base_config
from tocsin.adapters.kafka.dispatch_log import KafkaDispatchLog, consumer_config
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.report_sink import KafkaReportSink, count_partitions, producer_config
from tocsin.adapters.metrics.prometheus import PrometheusMeter
from tocsin.adapters.targets.addresses import AddressRules
from tocsin.adapters.targets.handlers import HandlerRunner
from tocsin.adapters.targets.http import HttpTargetRunner
from tocsin.adapters.targets.output import OutputWriter
from tocsin.bootstrap.garbage import WORKER_YOUNG_MAX, collect_rarely
from tocsin.bootstrap.process import SystemClock
from tocsin.bootstrap.worker import SWITCH_INTERVAL_S
from tocsin.domain.executions import AttemptHead, AttemptReport, ReportKind, dispatch_key
from tocsin.domain.ids import execution_id
from tocsin.domain.sharding import lane_partition
from tocsin.domain.targets import HandlerTarget, HttpTarget, Target
from tocsin.handlers.registry import HandlerApp
from tocsin.ports.targets import Attempt, AttemptEnd, TargetRunner
from tocsin.roles.worker import WorkerLimits, WorkerLoop

GOALS: Final = {"handler": 0.25, "http": 0.4}
BATCH: Final = 500
TENANTS: Final = 8
"""One alone may take half of a worker only."""
BODY: Final = '{"from": "benchmark"}'
PATIENCE_S: Final = 180.0

console = Console()


class EndsAtOnce:
    """A runner whose attempts succeed at once, in the thread of the loop. Fulfils ``TargetRunner``."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._ended: list[AttemptEnd] = []

    def start(self, attempts: Sequence[Attempt]) -> None:
        now = self._clock.now()
        self._ended += [AttemptEnd(attempt.ref, ReportKind.SUCCEEDED, now, now) for attempt in attempts]

    def ended(self) -> list[AttemptEnd]:
        ended, self._ended = self._ended, []
        return ended

    def cancel(self, refs: Sequence[Any]) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is held."""


def does_nothing() -> HandlerApp:
    """Return an app with an async handler that does nothing."""
    app = HandlerApp("bench")

    @app.handler("nothing")
    async def nothing() -> None:
        """Do nothing."""

    return app


class NoStore:
    """Fulfils ``RunLogStore`` where nothing is said."""

    def write(self, logs: Sequence[Any]) -> None:
        raise SystemExit("a handler that does nothing has said something")

    def close(self) -> None:
        """Nothing is held."""


def output() -> OutputWriter:
    """Return what keeps the output of handlers in a real worker."""
    return OutputWriter(NoStore(), SystemClock(), PrometheusMeter())


class Counted(PrometheusMeter):
    """The meter of a real worker, how many attempts succeeded, and how many reports are acknowledged."""

    acknowledged = 0
    succeeded = 0

    def finished(self, kind: str, durations_s: Sequence[float]) -> None:
        super().finished(kind, durations_s)
        self.succeeded += len(durations_s) if kind == ReportKind.SUCCEEDED else 0

    def reported(self, count: int) -> None:
        super().reported(count)
        self.acknowledged += count


def write_executions(system: Rig, topic: str, n: int, target: Target) -> None:
    """Fill a topic with executions of many jobs of some tenants."""
    codec = AvroCodec()
    partitions = count_partitions(system.bootstrap, topic, READY_S)
    producer = Producer(base_config(system.bootstrap, "fill") | {"linger.ms": 20, "acks": "all"})
    now = SystemClock().now()
    for number in range(n):
        tenant_id, job_id = f"tenant-{number % TENANTS}", f"job_{uuid.uuid4().hex}"
        identity = execution_id(job_id, 1, now)
        head = AttemptHead(1, number, 0, identity, job_id, tenant_id, 1, now, now)
        place = lane_partition(tenant_id, job_id, partitions, 8)
        key = dispatch_key(tenant_id, identity, 1, number)
        producer.produce(topic, codec.encode_execution(head, target), key.encode(), place)
        if number % 1_000 == 0:
            producer.poll(0)
    producer.flush(READY_S)


def committed(system: Rig, group: str, topic: str) -> int:
    """Return the sum of the offsets that a group has committed."""
    partitions = range(count_partitions(system.bootstrap, topic, READY_S))
    consumer = Consumer(base_config(system.bootstrap, "look") | {"group.id": group, "enable.auto.commit": False})
    places = consumer.committed([TopicPartition(topic, number) for number in partitions], timeout=READY_S)
    consumer.close()
    return sum(max(0, place.offset) for place in places)


def begin_group(system: Rig, group: str, topic: str) -> None:
    """Commit the beginning of a topic, as is done when a lane is made: what has no commit, a worker returns unread."""
    partitions = range(count_partitions(system.bootstrap, topic, READY_S))
    beginning = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, number, 0) for number in partitions])
    admin = AdminClient(base_config(system.bootstrap, "begin"))
    for future in admin.alter_consumer_group_offsets([beginning]).values():
        future.result(READY_S)


def lane_config(system: Rig, group: str) -> dict[str, Any]:
    worker = system.settings.worker
    return consumer_config(
        system.bootstrap,
        group,
        group,
        worker.group_protocol,
        worker.session_timeout_s,
        worker.read_ahead_bytes_max // 2,
    )


def worker_round(
    system: Rig, topic: str, n: int, runner: TargetRunner, limits: WorkerLimits, profile: Path | None
) -> float:
    """Let one worker run all executions of a topic; return the seconds from its first assignment to its last commit."""
    names, group = TopicNames(system.settings.kafka.topic_prefix), f"bench-{uuid.uuid4().hex[:8]}"
    begin_group(system, group, topic)
    meter = Counted()
    reports = KafkaReportSink(producer_config(system.bootstrap, group), names.reports)
    loop = WorkerLoop(
        group,
        {"default": KafkaDispatchLog(topic, lane_config(system, group))},
        runner, reports, AvroCodec(), SystemClock(), time.monotonic, meter, limits,
    )  # fmt: skip
    profiler = cProfile.Profile() if profile else None
    loop.join()
    try:
        while not loop.is_member:
            loop.step()
        began_s = time.monotonic()
        if profiler:
            profiler.enable()
        while meter.acknowledged < n and time.monotonic() < began_s + PATIENCE_S:
            loop.step()
        while any(lane.has_changes() for lane in loop._lanes):
            loop.step()
        took_s = time.monotonic() - began_s
        if profiler:
            profiler.disable()
    finally:
        loop.close()
    found = committed(system, group, topic)
    if not found == meter.acknowledged == meter.succeeded == n:
        told = f"{meter.succeeded} succeeded, {meter.acknowledged} were reported"
        raise SystemExit(f"of {n} executions {told}, and offsets up to {found} committed")
    if profiler and profile:
        with profile.open("w") as out:
            pstats.Stats(profiler, stream=out).sort_stats("tottime").print_stats(45)
    return took_s


def runner_round(
    system: Rig, topic: str, n: int, make: Callable[[], TargetRunner], limits: WorkerLimits, profile: Path | None
) -> float:
    """Make a runner for one round of a worker."""
    return worker_round(system, topic, n, make(), limits, profile)


def bare_noop_round(system: Rig, topic: str, n: int) -> float:
    """Consume, commit, produce and flush in batches, by nothing but the client library; return the seconds."""
    names, group = TopicNames(system.settings.kafka.topic_prefix), f"bare-{uuid.uuid4().hex[:8]}"
    begin_group(system, group, topic)
    report = _a_report()
    producer = Producer(producer_config(system.bootstrap, group))
    consumer = Consumer(lane_config(system, group))
    assigned: list[float] = []
    consumer.subscribe([topic], on_assign=lambda *_: assigned.append(time.monotonic()))
    done, deadline = 0, time.monotonic() + PATIENCE_S
    try:
        while done < n and time.monotonic() < deadline:
            ends: dict[int, int] = {}
            messages = [message for message in consumer.consume(BATCH, 0.05) if message.error() is None]
            for message in messages:
                ends[message.partition()] = message.offset() + 1
            if not messages:
                continue
            places = [TopicPartition(topic, number, offset) for number, offset in ends.items()]
            consumer.commit(offsets=places, asynchronous=False)
            for number, message in enumerate(messages):
                producer.produce(names.reports, report, message.key(), number % system.shards)
            producer.flush(READY_S)
            done += len(messages)
        took_s = time.monotonic() - assigned[0]
    finally:
        consumer.close()
    if committed(system, group, topic) != n:
        raise SystemExit("the bare loop did not commit all")
    return took_s


def _a_report() -> bytes:
    now, job_id = SystemClock().now(), f"job_{uuid.uuid4().hex}"
    head = AttemptHead(1, 1, 0, execution_id(job_id, 1, now), job_id, "tenant-1", 1, now, now)
    codec = AvroCodec()
    _, head_bytes = codec.split_head(codec.encode_execution(head, HttpTarget("http://x.test/")))
    return codec.encode_report(AttemptReport(head, head_bytes, ReportKind.SUCCEEDED, "bench-00000000", now, now))


async def bare_http_round(url: str, n: int, side_by_side: int) -> float:
    """Make the requests by nothing but aiohttp; return the seconds."""
    left = iter(range(n))
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=1.5)
    headers = {"Content-Type": "text/plain; charset=utf-8", "X-From": "benchmark", "Idempotency-Key": '"x"'}

    async def one(session: aiohttp.ClientSession) -> None:
        for _ in left:
            async with session.post(url, data=BODY.encode(), headers=headers, allow_redirects=False) as answer:
                await answer.read()

    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
        began_s = time.monotonic()
        await asyncio.gather(*[one(session) for _ in range(side_by_side)])
        return time.monotonic() - began_s


def alternate(rounds: int, n: int, bare: Callable[[], float], worker: Callable[[], float]) -> dict[str, Any]:
    """Measure pairs, the one that comes first changing, after one that does not count.

    Processor time is that of this process with all its threads; it tells more than time where the machine is shared.
    """
    pairs: list[tuple[float, float]] = []
    cpu: list[tuple[float, float]] = []
    for number in range(rounds + 1):
        first, second = (bare, worker) if number % 2 else (worker, bare)
        took: dict[Callable[[], float], float] = {}
        used: dict[Callable[[], float], float] = {}
        for measured in (first, second):
            before = time.process_time()
            took[measured] = measured()
            used[measured] = (time.process_time() - before) / n * 1e6
        for name, one in (("bare", bare), ("worker", worker)):
            console.print(f"{name}: {n / took[one]:,.0f}/s, {used[one]:.1f} µs of the processor each")
        pairs.append((took[bare], took[worker]))
        cpu.append((used[bare], used[worker]))
    counted = pairs[1:]
    return {
        "n": n,
        "worker_per_s": round(n / statistics.median(worker_s for _, worker_s in counted)),
        "bare_per_s": round(n / statistics.median(bare_s for bare_s, _ in counted)),
        "ratio_to_bare": round(statistics.median(bare_s / worker_s for bare_s, worker_s in counted), 3),
        "ratios": [round(bare_s / worker_s, 3) for bare_s, worker_s in counted],
        "cpu_us_worker": round(statistics.median(worker_us for _, worker_us in cpu[1:]), 1),
        "cpu_us_bare": round(statistics.median(bare_us for bare_us, _ in cpu[1:]), 1),
    }


def measure(system: Rig, given: argparse.Namespace) -> dict[str, Any]:
    """Measure each kind."""
    figures: dict[str, Any] = {}
    default = system.settings.worker
    lane = TopicNames(system.settings.kafka.topic_prefix).executions("default")
    if given.noop_n:
        topic = "bench-noop"
        system.create_like(lane, topic)
        write_executions(system, topic, given.noop_n, HandlerTarget("nothing", "bench"))
        limits = WorkerLimits(running_max=2 * BATCH, tenant_running_max=2 * BATCH)
        runners: dict[str, Callable[[], TargetRunner]] = {
            "loop": EndsAtOnce,
            "handler": lambda: HandlerRunner(does_nothing(), SystemClock(), None, output()),
        }
        for kind, runner in runners.items():
            figures[kind] = alternate(
                given.rounds, given.noop_n,
                lambda: bare_noop_round(system, topic, given.noop_n),
                partial(runner_round, system, topic, given.noop_n, runner, limits, given.profile),
            )  # fmt: skip
    if given.http_n:
        with http_server() as address:
            url = f"{address}/run"
            topic = "bench-http"
            system.create_like(lane, topic)
            write_executions(system, topic, given.http_n, HttpTarget(url, headers={"X-From": "benchmark"}, body=BODY))
            limits = WorkerLimits(running_max=default.running_max)

            def http_round() -> float:
                runner = HttpTargetRunner(SystemClock(), default.response_bytes_max, AddressRules(allow_private=True))
                return worker_round(system, topic, given.http_n, runner, limits, None)

            figures["http"] = alternate(
                given.rounds, given.http_n,
                lambda: asyncio.run(bare_http_round(url, given.http_n, default.running_max)),
                http_round,
            )  # fmt: skip
    return figures


def goals_of(figures: dict[str, Any]) -> list[Goal]:
    """Judge the shares."""
    shares = {kind: one["ratio_to_bare"] for kind, one in figures.items()}
    return [
        Goal(f"share of the bare loop, {kind}", f">= {goal}", shares[kind], shares[kind] >= goal)
        for kind, goal in GOALS.items()
        if kind in shares
    ]


def main() -> None:
    """Measure, and write the result and its plot."""
    words = parser("worker", __doc__)
    words.add_argument("--noop-n", type=int, default=50_000, help="executions that do nothing; 0: leave them out")
    words.add_argument("--http-n", type=int, default=5_000, help="HTTP requests; 0: leave them out")
    words.add_argument("--rounds", type=int, default=5, help="pairs that count")
    words.add_argument("--profile", type=Path, help="write here where the worker's loop spends its time; slows it")
    given = begin(words)
    sys.setswitchinterval(SWITCH_INTERVAL_S)  # as a worker's process does, and so is the next
    collect_rarely(WORKER_YOUNG_MAX)
    with rig() as system:
        figures = measure(system, given)
    goals = goals_of(figures)
    conclude("worker", given, figures, goals)
    bars = {f"{kind}, {what}": one[f"{what}_per_s"] for kind, one in figures.items() for what in ("bare", "worker")}
    write_bars(given.out.with_suffix(".svg"), "executions a second of one worker process", bars)


if __name__ == "__main__":
    main()
