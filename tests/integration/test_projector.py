"""The projector on a real broker and store: everything committed is filed, once moved, restarted or poisoned."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.cassandra.migrations import create_keyspace, migrate
from tocsin.adapters.cassandra.session import Connection, StoreAddress, connect
from tocsin.adapters.cassandra.view_reader import CassandraViewReader
from tocsin.adapters.cassandra.view_writer import CassandraViewWriter
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.projection_log import KafkaProjectionLog, ProjectionBounds
from tocsin.adapters.kafka.projection_progress import KafkaProjectionProgress
from tocsin.adapters.memory.views import MemoryViews
from tocsin.devcluster import Endpoints
from tocsin.domain.definitions import JobDefinition
from tocsin.domain.executions import AttemptHead, ExecutionEvent
from tocsin.domain.fleet import DeadLetter
from tocsin.domain.ids import execution_id
from tocsin.domain.instants import SECOND, parse_rfc3339
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.letters import LetterId
from tocsin.domain.schedules import RunAt
from tocsin.domain.targets import HttpTarget
from tocsin.ports.views import ViewWriter
from tocsin.roles.projector.loop import ProjectorLoop

pytestmark = pytest.mark.real
WAIT_S = 90.0
CODEC = AvroCodec()
NOON = parse_rfc3339("2026-10-31T12:00:00Z")
TARGET = HttpTarget("https://example.test/run")
PARTITIONS = 2


class Meter:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.lags: dict[str, int] = {}

    def projected(self, kind: str, count: int) -> None:
        self.counts[kind] += count

    def lag(self, topic: str, records: int) -> None:
        self.lags[topic] = records

    def skipped(self, kind: str) -> None:
        self.counts[f"skipped {kind}"] += 1


class Bench:
    """Topics of its own, a transactional producer, and projectors as many as wanted."""

    def __init__(self, cluster: Endpoints, prefix: str, protocol: str) -> None:
        self.bootstrap = cluster.kafka_bootstrap
        self.names = TopicNames(f"{prefix}.")
        self.bounds = ProjectionBounds(batch_records_max=300, group_protocol=protocol, topics_refresh_s=0.5)
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        self.logs: list[KafkaProjectionLog] = []
        self.create(self.names.jobs, self.names.events, self.names.dead_letters, self.names.executions("default"))
        self.producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": prefix})
        self.producer.init_transactions(30)

    def create(self, *topics: str) -> None:
        for future in self.admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
            future.result(30)

    def projector(self, views: ViewWriter) -> tuple[ProjectorLoop, KafkaProjectionLog, Meter]:
        meter = Meter()
        log = KafkaProjectionLog(self.bootstrap, self.names, f"projector-{len(self.logs)}", self.bounds)
        self.logs.append(log)
        return ProjectorLoop(log, views, CODEC, meter, epoch=1), log, meter

    def produce(self, records: list[tuple[str, bytes]], abort: bool = False) -> None:
        """Produce values to topics in one transaction."""
        self.producer.begin_transaction()
        for number, (topic, value) in enumerate(records):
            self.producer.produce(topic, value, str(number).encode(), partition=number % PARTITIONS)
        if abort:
            self.producer.abort_transaction(30)
        else:
            self.producer.commit_transaction(30)

    def runs(self, job_ids: list[str], lane: str = "default", state: str = "SUCCEEDED") -> list[tuple[str, bytes]]:
        """Return a dispatch and an event for each job."""
        records = []
        for job_id in job_ids:
            head = AttemptHead(1, 3, 0, execution_id(job_id, 1, NOON), job_id, "acme", 1, NOON, NOON)
            value = CODEC.encode_execution(head, TARGET)
            event = ExecutionEvent(head, state, NOON, NOON + SECOND)
            records.append((self.names.executions(lane), value))
            records.append((self.names.events, CODEC.encode_event(CODEC.decode_execution(value).head_bytes, event)))
        return records

    def close(self) -> None:
        for log in self.logs:
            log.close()


@pytest.fixture(params=["consumer", "classic"])
def bench(cluster: Endpoints, unique: str, request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(cluster, unique, request.param)
    yield made
    made.close()


@pytest.fixture
def connection(cluster: Endpoints, unique: str) -> Iterator[Connection]:
    address = StoreAddress(cluster.cassandra_contact_points, cluster.cassandra_port, unique)
    create_keyspace(address, 1)
    opened = connect(address)
    migrate(opened)
    yield opened
    opened.close()


def step_until(enough: Callable[[], bool], *loops: ProjectorLoop) -> None:
    deadline = time.monotonic() + WAIT_S
    while not enough():
        assert time.monotonic() < deadline
        for loop in loops:
            loop.step(time.monotonic())


def new_ids(count: int) -> list[str]:
    return [f"job_{uuid.uuid4().hex}" for _ in range(count)]


def test_what_is_committed_is_filed_and_what_is_aborted_is_not(bench: Bench, connection: Connection) -> None:
    ids, aborted = new_ids(20), new_ids(5)
    definition = JobDefinition(RunAt(NOON), TARGET)
    jobs = [Job(one, "acme", 4, 1, JobState.ACTIVE, NOON, NOON, definition, None) for one in ids]
    deleted = replace(jobs[0], version=9, state=JobState.DELETED)
    bench.produce([(bench.names.jobs, CODEC.encode_job(job)) for job in [deleted, *jobs]])
    bench.produce(bench.runs(aborted), abort=True)
    bench.produce(bench.runs(ids))
    letter = DeadLetter("execution", "503", NOON, "reports", 0, 5, b"bytes", f"t{ids[0][4:]}", ids[0], "one")
    bench.produce([(bench.names.dead_letters, CODEC.encode_dead_letter(letter))])
    loop, log, meter = bench.projector(CassandraViewWriter(connection))
    step_until(lambda: meter.counts == {"job": 21, "execution": 20, "event": 20, "dead_letter": 1}, loop)
    reader = CassandraViewReader(connection)

    async def read() -> None:
        page = await reader.list_jobs("acme", 100, None)
        assert {CODEC.decode_job(snapshot).job_id for snapshot in page.snapshots} == set(ids[1:])
        for job_id in ids:
            (run,) = await reader.list_runs(job_id, NOON, NOON, 10)
            assert (run.state, run.lane, run.token) == ("SUCCEEDED", "default", 3)
        (filed,) = await reader.list_letters(f"t{ids[0][4:]}", LetterId(NOON + 1, 0, 0), NOON, 10)
        assert (await reader.read_letter(f"t{ids[0][4:]}", filed.letter_id)).letter == letter
        for job_id in aborted:
            assert await reader.list_runs(job_id, NOON, NOON, 10) == []

    asyncio.run(read())
    topics = {"jobs", "execution-events", "dead-letters", "executions.default"}
    # The markers of transactions stand behind the last records: the lag must come to 0 all the same.
    step_until(lambda: set(log.lag()) == topics and not any(log.lag().values()), loop)


def test_a_successor_goes_on_where_offsets_were_committed(bench: Bench) -> None:
    views = MemoryViews()
    bench.produce(bench.runs(new_ids(10)))
    loop, log, meter = bench.projector(views)
    step_until(lambda: meter.counts["event"] == 10 and meter.counts["execution"] == 10, loop)
    log.close()
    bench.logs.clear()
    bench.produce(bench.runs(new_ids(7)))
    loop, _log, meter = bench.projector(views)
    step_until(lambda: meter.counts["event"] >= 7 and meter.counts["execution"] >= 7, loop)
    assert meter.counts == {"event": 7, "execution": 7}


def test_nothing_is_lost_while_the_store_is_away_and_partitions_move(bench: Bench) -> None:
    views = MemoryViews()
    first_ids, second_ids = new_ids(30), new_ids(30)
    bench.produce(bench.runs(first_ids))
    one, one_log, _ = bench.projector(views)
    views.failing = True
    step_until(lambda: any(log_is_paused(one_log)), one)
    two, _two_log, _ = bench.projector(views)
    bench.produce(bench.runs(second_ids))
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        one.step(time.monotonic())
        two.step(time.monotonic())
    assert views.writes == 0
    views.failing = False

    async def known() -> int:
        found = [await views.list_runs(job_id, NOON, NOON, 10) for job_id in first_ids + second_ids]
        return sum(1 for runs in found for run in runs if run.state == "SUCCEEDED" and run.lane == "default")

    step_until(lambda: asyncio.run(known()) == 60, one, two)


def log_is_paused(log: KafkaProjectionLog) -> list[bool]:
    return [log._paused]


def test_a_lane_that_is_created_later_is_read_too(bench: Bench) -> None:
    views = MemoryViews()
    loop, _log, meter = bench.projector(views)
    bench.produce(bench.runs(new_ids(1)))
    step_until(lambda: meter.counts["execution"] == 1, loop)
    bench.create(bench.names.executions("pool.gpu"))
    (job_id,) = new_ids(1)
    bench.produce(bench.runs([job_id], lane="pool.gpu"))
    step_until(lambda: meter.counts["execution"] == 2, loop)
    (run,) = asyncio.run(views.list_runs(job_id, NOON, NOON, 10))
    assert run.lane == "pool.gpu"


def test_poison_is_counted_once_and_passed(bench: Bench) -> None:
    views = MemoryViews()
    names = bench.names
    topics = (names.jobs, names.events, names.dead_letters, names.executions("default"))
    bench.produce([(topic, b"poison") for topic in topics])
    bench.produce(bench.runs(new_ids(3)))
    loop, log, meter = bench.projector(views)
    kinds = ("job", "event", "execution", "dead_letter")
    wanted = {**{f"skipped {kind}": 1 for kind in kinds}, "event": 3, "execution": 3}
    step_until(lambda: meter.counts == wanted, loop)
    log.close()
    bench.logs.clear()
    bench.produce(bench.runs(new_ids(1)))
    loop, _log, meter = bench.projector(views)
    step_until(lambda: meter.counts["event"] == 1 and meter.counts["execution"] == 1, loop)
    assert meter.counts == {"event": 1, "execution": 1}


def test_whoever_waits_for_the_projectors_learns_when_all_is_filed(bench: Bench) -> None:
    """Ends include the markers of transactions, behind which no record comes, and what was aborted."""
    views = MemoryViews()
    progress = KafkaProjectionProgress(bench.bootstrap, bench.names, "waits")
    bench.produce(bench.runs(new_ids(5)))
    ends = progress.ends()
    assert {topic for topic, _ in ends} == {"execution-events", "executions.default"}
    assert progress.behind(ends) == {place: end for place, end in ends.items() if end > 0}, "nobody has filed anything"
    loop, log, _ = bench.projector(views)
    views.failing = True
    step_until(lambda: any(log_is_paused(log)), loop)
    for _ in range(20):
        loop.step(time.monotonic())
    assert progress.behind(ends), "what is read and not filed does not count"
    views.failing = False
    step_until(lambda: not progress.behind(ends), loop)
    bench.producer.begin_transaction()
    for topic, value in bench.runs(new_ids(3)):
        bench.producer.produce(topic, value, partition=0)
    bench.producer.flush(30)
    bench.producer.abort_transaction(30)
    later = progress.ends()
    assert any(later[place] > ends[place] for place in ends)
    step_until(lambda: not progress.behind(later), loop)
