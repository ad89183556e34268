"""Plans against the daemon's loop, and against the definition of each policy, where clocks change."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.unit.recurrence.daemon import Daemon, window_around
from tests.unit.recurrence.expressions import expression
from tests.unit.recurrence.pairs import backward, disagreement, forward, pairs, walls_about
from tests.unit.recurrence.test_properties import GAPS, OVERLAPS
from tests.unit.recurrence.zone_files import ODD_ZONES, offset_s, transitions, zone_file
from tocsin.domain.instants import SECOND
from tocsin.domain.recurrence import CronError, DstPolicy, compile_cron

SEEDS = (1, 2, 3, 4)
POLICIES = [DstPolicy(gap, overlap) for gap in GAPS for overlap in OVERLAPS]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_fires_as_the_daemon_does_in_both_directions(seed: int) -> None:
    fires = 0
    for zone, _, job, window in pairs(150, seed):
        expected = Daemon(job, window).run()
        fires += len(expected)
        assert disagreement(zone, job, window, expected, DstPolicy()) is None
    assert fires > 1000, "the expressions hardly ever match: nothing was judged"


@pytest.mark.parametrize("dst", POLICIES, ids=str)
def test_a_fixed_time_job_keeps_its_policy(dst: DstPolicy) -> None:
    judged = 0
    for zone, _, job, window in pairs(120, 5):
        if job.cadence:
            continue
        expected = Daemon(job, window).by_policy(dst.gap, dst.overlap)
        judged += len(expected)
        assert disagreement(zone, job, window, expected, dst) is None
    assert judged > 200


@pytest.mark.parametrize("dst", POLICIES, ids=str)
def test_a_cadence_job_asks_for_no_policy(dst: DstPolicy) -> None:
    judged = 0
    for zone, _, job, window in pairs(60, 6):
        if not job.cadence:
            continue
        expected = Daemon(job, window).run()
        judged += len(expected)
        assert disagreement(zone, job, window, expected, dst) is None
    assert judged > 200


def test_the_loop_and_the_definition_of_the_default_policy_agree() -> None:
    for _, _, job, window in pairs(60, 8):
        if not job.cadence:
            assert Daemon(job, window).run() == Daemon(job, window).by_policy("shift", "first")


@pytest.mark.parametrize("zone", ["America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Europe/London"])
def test_seconds_follow_the_same_rule(zone: str) -> None:
    rng = random.Random(zone)
    fires = 0
    for at_s in rng.sample(transitions(zone), 2):
        window = window_around(zone, at_s, 4 * 3600, step_s=1, margin_s=4 * 3600)
        for _ in range(8):
            job = expression(rng, walls_about(window), with_seconds=True)
            expected = Daemon(job, window).run()
            fires += len(expected)
            assert disagreement(zone, job, window, expected, DstPolicy()) is None
    assert fires > 100


def test_any_instant_may_be_asked_from() -> None:
    """Not only occurrences: instants between them, within the repeated hour, off the second by a microsecond."""
    rng = random.Random(9)
    for zone, at_s, job, window in pairs(100, 9):
        fired = [at * SECOND for at in Daemon(job, window).run()]
        try:
            plan = compile_cron(job.text, zone)
        except CronError:
            continue
        for _ in range(20):
            at = (at_s + rng.randint(-7200, 7200)) * SECOND + rng.choice((-1, 0, 1, rng.randrange(SECOND)))
            later = [fire for fire in fired if fire > at]
            earlier = [fire for fire in fired if fire < at]
            if later:
                assert plan.next_after(at) == later[0], (job.text, zone, at)
            if earlier:
                assert plan.previous_before(at) == earlier[-1], (job.text, zone, at)


def test_times_in_and_at_the_edges_of_a_jump_are_in_the_sample() -> None:
    edges = Counter[str]()
    for _, _, job, window in pairs(120, 5):
        low, high = sorted(window.walls[len(window.walls) // 2 - 1 :][:2])
        daemon = Daemon(job, window)
        if not job.cadence:
            edges.update(["first"] * daemon.matches(low + 1) + ["last"] * daemon.matches(high - 1))
            edges.update(["before"] * daemon.matches(low) + ["behind"] * daemon.matches(high))
    assert min(edges[edge] for edge in ("first", "last", "before", "behind")) >= 3, edges


def test_every_odd_zone_and_kind_of_jump_is_in_the_sample() -> None:
    jumps = set()
    for name in ODD_ZONES:
        zone = zone_file(name)
        jumps |= {(offset_s(zone, at) - offset_s(zone, at - 1)) // 60 for at in transitions(name)}
    assert {-60, -30, 60, 30, 24 * 60, -180, 180, 120, -120} <= jumps


def test_forward_and_backward_are_asked_over_the_same_window() -> None:
    zone, _, job, window = next(item for item in pairs(50, 10) if len(Daemon(item[2], item[3]).run()) > 5)
    plan = compile_cron(job.text, zone)
    assert forward(plan, window) == backward(plan, window) != []
