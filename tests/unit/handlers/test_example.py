"""The example's handlers, tested as a user would test theirs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tocsin.domain.executions import ReportKind
from tocsin.handlers.loading import load_app
from tocsin.testing import run_handler

app = load_app(f"{Path(__file__).parents[3] / 'examples' / 'handler_app.py'}:app")


def test_a_reminder_is_sent() -> None:
    end = run_handler(
        app,
        "send-reminder",
        {"to": "ada", "day": "2026-10-11"},
        attempt=2,
        scheduled_for=datetime(2026, 10, 10, tzinfo=UTC),
    )
    assert (end.kind, end.result) == (ReportKind.SUCCEEDED, "told ada of 11 October (attempt 2)")


def test_primes_are_counted() -> None:
    found = [run_handler(app, "count-primes", below).result for below in (0, 2, 3, 100)]
    assert found == ['{"primes":0}', '{"primes":0}', '{"primes":1}', '{"primes":25}']


def test_a_card_is_charged_at_the_second_attempt_or_not_at_all() -> None:
    first = run_handler(app, "charge-card", {})
    assert first.error is not None and (first.error.error_class, first.error.retry_after_s) == ("retry", 0.1)
    assert run_handler(app, "charge-card", {}, attempt=2).kind is ReportKind.SUCCEEDED
    expired = run_handler(app, "charge-card", {"card": "expired"}, attempt=2)
    assert expired.error is not None and expired.error.error_class == "fail"
