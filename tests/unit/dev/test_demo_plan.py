"""What the demonstration asks for."""

from __future__ import annotations

import pytest

from tocsin.dev.demo.occurrences import Created, Kind
from tocsin.dev.demo.plan import (
    BURST,
    BURST_AFTER_S_MAX,
    BURST_AFTER_S_MIN,
    CRON_EVERY_S,
    INTERVAL_S,
    MESSAGES_AMONG_SLOW,
    SLOW,
    SPREAD,
    Places,
    Wanted,
    burst_jobs,
    first_jobs,
    occurrences,
    slow_jobs,
)
from tocsin.domain.definitions import parse
from tocsin.domain.instants import SECOND
from tocsin.domain.schedules import Cron, Every, RunAt
from tocsin.domain.targets import HttpTarget, MessageTarget

NOW = 1_795_976_149_749_001
PLACES = Places("http://127.0.0.1:1/fired", "http://127.0.0.1:1/slow", "letters")


def test_the_thousand_are_due_in_one_whole_second_that_leaves_time_to_create_them() -> None:
    for rate in (0.0, 50.0, 100.0, 1e6):
        jobs = burst_jobs(NOW, rate)
        assert len(jobs) == BURST
        (due_at,) = {job.due_at for job in jobs}
        assert due_at % SECOND == 0
        ahead_s = (due_at - NOW) / SECOND
        assert BURST_AFTER_S_MIN <= ahead_s <= BURST_AFTER_S_MAX + 1
        if rate == 50.0:
            assert ahead_s > BURST / rate


def test_the_first_one_offs_are_due_one_after_another() -> None:
    due = [job.due_at for job in first_jobs(NOW) if job.kind is Kind.SPREAD]
    assert len(due) == SPREAD
    assert due == sorted(set(due))
    assert due[0] > NOW + SECOND


def test_slow_calls_and_messages_come_after_the_burst() -> None:
    burst_at = NOW // SECOND * SECOND
    jobs = slow_jobs(burst_at, 1_000)
    assert [job.kind for job in jobs].count(Kind.SLOW) == SLOW
    assert [job.kind for job in jobs].count(Kind.MESSAGE) == MESSAGES_AMONG_SLOW
    assert min(job.due_at for job in jobs) > burst_at + SECOND
    assert min(job.due_at for job in slow_jobs(burst_at, 20_000)) > burst_at + 20 * SECOND


def test_every_body_is_what_the_gateway_takes_and_fires_when_the_plan_says() -> None:
    wanted = first_jobs(NOW) + slow_jobs(NOW, 5)
    for job in wanted:
        definition = parse(job.body(PLACES))
        schedule, target = definition.schedule, definition.target
        if job.kind is Kind.CRON:
            assert isinstance(schedule, Cron)
            assert job.step == CRON_EVERY_S * SECOND
            assert job.due_at % job.step == 0
        elif job.kind is Kind.INTERVAL:
            assert isinstance(schedule, Every)
            assert schedule.every_s == INTERVAL_S
            assert schedule.anchor_at == job.due_at
        else:
            assert isinstance(schedule, RunAt)
            assert (schedule.at, job.step) == (job.due_at, 0)
        if job.kind is Kind.MESSAGE:
            assert isinstance(target, MessageTarget)
            assert target.topic == PLACES.topic
        else:
            assert isinstance(target, HttpTarget)
            assert target.url == (PLACES.slow_url if job.kind is Kind.SLOW else PLACES.quick_url)
    assert {job.kind for job in wanted} == set(Kind) - {Kind.BURST}
    assert parse(Wanted("x", Kind.BURST, NOW).body(PLACES)).schedule == RunAt(NOW)


@pytest.mark.parametrize(
    ("answered_at", "upto", "due"),
    [
        (50, 100, [100]),  # the grid's first lies ahead, and the end counts
        (99, 399, [100, 200, 300]),
        (100, 399, [200, 300]),  # due when the answer came: it may have been too early for the job
        (250, 299, []),
        (50, 99, []),
    ],
)
def test_what_a_recurring_job_owes(answered_at: int, upto: int, due: list[int]) -> None:
    job = Created("a", 100, Kind.CRON, answered_at)
    owed = occurrences(job, 100, upto)
    assert [one.due_at for one in owed] == due
    assert {(one.job_id, one.kind, one.answered_at) for one in owed} <= {("a", Kind.CRON, answered_at)}
