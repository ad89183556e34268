"""The demonstration's verdict: from calls and states to counts."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.dev.demo.occurrences import Call, Created, Key, Kind
from tocsin.dev.demo.tally import AfterKill, Summary, after_kill, summarise

DUE = 1_000_000


def made(job_id: str, due_at: int = DUE, **fields: Any) -> Created:
    return Created(job_id, due_at, **{"kind": Kind.BURST, "answered_at": 0, **fields})


def call(at: int, ended_at: int | None = None, **fields: Any) -> Call:
    return Call(at, ended_at=at if ended_at is None else ended_at, **fields)


def tallied(
    jobs: list[Created],
    calls: dict[str, list[Call]],
    states: dict[str, str],
    refused: int = 0,
    records: dict[str, list[Call]] | None = None,
) -> Summary:
    def keyed(by_job: dict[str, Any]) -> dict[Key, Any]:
        return {(job_id, DUE): value for job_id, value in by_job.items()}

    return summarise(jobs, jobs, refused, keyed(calls), keyed(records or {}), keyed(states))


def test_a_summary_of_a_good_run() -> None:
    jobs = [made("a"), made("b", kind=Kind.SPREAD), made("c", kind=Kind.MESSAGE)]
    states = dict.fromkeys("abc", "SUCCEEDED")
    records = {"c": [call(1_004_000)]}
    summary = tallied(jobs, {"a": [call(1_002_000)], "b": [call(1_001_000)]}, states, records=records)
    assert summary == Summary(
        created=3,
        undecided=0,
        refused=0,
        due=3,
        recurring=0,
        fired=3,
        succeeded=3,
        failed=0,
        received=3,
        calls=3,
        repeated=0,
        unmarked=0,
        messages_repeated=0,
        early=0,
        lost=0,
        created_late=0,
        lateness_ms={Kind.BURST: (2.0,), Kind.SPREAD: (1.0,), Kind.MESSAGE: (4.0,)},
    )
    assert summary.good


@pytest.mark.parametrize(
    ("calls", "states", "refused", "count"),
    [
        ([call(999_999)], {"a": "SUCCEEDED"}, 0, "early"),
        ([], {"a": "SUCCEEDED"}, 0, "lost"),
        ([Call(DUE)], {"a": "SUCCEEDED"}, 0, "lost"),  # begun and never answered
        ([call(DUE, DUE + 9, broken=True)], {"a": "SUCCEEDED"}, 0, "lost"),
        ([call(DUE)], {"a": "DEAD"}, 0, "failed"),
        ([call(DUE)], {"a": "SUCCEEDED"}, 1, "refused"),
        ([call(DUE)], {"a": "QUEUED"}, 0, "fired"),
        ([call(DUE)], {}, 0, "received"),
        ([call(DUE), call(DUE + 9)], {"a": "SUCCEEDED"}, 0, "unmarked"),
    ],
)
def test_what_makes_a_run_bad(calls: list[Call], states: dict[str, str], refused: int, count: str) -> None:
    summary = tallied([made("a")], {"a": calls} if calls else {}, states, refused)
    assert getattr(summary, count) == 1
    assert not summary.good


def test_a_message_that_comes_twice_makes_a_run_bad() -> None:
    jobs, records = [made("a", kind=Kind.MESSAGE)], {"a": [call(DUE), call(DUE, redelivered=True)]}
    summary = tallied(jobs, {}, {"a": "SUCCEEDED"}, records=records)
    assert summary.messages_repeated == 1
    assert not summary.good


def test_a_run_in_which_nothing_was_created_is_bad() -> None:
    assert not tallied([], {}, {}).good


def test_marked_repeats_are_counted_and_the_first_call_measures_the_lateness() -> None:
    calls = [call(1_003_000, 1_004_000, broken=True), call(1_009_000, redelivered=True)]
    summary = tallied([made("a")], {"a": calls}, {"a": "SUCCEEDED"})
    assert (summary.repeated, summary.unmarked, summary.calls, summary.received) == (1, 0, 2, 1)
    assert summary.lateness_ms == {Kind.BURST: (3.0,)}
    assert summary.good


def test_calls_that_nobody_owed_still_have_to_be_in_time_and_marked() -> None:
    stranger = {"z": [call(999_999), call(DUE)]}
    summary = tallied([made("a")], {"a": [call(DUE)], **stranger}, {"a": "SUCCEEDED"})
    assert (summary.received, summary.early, summary.unmarked) == (1, 1, 1)


def test_what_was_created_after_its_time_says_nothing_of_lateness() -> None:
    summary = tallied([made("a", answered_at=2_000_000)], {"a": [call(2_001_000)]}, {"a": "SUCCEEDED"})
    assert summary.created_late == 1
    assert summary.lateness_ms == {}


def slow(*job_ids: str) -> list[Created]:
    return [made(job_id, kind=Kind.SLOW) for job_id in job_ids]


def test_what_became_of_a_killed_workers_calls() -> None:
    calls = {
        ("ended", DUE): [call(1_000_000, 1_900_000)],
        ("reported late", DUE): [call(1_000_000, 1_950_000), call(6_000_000, 7_000_000, redelivered=True)],
        ("broken", DUE): [call(1_500_000, 2_500_000, broken=True), call(5_000_000, 6_000_000, redelivered=True)],
        ("never again", DUE): [call(1_600_000, 2_600_000, broken=True)],
        ("later", DUE): [call(4_000_000, 9_000_000)],
        ("another job", DUE): [call(3_500_000)],
    }
    jobs = slow("ended", "reported late", "broken", "later")
    assert after_kill(2_000_000, jobs, calls) == AfterKill(
        ended=2,
        under_way=1,
        to_come=1,
        again=2,
        marked=2,
        first_call_s=1.5,
        first_again_s=3.0,
        all_done_s=7.0,
    )
    assert after_kill(2_000_000, slow("ended", "never again"), calls).all_done_s is None
    assert after_kill(2_000_000, slow("unheard of"), {}) == AfterKill(0, 0, 1, 0, 0, None, None, None)


def test_a_repeat_without_the_mark_is_not_counted_as_marked() -> None:
    calls = {("a", DUE): [call(1_000_000, 3_000_000, broken=True), call(5_000_000)]}
    after = after_kill(2_000_000, slow("a"), calls)
    assert (after.again, after.marked) == (1, 0)
