"""How long a target asks to be left alone (RFC 9110, section 10.2.3)."""

from __future__ import annotations

import pytest

from tocsin.adapters.targets.answers import judge_answer, retry_after_s
from tocsin.domain.instants import SECOND
from tocsin.domain.policies import RETRY_S_MAX, RetryPolicy
from tocsin.domain.retries import retry_delay

NOW = 784_111_777 * SECOND + 250_000
"""Sun, 06 Nov 1994 08:49:37.25 GMT"""


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 59.75),
        ("Sun, 06 Nov 1994 09:50:37 +0100", 59.75),
        ("999999999", RETRY_S_MAX),
        ("9" * 5_000, RETRY_S_MAX),
        ("Fri, 31 Dec 9999 23:59:59 GMT", RETRY_S_MAX),
    ],
)
def test_seconds_and_dates_are_understood_and_capped(value: str, seconds: float) -> None:
    assert retry_after_s(value, NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [None, "", "abc", "-5", "+5", "1.5", "1e3", "nan", "inf", "1_000", "\u0665", "120, 60", "Sun, 99 Nov 1994",
     "Sun, 06 Nov 1994 08:48:37 GMT", "Sun, 06 Nov 99999 08:50:37 GMT"],
)  # fmt: skip
def test_junk_negative_numbers_and_the_past_say_nothing(value: str | None) -> None:
    assert retry_after_s(value, NOW) is None


def test_success_and_redirects_ask_for_nothing() -> None:
    assert judge_answer(200, "OK", None, "", "120", NOW)[1] is None
    redirect = judge_answer(302, "Found", "/x", "", "120", NOW)[1]
    assert redirect is not None
    assert redirect.retry_after_s is None


@pytest.mark.parametrize(("value", "wait_s"), [("120", 120), ("999999999", 600), ("-5", 30), ("abc", 30)])
def test_the_owner_waits_the_longer_of_backoff_and_what_was_asked_up_to_the_cap(value: str, wait_s: int) -> None:
    policy = RetryPolicy(max_attempts=5, backoff="fixed", base_s=30.0, max_s=600.0, jitter="none")
    error = judge_answer(429, "Too Many Requests", None, "", value, NOW)[1]
    assert error is not None
    assert retry_delay(policy, "x", 1, error.retry_after_s) == wait_s * SECOND
