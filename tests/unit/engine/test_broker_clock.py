"""The owner's clock: held at the broker's, deaf to steps of the machine's, and honest about being off."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.instants import MILLISECOND, SECOND
from tocsin.engine.broker_clock import BrokerClock

WALL = 1_800_000_000 * SECOND


@given(
    ahead=st.integers(-2 * SECOND, 2 * SECOND),
    beats=st.lists(st.tuples(st.integers(1, 20_000), st.integers(1, 20_000)), min_size=1, max_size=30),
)
def test_is_never_ahead_of_the_broker_once_a_beat_came_back(ahead: int, beats: list[tuple[int, int]]) -> None:
    """``ahead``: how far our clock is ahead of the broker's; each beat takes so long there, and so long back."""
    clock, monotonic, latest = BrokerClock(WALL, 0), 0, 0
    for there, back in beats:
        sent = clock.local(monotonic)
        monotonic += there
        appended = (clock.local(monotonic) - ahead) // MILLISECOND * MILLISECOND
        monotonic += back
        clock.observe(sent, appended, clock.local(monotonic))
        now = clock.now(monotonic)
        assert now >= latest, "it never goes back"
        assert now <= max(latest, clock.local(monotonic) - max(0, ahead))
        latest = now
        monotonic += 5 * SECOND
        assert clock.now(monotonic) <= clock.local(monotonic) - max(0, ahead)
        off = clock.off_by()
        if off is not None:
            assert abs(ahead) > SECOND // 2 - 1


def test_says_that_it_is_off_and_that_it_no_longer_is() -> None:
    clock = BrokerClock(WALL, 0)
    assert clock.off_by() is None
    assert not clock.is_known(), "a clock that was never compared decides nothing"
    assert clock.now(0) == WALL
    clock.observe(WALL, WALL - 3 * SECOND, WALL + 10)
    assert clock.is_known()
    assert clock.now(0) < WALL - 2 * SECOND, "what was said before the comparison binds nobody"
    assert (clock.off_by() or 0) > 2 * SECOND
    for _ in range(12):
        clock.observe(WALL, WALL, WALL + 10)
    assert clock.off_by() is None


@given(drift_ppm=st.integers(-500, 500), beats=st.integers(1, 20), wait_s=st.integers(0, 60))
def test_a_clock_that_runs_fast_is_not_ahead_between_beats(drift_ppm: int, beats: int, wait_s: int) -> None:
    """The broker's time is the true one; ours starts right, and runs too fast or too slow."""
    clock = BrokerClock(WALL, 0)

    def monotonic(elapsed: int) -> int:
        return elapsed + elapsed * drift_ppm // 1_000_000

    for beat in range(beats):
        elapsed = beat * 5 * SECOND
        there = clock.local(monotonic(elapsed))
        clock.observe(there, WALL + elapsed, there)
    true = (beats - 1) * 5 * SECOND + wait_s * SECOND
    assert clock.now(monotonic(true)) <= WALL + true <= clock.at_most(monotonic(true))
    assert clock.off_by() is None
