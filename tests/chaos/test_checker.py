"""The checker finds what it is there to find."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.checker import check, standstill_s
from tests.chaos.history import SECOND, Call, Dispatch, Duty, Fault, History, Return, Skip

T = 1_000 * SECOND


def execution(job: str, at: int) -> str:
    return f"{job}.1.{at}"


def dispatch(job: str, at: int, attempt: int = 1, token: int = 5, losses: int = 0) -> Dispatch:
    return Dispatch(execution(job, at), job, at, at, attempt, token, losses, at)


def call(job: str, at: int, late: int = 1000, token: int = 5, redelivered: bool = False) -> Call:
    return Call(execution(job, at), 1, token, redelivered, at, at + late)


def good() -> History:
    """A recurring job with three windows and a one-off, all as they should be."""
    windows = [T, T + SECOND, T + 2 * SECOND]
    ran = [("tick", at) for at in windows] + [("once", T)]
    return History(
        duties=[Duty("tick", T, T + 2 * SECOND, SECOND), Duty("once", T, T)],
        dispatches=[dispatch(job, at) for job, at in ran],
        ends={execution(job, at): ["SUCCEEDED"] for job, at in ran},
        calls=[call(job, at) for job, at in ran],
    )


def test_a_good_history_has_no_violations() -> None:
    verdict = check(good())
    assert verdict.violations == {}
    assert (verdict.occurrences, verdict.executions, verdict.delivered_twice) == (4, 4, 0)
    assert verdict.lateness_ms == {"p50": 1.0, "p99": 1.0, "max": 1.0}


def lose_a_window(history: History) -> None:
    history.dispatches.pop(1)


def lose_a_job(history: History) -> None:
    history.dispatches.pop(3)


def never_end(history: History) -> None:
    history.ends.pop(execution("tick", T))


def end_twice(history: History) -> None:
    history.ends[execution("tick", T)].append("DEAD")


def publish_twice(history: History) -> None:
    history.dispatches.append(dispatch("tick", T, token=6))


def publish_the_same_token_twice(history: History) -> None:
    history.dispatches.append(dispatch("tick", T, losses=1))


def call_early(history: History) -> None:
    history.calls[0] = call("tick", T, late=-1)


def call_twice(history: History) -> None:
    history.calls.append(call("tick", T, late=2000))


def skip_what_must_not_be_skipped(history: History) -> None:
    history.dispatches.pop(1)
    history.skips.append(Skip("tick", T + SECOND, T + SECOND))


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        (lose_a_window, {"lost": 1}),
        (lose_a_job, {"lost": 1, "accepted_then_lost": 1}),
        (never_end, {"lost": 1}),
        (end_twice, {"ended_twice": 1}),
        (publish_twice, {"published_twice": 1}),
        (publish_the_same_token_twice, {"published_twice": 1}),
        (call_early, {"early": 1}),
        (call_twice, {"delivered_twice_unmarked": 1}),
        (skip_what_must_not_be_skipped, {"lost": 1}),
    ],
)
def test_each_harm_is_found(harm: Callable[[History], None], found: dict[str, int]) -> None:
    history = good()
    harm(history)
    verdict = check(history)
    assert verdict.violations == found
    assert set(found) <= set(verdict.examples)


def test_what_is_explained_is_no_violation() -> None:
    history = good()
    history.dispatches += [dispatch("tick", T, token=8, losses=1), dispatch("once", T, token=9)]
    history.returns.append(Return(execution("once", T), 1, 5))
    history.calls.append(call("tick", T, late=9000, token=8, redelivered=True))
    verdict = check(history)
    assert verdict.violations == {}
    assert verdict.delivered_twice == 1


def test_a_skip_that_is_allowed_and_told_is_counted() -> None:
    history = good()
    history.duties[0] = Duty("tick", T, T + 2 * SECOND, SECOND, may_skip=True)
    history.dispatches.pop(1)
    history.skips.append(Skip("tick", T, T + SECOND))
    verdict = check(history)
    assert verdict.violations == {}
    assert verdict.skipped == 1


def test_the_standstill_of_a_shard_is_its_longest_silence_around_the_fault_and_before_the_next() -> None:
    history = good()
    history.calls = [call("tick", T + at * SECOND) for at in (0, 1, 2, 9, 10, 14, 30)]
    fault = Fault("kill", "x", T + 2 * SECOND, T + 3 * SECOND)
    assert standstill_s(history, {"tick": 4, "once": 5}, fault, 12) == {4: 7.0}
    assert standstill_s(history, {"tick": 4, "once": 5}, fault, 60) == {4: 16.0}
    history.faults = [fault, Fault("other", "y", T + 12 * SECOND, T + 13 * SECOND)]
    assert standstill_s(history, {"tick": 4, "once": 5}, fault, 60) == {4: 7.0}
