"""The projector's loop over fakes: nothing is committed before it is filed, and no order of records matters."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.memory.projection_log import MemoryProjectionLog
from tocsin.adapters.memory.views import MemoryViews
from tocsin.domain.definitions import JobDefinition
from tocsin.domain.executions import AttemptError, AttemptHead, ExecutionEvent
from tocsin.domain.ids import execution_id
from tocsin.domain.instants import DAY, parse_rfc3339
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.schedules import RunAt
from tocsin.domain.targets import HttpTarget
from tocsin.ports.projection_log import ProjectedRecord
from tocsin.ports.views import Run
from tocsin.roles.projector.loop import ProjectorLimits, ProjectorLoop

CODEC = AvroCodec()
NOON = parse_rfc3339("2026-10-31T12:00:00Z")
TARGET = HttpTarget("https://example.test/run")
IDS = ("one", "two")
TENANT = "acme"


class CountingMeter:
    """Counts as the real one does."""

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
    """A loop with its fakes and a clock in the test's hand."""

    def __init__(self, records: list[ProjectedRecord], batch_records_max: int = 2_000) -> None:
        self.log = MemoryProjectionLog(records, batch_records_max)
        self.views = MemoryViews()
        self.meter = CountingMeter()
        self.now_s = 100.0
        self.start()

    def start(self) -> None:
        limits = ProjectorLimits(wait_max_s=0.1, retry_first_s=0.1, retry_max_s=5.0)
        self.loop = ProjectorLoop(self.log, self.views, CODEC, self.meter, 1, limits)

    def step(self, after_s: float = 10.0) -> int:
        self.now_s += after_s
        return self.loop.step(self.now_s)

    def drain(self) -> None:
        while self.log.committed < len(self.log.records):
            self.step()

    def picture(self) -> tuple[list[bytes], list[list[Run]]]:
        """Return all that a reader can see."""

        async def read() -> tuple[list[bytes], list[list[Run]]]:
            page = await self.views.list_jobs(TENANT, 100, None)
            runs = [await self.views.list_runs(job_id, NOON + 10 * DAY, 0, 100) for job_id in IDS]
            return list(page.snapshots), runs

        return asyncio.run(read())


def history() -> list[ProjectedRecord]:
    """What two jobs leave in the log: a changed and a deleted one, a redelivery, a second attempt, both verdicts."""
    records = []
    for number, job_id in enumerate(IDS):
        definition = JobDefinition(RunAt(NOON), TARGET)
        for version in (1, 2):
            job = Job(job_id, TENANT, version, 1, JobState.ACTIVE, NOON, NOON, definition, None)
            if version == 2 and job_id == "two":
                job = replace(job, state=JobState.DELETED)
            records.append(ProjectedRecord("jobs", number, version, NOON, CODEC.encode_job(job)))
        for at in (NOON, NOON + DAY):
            tokens = ((1, 1), (1, 2), (2, 3), (2, 4))
            heads = [
                AttemptHead(
                    attempt, token, int(token in (2, 4)), execution_id(job_id, 1, at), job_id, TENANT, 1, at, at
                )
                for attempt, token in tokens
            ]
            lane = [CODEC.encode_execution(head, TARGET) for head in heads]
            records += [
                ProjectedRecord("executions.default", 0, n, NOON + head.token, value)
                for n, (head, value) in enumerate(zip(heads, lane, strict=True))
            ]
            failed = ExecutionEvent(
                heads[0], "DEAD", NOON, NOON, reason="lost", error=AttemptError("status", "503", 503), result="no"
            )
            told = [failed, ExecutionEvent(heads[1], "SUCCEEDED", NOON, NOON, result="yes")]
            for offset, event in enumerate(told):
                head_bytes = CODEC.decode_execution(lane[offset]).head_bytes
                value = CODEC.encode_event(head_bytes, event)
                records.append(ProjectedRecord("execution-events", 0, 10 + offset, NOON, value))
    return records


HISTORY = history()


def expected() -> tuple[list[bytes], list[list[Run]]]:
    bench = Bench(HISTORY)
    bench.drain()
    return bench.picture()


def test_a_history_in_order_is_filed_and_committed() -> None:
    bench = Bench(HISTORY)
    assert bench.step() == len(HISTORY)
    assert bench.log.committed == len(HISTORY)
    snapshots, (runs_of_one, _) = bench.picture()
    assert [CODEC.decode_job(snapshot).version for snapshot in snapshots] == [2]
    assert [(run.attempt, run.state, run.token) for run in runs_of_one] == [
        (2, "QUEUED", 4),
        (1, "SUCCEEDED", 2),
        (2, "QUEUED", 4),
        (1, "SUCCEEDED", 2),
    ]
    assert bench.meter.counts == {"job": 4, "execution": 16, "event": 8}
    assert bench.step() == 0


@settings(max_examples=200, deadline=None)
@given(
    order=st.permutations(HISTORY),
    again=st.lists(st.sampled_from(HISTORY), max_size=20),
    batch=st.integers(1, 30),
    crashes=st.sets(st.integers(0, 40), max_size=5),
    outages=st.sets(st.integers(0, 40), max_size=5),
)
def test_any_interleaving_with_repeats_crashes_and_outages_gives_the_same_views(
    order: list[ProjectedRecord], again: list[ProjectedRecord], batch: int, crashes: set[int], outages: set[int]
) -> None:
    bench = Bench([*order, *again], batch)
    for step in range(200):
        bench.views.failing = step in outages
        bench.step()
        if step in crashes:
            bench.log.crash()
            bench.start()
        if bench.log.committed == len(bench.log.records):
            break
    assert bench.log.committed == len(bench.log.records)
    assert bench.picture() == expected()


def test_nothing_is_committed_while_the_store_is_away_and_the_same_batch_is_filed_later() -> None:
    bench = Bench(HISTORY, batch_records_max=5)
    bench.views.failing = True
    for _ in range(10):
        assert bench.step() == 0
        assert bench.log.committed == 0
        assert bench.log.paused
    bench.views.failing = False
    assert bench.step() == 5
    assert bench.log.committed == 5
    assert not bench.log.paused
    bench.drain()
    assert bench.picture() == expected()


def test_while_it_waits_for_the_store_it_goes_on_polling_and_asks_at_growing_pauses() -> None:
    bench = Bench(HISTORY)
    bench.views.failing = True
    asked = []
    writes = bench.views.write

    def watched(*args: object) -> None:
        asked.append(bench.now_s)
        writes(*args)  # type: ignore[arg-type]

    bench.views.write = watched  # type: ignore[method-assign, assignment]
    for _ in range(400):
        polls = bench.log.polls
        bench.step(after_s=0.05)
        assert bench.log.polls == polls + 1 or asked[-1] == bench.now_s
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert len(asked) < 12
    assert pauses == sorted(pauses)
    assert all(pause <= 5.1 for pause in pauses)


def test_records_that_mean_nothing_are_counted_committed_and_never_met_again() -> None:
    poison = ProjectedRecord("execution-events", 0, 3, NOON, b"poison")
    bench = Bench([poison, *HISTORY, poison, poison], batch_records_max=1)
    bench.drain()
    assert bench.meter.counts["skipped event"] == 3
    assert bench.picture() == expected()
    writes = bench.views.writes
    bench.step()
    assert bench.views.writes == writes


def test_the_lag_of_each_topic_is_told() -> None:
    bench = Bench(HISTORY, batch_records_max=1)
    bench.step()
    assert bench.meter.lags == {"jobs": 4, "executions.default": 16, "execution-events": 8}
    bench.drain()
    bench.step()
    assert bench.meter.lags == {"jobs": 0, "executions.default": 0, "execution-events": 0}
