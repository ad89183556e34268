"""What firing costs, in calls of functions: it does not grow with how much is due at once."""

from __future__ import annotations

import sys
from types import FrameType

from tocsin.adapters.avro import AvroCodec
from tocsin.domain import ids
from tocsin.domain.entries import Entry, Place
from tocsin.domain.executions import AttemptHead
from tocsin.domain.instants import MINUTE, SECOND, minute_of
from tocsin.domain.targets import HttpTarget
from tocsin.engine.arrivals import Arrivals
from tocsin.engine.dispatch_desk import Lanes
from tocsin.engine.shard_engine import EngineLimits, ShardEngine
from tocsin.engine.shard_state import ShardState
from tocsin.ports.schedule_store import BucketPage

CODEC = AvroCodec()
DUE = 29_335_500 * MINUTE
TARGET = HttpTarget("https://example.test/run")


def row(number: int) -> Entry:
    job_id = f"acme@job-{number}"
    execution_id = ids.execution_id(job_id, 7, DUE)
    head = AttemptHead(1, 0, 0, execution_id, job_id, "acme", 7, DUE, DUE)
    return Entry(DUE, job_id, DUE, 7, execution_id, "acme", "default", CODEC.encode_execution(head, TARGET))


def engine_with(rows: list[Entry]) -> ShardEngine:
    """Return an engine that has read all minutes up to that in which rows are due."""
    state = ShardState(0, 1, 1, Place.before(DUE - MINUTE), owner="former", successors_upto=Place.before(DUE - MINUTE))
    engine = ShardEngine(state, "owner", CODEC, Lanes({"default": 8}), EngineLimits(), 1)
    minutes = engine.step(DUE - 50 * SECOND, Arrivals()).bucket_reads
    pages = [BucketPage(0, minute, rows if minute == minute_of(DUE) else [], True) for minute in minutes]
    assert not engine.step(DUE - 40 * SECOND, Arrivals(completions=pages)).dispatched
    return engine


def calls_of_firing(count: int) -> int:
    """Return how many functions of Python are called by the step that fires so many one-offs."""
    engine = engine_with([row(number) for number in range(count)])
    calls = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    former = sys.getprofile()
    sys.setprofile(note)
    try:
        step = engine.step(DUE + SECOND, Arrivals())
    finally:
        sys.setprofile(former)
    assert len(step.dispatched_last) == count
    return calls


def test_firing_calls_no_more_for_each_where_more_is_due() -> None:
    few, many = calls_of_firing(200), calls_of_firing(1_600)
    assert many < 8.5 * few
