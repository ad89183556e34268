"""Previews: the next times, and what is said of the clock at each of them."""

from __future__ import annotations

import random
from bisect import bisect_right

import pytest

from tocsin.domain.instants import DAY, SECOND, parse_rfc3339
from tocsin.domain.previews import TIMES_MAX, preview
from tocsin.domain.recurrence import CronError, DstPolicy, compile_cron
from tocsin.domain.recurrence.zones import zone_timeline


def told(expression: str, zone: str, after: str, n: int = 2, dst: DstPolicy | None = None) -> list[tuple[str, ...]]:
    shown = preview(expression, zone, parse_rfc3339(after), n, dst).as_json()
    return [(time["at"], *time["notes"]) for time in shown["times"]]


NEW_YORK = "America/New_York"
SPRING, AUTUMN = "2026-03-07T20:00:00Z", "2026-10-31T20:00:00Z"
FIRST = "the first of two times that the clock shows 01:30 that day"
SECOND_TIME = "the second of two times that the clock shows 01:30 that day"


@pytest.mark.parametrize(
    ("expression", "zone", "after", "dst", "first"),
    [
        ("30 2 * * *", NEW_YORK, SPRING, None,
         ("2026-03-08T03:00:00-04:00", "03:00, because 02:30 does not exist that day")),
        ("0,20,40 2 * * *", NEW_YORK, SPRING, None,
         ("2026-03-08T03:00:00-04:00", "03:00, because 02:00 and 02:20 and 02:40 do not exist that day")),
        ("30 2 * * *", NEW_YORK, SPRING, DstPolicy("skip"),
         ("2026-03-09T02:30:00-04:00", "before it, 02:30 on 2026-03-08 does not exist and does not count")),
        ("*/30 2 * * *", NEW_YORK, SPRING, None,
         ("2026-03-09T02:00:00-04:00", "before it, 02:00 and 02:30 on 2026-03-08 do not exist and do not count")),
        ("0 12 * * *", "Pacific/Apia", "2011-12-29T23:00:00Z", None,
         ("2011-12-31T00:00:00+14:00", "00:00, because 2011-12-30 12:00 does not exist that day")),
        ("30 1 * * *", NEW_YORK, AUTUMN, None, ("2026-11-01T01:30:00-04:00", FIRST)),
        ("30 1 * * *", NEW_YORK, AUTUMN, DstPolicy(overlap="second"), ("2026-11-01T01:30:00-05:00", SECOND_TIME)),
        ("30 * * * *", NEW_YORK, "2026-11-01T06:00:00Z", None, ("2026-11-01T01:30:00-05:00", SECOND_TIME)),
        ("30 3 * * *", NEW_YORK, SPRING, None, ("2026-03-08T03:30:00-04:00",)),
        ("0 2 * * *", "Asia/Kolkata", SPRING, None, ("2026-03-08T02:00:00+05:30",)),
    ],
)  # fmt: skip
def test_the_clock_is_explained(
    expression: str, zone: str, after: str, dst: DstPolicy | None, first: tuple[str, ...]
) -> None:
    assert told(expression, zone, after, dst=dst)[0] == first


def test_both_times_are_told_apart() -> None:
    found = told("30 1 * * *", NEW_YORK, AUTUMN, 3, DstPolicy(overlap="both"))
    assert [notes for _, *notes in found] == [[FIRST], [SECOND_TIME], []]


def test_a_note_is_there_exactly_where_the_wall_does_not_show_what_was_asked_for() -> None:
    rng = random.Random(1)
    noted = 0
    for _ in range(200):
        zone = rng.choice(
            ("Europe/London", "Australia/Lord_Howe", "America/Havana", "Africa/Cairo", "Antarctica/Troll")
        )
        hour, minute = rng.randrange(4), rng.choice((0, 15, 30, 45))
        change = rng.choice([at for at in zone_timeline(zone).starts if 10**9 < at < 2 * 10**9]) * SECOND
        shown = preview(f"{minute} {hour} * * *", zone, change - DAY, 3)
        for one in shown.times:
            clock = zone_timeline(zone)
            wall_s = one.at // SECOND + clock.offsets[bisect_right(clock.starts, one.at // SECOND) - 1]
            moved = wall_s % 86_400 != hour * 3600 + minute * 60
            assert moved == any("because" in note for note in one.notes)
            noted += moved
    assert noted > 10


def test_h_is_written_out_for_a_job_and_refused_without_one() -> None:
    shown = preview("H H * * *", "UTC", 0, 3, job_id="t@1")
    assert "H" not in shown.expression
    assert compile_cron(shown.expression, "UTC").next_after(0) == shown.times[0].at
    with pytest.raises(CronError, match="job id"):
        preview("H H * * *", "UTC", 0, 3)


def test_times_are_bounded_and_end_with_the_calendar() -> None:
    assert len(preview("* * * * *", "UTC", 0, 10**9).times) == TIMES_MAX
    assert len(preview("0 0 1 1 *", "UTC", parse_rfc3339("2197-06-01T00:00:00Z"), 10).times) == 2
