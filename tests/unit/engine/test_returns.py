"""Returned work waits longer each time, and goes out again at a rate."""

from __future__ import annotations

from collections import Counter

import pytest

from tocsin.domain.executions import AttemptHead, AttemptReport, ReportKind
from tocsin.domain.instants import SECOND
from tocsin.engine.returns import Returns

NOW = 1_000 * SECOND


def returned(reason: str = "breaker", tenant: str = "acme", not_before: int | None = None) -> AttemptReport:
    head = AttemptHead(1, 3, 0, "j.1.2", "j", tenant, 1, 2, 2)
    return AttemptReport(head, b"", ReportKind.RETURNED, "w", started="no", reason=reason, not_before=not_before)


def test_what_comes_back_at_once_goes_out_at_a_rate() -> None:
    returns = Returns(per_s=100)
    wakes = [returns.again(returned(), 0, NOW)[0] for _ in range(5_000)]
    seconds = Counter(wake // SECOND for wake in wakes)
    assert min(wakes) == NOW + 10 * SECOND
    assert set(seconds.values()) == {100} and len(seconds) == 50


def test_no_rate_delays_beyond_the_longest_delay() -> None:
    returns = Returns(per_s=1)
    wakes = [returns.again(returned(), 0, NOW)[0] for _ in range(1_000)]
    assert max(wakes) == NOW + 300 * SECOND


def test_tenants_do_not_wait_for_one_another() -> None:
    returns = Returns(per_s=1)
    for _ in range(100):
        returns.again(returned(tenant="many"), 0, NOW)
    assert returns.again(returned(tenant="one"), 0, NOW) == (NOW + 10 * SECOND, 1)


def test_delays_double_and_a_stop_costs_nothing() -> None:
    returns = Returns(per_s=100)
    assert [returns.again(returned(), n, NOW) for n in (0, 1, 5)] == [
        (NOW + 10 * SECOND, 1),
        (NOW + 20 * SECOND, 2),
        (NOW + 300 * SECOND, 6),
    ]
    assert returns.again(returned("stop"), 4, NOW) == (NOW, 4)


@pytest.mark.parametrize(
    ("not_before", "expected"), [(NOW + 60 * SECOND, 60), (NOW - 10**15, 10), (NOW + 5 * SECOND, 10), (2**62, 300)]
)
def test_a_workers_word_lengthens_the_delay_up_to_the_longest(not_before: int, expected: int) -> None:
    wake_at, _ = Returns(per_s=100).again(returned(not_before=not_before), 0, NOW)
    assert wake_at == NOW + expected * SECOND


def test_the_memory_is_bounded_by_what_is_to_come() -> None:
    returns = Returns(per_s=1)
    for number in range(20_000):
        returns.again(returned(tenant=f"t{number % 50}"), 0, NOW + number * SECOND // 10)
    assert len(returns._taken) + len(returns._free) < 20_000


def test_while_the_work_of_many_tenants_comes_back_memory_is_gone_through_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When the targets of all fail at once, there is much to come, and nothing of it to be forgotten."""
    looks: list[int] = []
    tidy = Returns._tidy

    def counted(returns: Returns, present: int) -> None:
        looks.append(present)
        tidy(returns, present)

    monkeypatch.setattr(Returns, "_tidy", counted)
    returns = Returns(per_s=1)
    for number in range(300 * 40):
        returns.again(returned(tenant=f"t{number % 300}"), 0, NOW)
    assert len(returns._taken) == 300 * 40 and len(looks) < 5
    for number in range(20_000):
        returns.again(returned(tenant=f"t{number % 50}"), 0, NOW + (1_000 + number) * SECOND)
    assert len(returns._taken) + len(returns._free) < 2 * 300 * 40 * 2
