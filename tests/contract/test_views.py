"""The contract of the views' writer and reader, held against the fake and against the real thing."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tocsin.adapters.memory.views import MemoryViews
from tocsin.domain.definitions import JobDefinition
from tocsin.domain.errors import InvalidInput, NotFound
from tocsin.domain.executions import AttemptError, AttemptHead, ExecutionEvent
from tocsin.domain.ids import execution_id, triggered_execution_id, version_of
from tocsin.domain.instants import DAY, MINUTE, SECOND, parse_rfc3339
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.schedules import RunAt
from tocsin.domain.targets import HttpTarget
from tocsin.ports.views import DispatchSeen, EventSeen, JobSeen, Run, RunPlace, ViewReader, ViewWriter

NOON = parse_rfc3339("2026-10-11T12:00:00Z")
CREATED = version_of(1, 3)


@dataclass
class Views:
    """Both sides of the views over the same tables."""

    writer: ViewWriter
    reader: ViewReader

    def list_jobs(self, tenant_id: str, limit: int, token: str | None = None) -> tuple[list[bytes], str | None]:
        page = asyncio.run(self.reader.list_jobs(tenant_id, limit, token))
        return list(page.snapshots), page.next_token

    def all_jobs(self, tenant_id: str, limit: int) -> list[bytes]:
        """Follow the page tokens to the end."""
        found, token = self.list_jobs(tenant_id, limit)
        while token is not None:
            more, token = self.list_jobs(tenant_id, limit, token)
            assert more, "a page after a token is not empty"
            found += more
        return found

    def list_runs(
        self, job_id: str, newest: int, oldest: int, limit: int = 100, after: RunPlace | None = None
    ) -> list[Run]:
        return asyncio.run(self.reader.list_runs(job_id, newest, oldest, limit, after))

    def read_run(self, execution: str) -> list[Run]:
        return asyncio.run(self.reader.read_run(execution))


@pytest.fixture(params=["memory", pytest.param("cassandra", marks=pytest.mark.real)])
def views(request: pytest.FixtureRequest) -> Iterator[Views]:
    if request.param == "memory":
        memory = MemoryViews()
        yield Views(memory, memory)
    else:
        from tocsin.adapters.cassandra.batches import BatchBounds
        from tocsin.adapters.cassandra.view_reader import CassandraViewReader
        from tocsin.adapters.cassandra.view_writer import CassandraViewWriter

        connection = request.getfixturevalue("connection")
        yield Views(CassandraViewWriter(connection, BatchBounds(mixed_rows_max=7)), CassandraViewReader(connection))


def new_id(prefix: str = "job") -> str:
    return f"{prefix}_{uuid.uuid4().hex}"


def job(tenant_id: str, job_id: str, version: int = 1, state: JobState = JobState.ACTIVE) -> JobSeen:
    definition = JobDefinition(RunAt(NOON), HttpTarget("https://example.test/run"))
    made = Job(job_id, tenant_id, version, 1, state, NOON, NOON, definition, None)
    return JobSeen(made, f"{job_id} {version}".encode())


def head(job_id: str, at: int = NOON, attempt: int = 1, token: int = 5, losses: int = 0) -> AttemptHead:
    return AttemptHead(attempt, token, losses, execution_id(job_id, CREATED, at), job_id, "acme", CREATED, at, at + 7)


def dispatch(of: AttemptHead) -> DispatchSeen:
    """What a dispatch says; its instant falls as the token grows, so that only the token can decide between two."""
    return DispatchSeen(of, of.due_at + 1_000 - of.token, "default")


def event(of: AttemptHead, offset: int, state: str = "SUCCEEDED", **fields: Any) -> EventSeen:
    made = ExecutionEvent(of, state, published_at=of.due_at + 1, decided_at=of.due_at + offset)
    return EventSeen(replace(made, **fields), version_of(1, offset))


FAILURE: dict[str, Any] = {
    "attempt_state": "TIMED_OUT",
    "reason": "attempts_used_up",
    "started_at": NOON + 10,
    "finished_at": NOON + 20,
    "worker_id": "worker-7",
    "redelivered": True,
    "error": AttemptError("status", "503 Service Unavailable", 503),
    "result": "an answer – with ünicode",
    "redrives": 2,
}


def test_a_dispatch_alone_is_a_queued_run_with_what_the_dispatch_says(views: Views) -> None:
    sent = head(new_id(), token=9, losses=2)
    views.writer.write([], [dispatch(sent)], [])
    (run,) = views.read_run(sent.execution_id)
    assert (run.state, run.lane, run.token, run.attempt) == ("QUEUED", "default", 9, 1)
    assert (run.execution_id, run.job_id, run.tenant_id, run.job_version) == (
        sent.execution_id,
        sent.job_id,
        "acme",
        CREATED,
    )
    assert (run.scheduled_for, run.due_at, run.published_at) == (sent.scheduled_for, sent.due_at, sent.due_at + 991)
    assert run.redelivered
    assert (run.attempt_state, run.decided_at, run.started_at, run.error_class) == (None, None, None, None)


def test_an_event_alone_is_a_run_with_all_that_the_event_says(views: Views) -> None:
    told = event(head(new_id()), 4, "DEAD", **FAILURE)
    views.writer.write([], [], [told])
    (run,) = views.read_run(told.event.head.execution_id)
    of = told.event.head
    assert run == Run(
        execution_id=of.execution_id,
        job_id=of.job_id,
        tenant_id="acme",
        attempt=1,
        token=5,
        state="DEAD",
        attempt_state="TIMED_OUT",
        reason="attempts_used_up",
        job_version=CREATED,
        scheduled_for=of.scheduled_for,
        due_at=of.due_at,
        published_at=of.due_at + 1,
        started_at=NOON + 10,
        finished_at=NOON + 20,
        decided_at=of.due_at + 4,
        worker_id="worker-7",
        redelivered=True,
        error_class="status",
        error_message="503 Service Unavailable",
        error_status=503,
        result="an answer – with ünicode",
        retry_at=None,
        skipped_upto=None,
        skipped_count=None,
        lane=None,
        redrives=2,
    )


def test_a_redriven_attempt_says_so_from_its_dispatch_on(views: Views) -> None:
    sent = head(new_id(), attempt=4)
    views.writer.write([], [dispatch(sent)._replace(redrives=2)], [])
    (queued,) = views.read_run(sent.execution_id)
    views.writer.write([], [], [event(sent, 4, redrives=2)])
    (ended,) = views.read_run(sent.execution_id)
    assert [(run.state, run.redrives) for run in (queued, ended)] == [("QUEUED", 2), ("SUCCEEDED", 2)]


def test_a_scheduled_retry_says_when_and_a_skipped_range_how_far(views: Views) -> None:
    failed, skipped = head(new_id()), head(new_id())
    events = [
        event(failed, 1, "RETRY_SCHEDULED", **FAILURE, retry_at=NOON + 30 * SECOND),
        event(skipped, 2, "SKIPPED", reason="misfire", skipped_upto=NOON + 5 * MINUTE, skipped_count=2**40),
    ]
    views.writer.write([], [dispatch(failed)], events)
    (run,) = views.read_run(failed.execution_id)
    assert (run.state, run.attempt_state, run.retry_at) == ("RETRY_SCHEDULED", "TIMED_OUT", NOON + 30 * SECOND)
    assert (run.skipped_upto, run.skipped_count) == (None, None)
    (run,) = views.read_run(skipped.execution_id)
    assert (run.state, run.reason, run.skipped_upto) == ("SKIPPED", "misfire", NOON + 5 * MINUTE)
    assert (run.skipped_count, run.retry_at) == (2**40, None)


@pytest.mark.parametrize("state", ["RUNNING", "RETRY_SCHEDULED"])
@pytest.mark.parametrize("dispatched_first", [True, False])
def test_an_attempt_dispatched_again_is_queued_again_until_more_is_known(
    views: Views, state: str, dispatched_first: bool
) -> None:
    job_id = new_id()
    first, second = head(job_id, token=5), head(job_id, token=6, losses=1)
    told = event(first, 1, state, **FAILURE, retry_at=NOON + SECOND)
    writes: list[tuple[list[DispatchSeen], list[EventSeen]]] = [([dispatch(second)], []), ([], [told])]
    for dispatches, events in writes if dispatched_first else reversed(writes):
        views.writer.write([], dispatches, events)
    (run,) = views.read_run(first.execution_id)
    assert (run.state, run.token, run.redelivered, run.published_at) == ("QUEUED", 6, True, NOON + 7 + 994)
    assert (run.attempt_state, run.started_at, run.worker_id, run.error_class, run.retry_at) == (None,) * 5
    views.writer.write([], [], [event(second, 2, "RUNNING", worker_id="worker-8")])
    assert [(run.state, run.worker_id) for run in views.read_run(first.execution_id)] == [("RUNNING", "worker-8")]


def test_an_end_stays_whatever_is_dispatched_after_it(views: Views) -> None:
    job_id = new_id()
    views.writer.write([], [dispatch(head(job_id, token=9))], [event(head(job_id, token=5), 1, "DEAD")])
    assert [run.state for run in views.read_run(execution_id(job_id, CREATED, NOON))] == ["DEAD"]


def test_attempts_of_one_execution_each_keep_what_became_of_them(views: Views) -> None:
    job_id = new_id()
    first, second = head(job_id, attempt=1, token=5), head(job_id, attempt=2, token=7)
    told = event(first, 1, "RETRY_SCHEDULED", **FAILURE, retry_at=NOON + SECOND)
    views.writer.write([], [dispatch(first), dispatch(second)], [told])
    assert [(run.attempt, run.state) for run in views.read_run(first.execution_id)] == [
        (1, "RETRY_SCHEDULED"),
        (2, "QUEUED"),
    ]


def test_a_run_triggered_by_hand_is_found_by_its_id(views: Views) -> None:
    job_id = new_id()
    by_hand = triggered_execution_id(job_id, CREATED, NOON, "cmd_" + "0" * 32)
    views.writer.write([], [dispatch(head(job_id)._replace(execution_id=by_hand)), dispatch(head(job_id))], [])
    assert [run.execution_id for run in views.read_run(by_hand)] == [by_hand]
    assert len(views.list_runs(job_id, NOON, NOON)) == 2


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_dispatches_and_events_make_the_same_run_in_any_order_and_twice(views: Views, order: tuple[int, ...]) -> None:
    job_id = new_id()
    first, second = head(job_id, token=5), head(job_id, token=6, losses=1)
    told = [
        ("dispatch", dispatch(first)),
        ("dispatch", dispatch(second)),
        ("event", event(first, 10, "DEAD", **FAILURE)),
        ("event", event(second, 11, "SUCCEEDED", attempt_state="SUCCEEDED", result="ok")),
    ]
    for number in (*order, *order):
        kind, seen = told[number]
        views.writer.write([], [seen] if kind == "dispatch" else [], [seen] if kind == "event" else [])  # type: ignore[list-item]
    (run,) = views.read_run(first.execution_id)
    assert (run.state, run.token, run.result, run.lane) == ("SUCCEEDED", 6, "ok", "default")
    # What the older event said, and the later one did not, is not left standing.
    assert (run.reason, run.worker_id, run.error_class, run.error_message, run.error_status) == (None,) * 5
    assert not run.redelivered


def test_of_two_dispatches_the_higher_token_is_shown_in_any_order(views: Views) -> None:
    for tokens in ([5, 6], [6, 5]):
        job_id = new_id()
        for token in tokens:
            views.writer.write([], [dispatch(head(job_id, token=token))], [])
        (run,) = views.read_run(execution_id(job_id, CREATED, NOON))
        assert (run.token, run.published_at) == (6, NOON + 7 + 994)


def test_an_event_of_a_later_incarnation_of_the_topics_wins_with_a_lower_offset(views: Views) -> None:
    of = head(new_id())
    later = EventSeen(event(of, 3, "SUCCEEDED").event, version_of(2, 3))
    views.writer.write([], [], [later])
    views.writer.write([], [], [event(of, 999, "DEAD")])
    assert [run.state for run in views.read_run(of.execution_id)] == ["SUCCEEDED"]


def test_a_run_has_its_attempts_oldest_first(views: Views) -> None:
    job_id = new_id()
    for attempt in (2, 1, 3):
        views.writer.write([], [dispatch(head(job_id, attempt=attempt, token=attempt))], [])
    assert [run.attempt for run in views.read_run(execution_id(job_id, CREATED, NOON))] == [1, 2, 3]


@pytest.mark.parametrize(
    "name", ["", "nonsense", "job.1", "job.x.y", "job.1.99999999999999", f"job.1.{10**30}", f"{'j' * 300}.1.2"]
)
def test_an_id_that_is_none_or_unknown_is_not_found(views: Views, name: str) -> None:
    with pytest.raises(NotFound):
        views.read_run(name)


def test_runs_come_newest_first_across_months_and_years(views: Views) -> None:
    job_id = new_id()
    times = [
        parse_rfc3339(text)
        for text in (
            "2027-01-01T00:00:00Z",
            "2026-12-31T23:59:59.999999Z",
            "2026-12-01T00:00:00Z",
            "2026-11-30T23:59:59Z",
            "2026-02-28T12:00:00Z",
            "2025-12-31T23:00:00Z",
            "2019-06-05T04:03:02Z",
        )
    ]
    heads = [head(job_id, at) for at in times]
    views.writer.write([], [dispatch(one) for one in reversed(heads)], [event(one, 1) for one in heads[::2]])
    views.writer.write([], [dispatch(head(new_id(), times[0]))], [])
    whole = views.list_runs(job_id, times[0], times[-1])
    assert [run.scheduled_for for run in whole] == times
    assert [run.state for run in whole] == ["SUCCEEDED", "QUEUED"] * 3 + ["SUCCEEDED"]
    assert [run.scheduled_for for run in views.list_runs(job_id, times[0], 0, limit=3)] == times[:3]
    assert [run.scheduled_for for run in views.list_runs(job_id, times[1], times[4])] == times[1:5]
    assert [run.scheduled_for for run in views.list_runs(job_id, times[1] - 1, times[3] + 1)] == times[2:3]
    assert views.list_runs(job_id, times[-1] - 1, 0) == []
    assert views.list_runs(job_id, times[3], times[2]) == []
    assert [run.scheduled_for for run in views.list_runs(job_id, 2**62, -1, limit=2)] == times[:2]


def test_of_one_nominal_time_the_latest_attempt_comes_first(views: Views) -> None:
    job_id = new_id()
    sent = [head(job_id, at, attempt=attempt) for at in (NOON, NOON + SECOND) for attempt in (1, 2)]
    views.writer.write([], [dispatch(one) for one in sent], [])
    found = [(run.scheduled_for - NOON, run.attempt) for run in views.list_runs(job_id, NOON + MINUTE, NOON)]
    assert found == [(SECOND, 2), (SECOND, 1), (0, 2), (0, 1)]


@pytest.mark.parametrize("limit", [1, 2, 4, 100])
def test_a_page_of_runs_goes_on_behind_a_place_also_within_one_nominal_time(views: Views, limit: int) -> None:
    job_id, old, first = new_id(), NOON - 40 * DAY, NOON - 70 * DAY
    sent = [head(job_id, at, attempt=attempt) for at in (NOON, NOON - 1, old, first) for attempt in (1, 2, 3)]
    by_hand = [triggered_execution_id(job_id, CREATED, NOON, f"cmd_{n}" + "0" * 31) for n in range(2)]
    sent += [one._replace(execution_id=execution) for one in sent[:2] for execution in by_hand]
    views.writer.write([], [dispatch(one) for one in sent], [])
    whole = views.list_runs(job_id, NOON, first)
    assert len(whole) == len(sent)
    places = [RunPlace(run.scheduled_for, run.execution_id, run.attempt) for run in whole]
    for number, place in enumerate(places):
        assert views.list_runs(job_id, NOON, first, limit, place) == whole[number + 1 :][:limit]
    between = RunPlace(NOON - 2, "x", 1)
    assert (
        views.list_runs(job_id, NOON, first, limit, between)
        == [run for run in whole if run.scheduled_for <= old][:limit]
    )
    assert views.list_runs(job_id, NOON - 1, old, 100, places[0]) == [w for w in whole if old <= w.scheduled_for < NOON]
    assert views.list_runs(job_id, NOON, old, 100, RunPlace(first, "x", 1)) == []


def test_a_job_without_runs_lists_none(views: Views) -> None:
    assert views.list_runs(new_id(), NOON, NOON - 400 * DAY) == []


@pytest.mark.parametrize("limit", [1, 7, 60, 1_000])
def test_pages_of_jobs_are_complete_and_without_doubles_among_many_tenants(views: Views, limit: int) -> None:
    tenants = [new_id("tenant") for _ in range(5)]
    count = 8 if limit == 1 else 60
    wanted = {
        tenant: {job(tenant, new_id()).snapshot: None for _ in range(count if n else 0)}
        for n, tenant in enumerate(tenants)
    }
    for tenant, snapshots in wanted.items():
        views.writer.write([job(tenant, snapshot.decode().split()[0]) for snapshot in snapshots], [], [])
    for tenant, snapshots in wanted.items():
        found = views.all_jobs(tenant, limit)
        assert len(found) == len(set(found))
        assert set(found) == set(snapshots)
    page, token = views.list_jobs(tenants[1], limit)
    assert len(page) == min(limit, count)
    assert (token is None) == (limit >= count)


def test_a_full_last_page_gives_no_token(views: Views) -> None:
    tenant = new_id("tenant")
    views.writer.write([job(tenant, new_id()) for _ in range(6)], [], [])
    page, token = views.list_jobs(tenant, 6)
    assert len(page) == 6
    assert token is None


def test_jobs_that_come_and_go_between_pages_disturb_no_other(views: Views) -> None:
    tenant = new_id("tenant")
    ids = [new_id() for _ in range(20)]
    views.writer.write([job(tenant, one) for one in ids], [], [])
    first, token = views.list_jobs(tenant, 8)
    seen = {snapshot.decode().split()[0] for snapshot in first}
    gone = sorted(set(ids) - seen)[0]
    last_seen = first[-1].decode().split()[0]
    views.writer.write([job(tenant, one, 2, JobState.DELETED) for one in (gone, last_seen)], [], [])
    rest: list[bytes] = []
    while token is not None:
        page, token = views.list_jobs(tenant, 8, token)
        rest += page
    assert {snapshot.decode().split()[0] for snapshot in rest} == set(ids) - seen - {gone}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_of_a_jobs_snapshots_the_latest_is_listed_in_any_order(views: Views, order: tuple[int, ...]) -> None:
    tenant, job_id = new_id("tenant"), new_id()
    for version in order:
        views.writer.write([job(tenant, job_id, 1 << 40 | version)], [], [])
    assert views.all_jobs(tenant, 10) == [f"{job_id} {1 << 40 | 2}".encode()]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_deleted_job_leaves_the_listing_in_any_order(views: Views, order: tuple[int, ...]) -> None:
    tenant, job_id = new_id("tenant"), new_id()
    told = [job(tenant, job_id, 1), job(tenant, job_id, 2), job(tenant, job_id, 3, JobState.DELETED)]
    for number in order:
        views.writer.write([told[number]], [], [])
    assert views.all_jobs(tenant, 10) == []


@pytest.mark.parametrize("token", ["", "nonsense", "MTowOg", "MTowOmpvYg", "é", "=" * 8, "A" * 5_000, "MToxNTo"])
def test_a_token_that_no_page_gave_is_refused_with_its_field(views: Views, token: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        views.list_jobs("acme", 10, token)
    assert [fault.field for fault in caught.value.faults] == ["page_token"]
    assert len(caught.value.faults[0].value) <= 120


def test_a_jobs_snapshot_is_read_as_it_was_written_and_the_highest_version_stays(views: Views) -> None:
    async def story() -> list[bytes | None]:
        reader, job_id = views.reader, new_id()
        seen = [await reader.read_job(job_id)]
        for version, snapshot in ((5, b"five"), (4, b"four"), (6, b"\x00\xff"), (7, None), (7, b"seven"), (8, b"")):
            await reader.write_job(job_id, version, snapshot)
            seen.append(await reader.read_job(job_id))
        return seen

    assert asyncio.run(story()) == [None, b"five", b"five", b"\x00\xff", None, None, b""]


def test_a_reader_serves_many_at_once_and_one_loop_after_another(views: Views) -> None:
    async def story() -> None:
        ids = [new_id() for _ in range(50)]
        await asyncio.gather(*(views.reader.write_job(one, 1, one.encode()) for one in ids))
        assert await asyncio.gather(*map(views.reader.read_job, ids)) == [one.encode() for one in ids]

    asyncio.run(story())
    asyncio.run(story())


def test_a_large_mixed_write_is_filed_whole(views: Views) -> None:
    tenant = new_id("tenant")
    jobs = [job(tenant, new_id()) for _ in range(100)]
    big = event(head(new_id()), 1, "DEAD", result="x" * 60_000)
    heads = [head(new_id(), NOON + n * DAY) for n in range(100)]
    views.writer.write(jobs, [dispatch(one) for one in heads], [*(event(one, 2) for one in heads), big])
    assert len(views.all_jobs(tenant, 1_000)) == 100
    for one in heads:
        assert [(run.state, run.lane) for run in views.read_run(one.execution_id)] == [("SUCCEEDED", "default")]
    assert views.read_run(big.event.head.execution_id)[0].result == "x" * 60_000


def test_an_empty_write_changes_nothing_and_a_ping_is_answered(views: Views) -> None:
    tenant, one = new_id("tenant"), head(new_id())
    views.writer.write([job(tenant, one.job_id)], [dispatch(one)], [])
    before = (views.all_jobs(tenant, 10), views.read_run(one.execution_id))
    views.writer.write([], [], [])
    assert asyncio.run(views.reader.ping()) is None
    assert (views.all_jobs(tenant, 10), views.read_run(one.execution_id)) == before
    assert len(before[0]) == len(before[1]) == 1
