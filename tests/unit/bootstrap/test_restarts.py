"""How long a supervisor waits before it starts again what died."""

from __future__ import annotations

from tocsin.bootstrap.restarts import RestartPolicy, Restarts


def test_waits_double_up_to_the_longest() -> None:
    restarts = Restarts(RestartPolicy(first_s=0.5, max_s=5.0, settled_s=30.0))
    assert [restarts.died(1.0) for _ in range(6)] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert restarts.total == 6


def test_a_settled_process_starts_afresh() -> None:
    restarts = Restarts(RestartPolicy(first_s=0.5, settled_s=30.0))
    restarts.died(1.0)
    restarts.died(1.0)
    assert restarts.died(30.0) == 0.5
    assert restarts.deaths == 1
    assert restarts.total == 3


def test_a_loop_is_several_deaths_in_a_row_and_ends_with_a_long_life() -> None:
    restarts = Restarts(RestartPolicy(loop_deaths=3, settled_s=30.0))
    seen = []
    for lived_s in (0.1, 0.1, 0.1, 99.0):
        restarts.died(lived_s)
        seen.append(restarts.looping)
    assert seen == [False, False, True, False]


def test_ten_thousand_deaths_do_not_overflow() -> None:
    restarts = Restarts()
    waits = {restarts.died(0.0) for _ in range(10_000)}
    assert max(waits) == restarts.policy.max_s
