"""What one job asks to be told: at once, and then summed up once a gap."""

from __future__ import annotations

from tocsin.domain.alerts import Alert, AlertKind
from tocsin.engine import alert_gaps
from tocsin.engine.alert_gaps import AlertGaps


def skip(at: int, job: str = "a", count: int = 1, alert_on: str = "skip") -> Alert:
    return Alert(AlertKind.SKIPPED, at, "t", job, f"{job}.{at}", None, "overlap", count, alert_on)


def test_the_first_is_told_at_once_and_the_rest_together_when_the_gap_ends() -> None:
    gaps = AlertGaps(100)
    assert gaps.sift([skip(0)], 0) == [skip(0)]
    assert gaps.next_wake() is None
    assert gaps.sift([skip(1)], 1) == []
    assert gaps.sift([skip(2, count=3)], 2) == []
    assert (gaps.next_wake(), gaps.has_due(99), gaps.has_due(100)) == (100, False, True)
    [told] = gaps.sift([], 100)
    assert (told.at, told.count, told.execution_id, told.alert_on) == (100, 4, None, "skip")
    assert told.message == "4 since the last alert; the first: overlap"
    assert gaps.sift([skip(150)], 150) == [], "what was told then began the next gap"
    [told] = gaps.sift([], 200)
    assert (told.at, told.count, told.execution_id) == (200, 1, "a.150")
    assert not gaps.has_due(1_000)
    assert gaps.sift([skip(1_000)], 1_000) == [skip(1_000)]


def test_jobs_words_and_what_nobody_asked_for_are_apart() -> None:
    gaps = AlertGaps(100)
    unasked = Alert(AlertKind.DEAD_LETTER, 0, "t", "a")
    failures = [Alert(AlertKind.DEAD_LETTER, 0, "t", "a", f"e{n}", alert_on="failure") for n in range(2)]
    for now in (0, 1):
        assert gaps.sift([unasked, *failures], now) == [unasked, *failures]
    apart = [skip(1), skip(1, "b"), skip(1, alert_on="missed")]
    assert gaps.sift(apart, 1) == apart
    assert gaps.sift(apart, 2) == []
    assert gaps.flush(3) == [Alert(a.kind, 3, a.tenant_id, a.job_id, a.execution_id, None, a.message, 1, a.alert_on)
                             for a in apart]  # fmt: skip
    assert (gaps.flush(4), gaps.next_wake()) == ([], None)


def test_gaps_that_hold_nothing_wake_nobody() -> None:
    gaps = AlertGaps(100)
    gaps.sift([skip(0, "quiet")], 0)
    gaps.sift([skip(50)], 50)
    gaps.sift([skip(60)], 60)
    assert not gaps.has_due(120)
    assert gaps.next_wake() == 150
    assert gaps.has_due(150)


def test_beyond_so_many_jobs_the_oldest_gap_ends_early() -> None:
    gaps = AlertGaps(100)
    gaps.sift([skip(0, "oldest")], 0)
    gaps.sift([skip(1, "oldest")], 1)
    told = gaps.sift([skip(2, f"j{n}") for n in range(alert_gaps.JOBS_MAX)], 2)
    assert len(told) == alert_gaps.JOBS_MAX + 1
    assert (told[-1].job_id, told[-1].at) == ("oldest", 2)
    assert gaps.next_wake() is None
