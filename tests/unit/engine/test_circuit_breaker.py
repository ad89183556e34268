"""A breaker opens when nearly all fails, and closes when a probe succeeds."""

from __future__ import annotations

from tocsin.engine.circuit_breaker import BreakerLimits, BreakerState, CircuitBreaker

LIMITS = BreakerLimits(failures_min=10, failed_share=0.9, window_s=30, open_s=10)


def opened(at_s: float = 0.0) -> CircuitBreaker:
    breaker = CircuitBreaker(LIMITS)
    for _ in range(10):
        breaker.ended("old", True, at_s)
    assert breaker.state is BreakerState.OPEN
    return breaker


def test_it_opens_at_the_share_and_not_below() -> None:
    breaker = CircuitBreaker(LIMITS)
    for number in range(90):
        breaker.ended("x", number % 9 != 0, 1.0)
    assert breaker.state is BreakerState.CLOSED, "80 of 90 is less than nine of ten"
    for _ in range(10):
        breaker.ended("x", True, 1.0)
    assert breaker.state is BreakerState.OPEN


def test_few_failures_say_nothing_and_old_ones_are_forgotten() -> None:
    breaker = CircuitBreaker(LIMITS)
    for at_s in range(0, 900, 20):
        for _ in range(4):
            breaker.ended("x", True, float(at_s))
    assert breaker.state is BreakerState.CLOSED


def test_what_says_nothing_of_the_target_counts_for_nothing() -> None:
    breaker = CircuitBreaker(LIMITS)
    for _ in range(100):
        breaker.ended("x", None, 0.0)
    assert breaker.state is BreakerState.CLOSED and breaker.is_idle(0.0)


def test_one_probe_at_a_time_decides() -> None:
    breaker = opened()
    assert [breaker.admit(ref, 9.9) for ref in ("a", "b")] == [False, False]
    assert [breaker.admit(ref, 10.0) for ref in ("a", "b")] == [True, False]
    breaker.ended("a", True, 12.0)
    assert breaker.state is BreakerState.OPEN
    assert [breaker.admit("c", at_s) for at_s in (21.9, 22.0)] == [False, True]
    breaker.ended("c", False, 23.0)
    assert breaker.state is BreakerState.CLOSED
    assert breaker.admit("d", 23.0)
    breaker.ended("d", True, 23.0)
    assert breaker.state is BreakerState.CLOSED, "what it counted before is forgotten"


def test_what_was_started_before_it_opened_changes_nothing() -> None:
    breaker = opened()
    breaker.ended("old", False, 1.0)
    assert breaker.state is BreakerState.OPEN
    assert breaker.admit("probe", 10.0)
    breaker.ended("old", True, 11.0)
    breaker.ended("old", False, 11.0)
    assert breaker.state is BreakerState.HALF_OPEN


def test_a_probe_that_never_ends_is_followed_by_another() -> None:
    breaker = opened()
    assert breaker.admit("a", 10.0)
    assert not breaker.admit("b", 19.9)
    assert breaker.admit("b", 20.0)
    breaker.ended("a", False, 21.0)
    assert breaker.state is BreakerState.HALF_OPEN
    breaker.ended("b", False, 22.0)
    assert breaker.state is BreakerState.CLOSED


def test_a_probe_that_was_cancelled_is_followed_at_once() -> None:
    breaker = opened()
    assert breaker.admit("a", 10.0)
    breaker.ended("a", None, 11.0)
    assert breaker.admit("b", 11.0)
