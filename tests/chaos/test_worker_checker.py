"""The checker of workers under faults finds what it is there to find, and excuses only what a fault explains."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.history import SECOND, Call, Change, Dispatch, Duty, Fault, History, Report, Return
from tests.chaos.worker_checker import NOBODY, check

T = 1_000 * SECOND
KILLED, LIVING = 40_001, 40_002
JOBS = ("struck", "calm", "once")
ONCE = frozenset({"once"})


def execution(job: str) -> str:
    return f"{job}.1.{T}"


def call(job: str, port: int, at: int = T, token: int = 5, *, lasts_s: int = 20, redelivered: bool = False) -> Call:
    return Call(execution(job), 1, token, redelivered, T, at, at + lasts_s * SECOND, port)


def again(history: History, job: str, port: int, at: int, *, redelivered: bool = True) -> None:
    """Dispatch and call an execution once more, after its first attempt was lost."""
    history.dispatches.append(Dispatch(execution(job), job, T, T, 1, 9, 1, at))
    history.calls.append(call(job, port, at, 9, redelivered=redelivered))
    history.changes = [c._replace(token=9) if c.execution_id == execution(job) else c for c in history.changes]
    history.reports = [r._replace(token=9) if r.execution_id == execution(job) else r for r in history.reports]


def good() -> History:
    """Three executions of 20 s; the worker of one is killed after 10 s, and another calls again, marked."""
    history = History(
        duties=[Duty(job, T, T) for job in JOBS],
        dispatches=[Dispatch(execution(job), job, T, T, 1, 5, 0, T) for job in JOBS],
        calls=[call("struck", KILLED), call("calm", LIVING), call("once", LIVING)],
        reports=[Report(execution(job), 1, 5, "SUCCEEDED", None) for job in JOBS],
        changes=[Change(execution(job), 1, 5, "SUCCEEDED") for job in JOBS],
        ends={execution(job): ["SUCCEEDED"] for job in JOBS},
        faults=[Fault("kill_worker", "w", T + 10 * SECOND, T + 12 * SECOND, frozenset({KILLED}))],
    )
    again(history, "struck", LIVING, T + 12 * SECOND)
    return history


def test_a_repeat_after_a_kill_is_explained_and_counted() -> None:
    verdict = check(good(), ONCE)
    assert verdict.violations == {}
    assert (verdict.delivered_twice, verdict.delivered_twice_by_cause) == (1, {"kill_worker": 1})
    assert verdict.at_once_max == 3
    assert verdict.stale_reports == 0


def repeat_of_a_worker_that_lives(history: History) -> None:
    again(history, "calm", LIVING, T + 12 * SECOND)


def repeat_of_what_began_after_the_kill(history: History) -> None:
    history.calls[0] = call("struck", KILLED, T + 16 * SECOND)
    history.calls[-1] = call("struck", LIVING, T + 30 * SECOND, 9, redelivered=True)


def repeat_of_what_had_ended_long_before_the_kill(history: History) -> None:
    history.calls[0] = call("struck", KILLED, lasts_s=4)


def repeat_before_the_kill(history: History) -> None:
    history.calls[-1] = call("struck", LIVING, T + 9 * SECOND, 9, redelivered=True)


def rebalance_instead_of_a_kill(history: History) -> None:
    history.faults[0] = history.faults[0]._replace(name="rebalances", ports=frozenset())


def repeat_that_is_not_marked(history: History) -> None:
    history.calls[-1] = history.calls[-1]._replace(redelivered=False)


def repeat_at_most_once(history: History) -> None:
    history.calls[2] = call("once", KILLED)
    again(history, "once", LIVING, T + 12 * SECOND)


def end_by_a_stale_report(history: History) -> None:
    history.changes[0] = Change(execution("struck"), 1, 5, "SUCCEEDED")


def change_after_the_end(history: History) -> None:
    history.changes.append(Change(execution("calm"), 1, 5, "RUNNING"))


def go_back_to_an_older_token(history: History) -> None:
    history.changes[:0] = [Change(execution("struck"), 1, token, "RUNNING") for token in (9, 5)]


def never_dispatch(history: History) -> None:
    history.calls[1] = history.calls[1]._replace(token=6)


def never_end(history: History) -> None:
    history.ends.pop(execution("calm"))


def end_twice(history: History) -> None:
    history.ends[execution("calm")].append("DEAD")


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        (repeat_of_a_worker_that_lives, {"repeated_without_cause"}),
        (repeat_of_what_began_after_the_kill, {"repeated_without_cause"}),
        (repeat_of_what_had_ended_long_before_the_kill, {"repeated_without_cause"}),
        (repeat_before_the_kill, {"repeated_without_cause"}),
        (rebalance_instead_of_a_kill, {"repeated_without_cause"}),
        (repeat_that_is_not_marked, {"delivered_twice_unmarked"}),
        (repeat_at_most_once, {"at_most_once_repeated"}),
        (end_by_a_stale_report, {"stale_changed"}),
        (change_after_the_end, {"stale_changed"}),
        (go_back_to_an_older_token, {"stale_changed"}),
        (never_dispatch, {"called_without_dispatch"}),
        (never_end, {"lost"}),
        (end_twice, {"ended_twice"}),
    ],
)
def test_each_harm_is_found(harm: Callable[[History], None], found: set[str]) -> None:
    history = good()
    harm(history)
    verdict = check(history, ONCE)
    assert set(verdict.violations) == found
    assert found <= set(verdict.examples)
    assert (NOBODY in verdict.delivered_twice_by_cause) is ("repeated_without_cause" in found)


def test_late_words_without_effect_are_counted() -> None:
    history = good()
    history.reports += [
        Report(execution("struck"), 1, 5, "SUCCEEDED", None),
        Report(execution("calm"), 1, 5, "FAILED", None),
        Report(execution("calm"), 1, 5, "RETURNED", "predecessor"),
    ]
    verdict = check(history, ONCE)
    assert verdict.violations == {}
    assert verdict.stale_reports == 2


def test_a_retry_is_no_repeat_and_its_report_is_not_stale() -> None:
    history = good()
    history.dispatches.append(Dispatch(execution("calm"), "calm", T, T, 2, 8, 0, T + 30 * SECOND))
    history.calls.append(Call(execution("calm"), 2, 8, False, T, T + 30 * SECOND, T + 31 * SECOND, LIVING))
    history.changes[1:2] = [
        Change(execution("calm"), 1, 5, "RETRY_SCHEDULED"),
        Change(execution("calm"), 2, 8, "SUCCEEDED"),
    ]
    history.reports[1:2] = [
        Report(execution("calm"), 1, 5, "FAILED", None),
        Report(execution("calm"), 2, 8, "SUCCEEDED", None),
    ]
    verdict = check(history, ONCE)
    assert (verdict.violations, verdict.stale_reports, verdict.delivered_twice) == ({}, 0, 1)


def test_what_was_given_back_unstarted_may_go_out_again() -> None:
    history = good()
    history.returns.append(Return(execution("calm"), 1, 5))
    history.calls.pop(1)
    history.dispatches.append(Dispatch(execution("calm"), "calm", T, T, 1, 7, 0, T))
    history.calls.append(call("calm", LIVING, token=7))
    history.changes = [c._replace(token=7) if c.execution_id == execution("calm") else c for c in history.changes]
    assert check(history, ONCE).violations == {}
