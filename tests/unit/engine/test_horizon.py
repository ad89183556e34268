"""Which minutes are read when, and how far the cursor may go."""

from __future__ import annotations

from tocsin.domain.instants import MINUTE, SECOND
from tocsin.engine.horizon import Horizon, HorizonLimits


def test_reads_two_minutes_ahead_half_a_minute_before() -> None:
    horizon = Horizon(100, HorizonLimits(preload_minutes=2, lead_s=30, reads_max=10))
    assert horizon.begin(100 * MINUTE) == [100, 101]
    assert horizon.begin(100 * MINUTE + 29 * SECOND) == []
    assert horizon.begin(100 * MINUTE + 30 * SECOND) == [102]


def test_the_cursor_is_held_by_the_first_minute_that_is_not_loaded() -> None:
    horizon = Horizon(100, HorizonLimits(reads_max=10))
    horizon.begin(102 * MINUTE)
    assert horizon.loaded_upto == 100 * MINUTE
    horizon.loaded(101)
    assert horizon.loaded_upto == 100 * MINUTE, "minutes count in order"
    horizon.loaded(100)
    assert horizon.loaded_upto == 102 * MINUTE


def test_a_long_absence_is_read_in_bounded_bites() -> None:
    horizon = Horizon(0, HorizonLimits(reads_max=4))
    assert horizon.begin(10_000 * MINUTE) == [0, 1, 2, 3]
    assert horizon.begin(10_000 * MINUTE) == []
    horizon.loaded(2)
    assert horizon.begin(10_000 * MINUTE) == [4]


def test_past_minutes_count_as_begun_and_coming_ones_do_not() -> None:
    horizon = Horizon(100, HorizonLimits(preload_minutes=2, lead_s=30))
    horizon.begin(100 * MINUTE)
    assert horizon.has_begun(99) and horizon.has_begun(101) and not horizon.has_begun(102)
