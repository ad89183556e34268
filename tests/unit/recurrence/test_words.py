"""Expressions in words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.unit.recurrence.test_second_opinions import expressions
from tocsin.domain.recurrence import CronError, compile_cron, write_out
from tocsin.domain.recurrence.words import in_words


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("* * * * *", "Every minute"),
        ("* * * * * *", "Every second"),
        ("*/10 * * * * *", "Every 10 seconds"),
        ("30 2 * * *", "At 02:30"),
        ("15 30 2 * * *", "At 02:30:15"),
        ("0,30 9,17 * * MON-FRI", "At 09:00, 09:30, 17:00 and 17:30, on Monday to Friday"),
        ("@daily", "At 00:00"),
        ("@hourly", "At minute 0 of every hour"),
        ("@weekly", "At 00:00, on Sunday"),
        ("@yearly", "At 00:00, on the 1st, in January"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("*/7 * * * *", "Every 7th minute from 0 of every hour"),
        ("5/20 * * * *", "Every 20th minute from 5 of every hour"),
        ("*/5 9-17 * * *", "Every 5 minutes, in hours 9 to 17"),
        ("0-10/5,30 8-18/2 * * *", "Every 5th minute from 0 to 10 and 30, every 2nd hour from 8 to 18"),
        ("0 */4 * * *", "At minute 0, every 4 hours"),
        ("0 0 13 * FRI", "At 00:00, on the 13th or on Friday"),
        ("0 0 */2 * MON", "At 00:00, on every 2nd day of month from the 1st, if that is also on Monday"),
        ("0 0 L * ?", "At 00:00, on the last day of the month"),
        ("0 0 LW,15W * *", "At 00:00, on the last working day of the month and the working day nearest to the 15th"),
        ("0 0 ? * 5#3", "At 00:00, on the third Friday of the month"),
        ("0 0 * JAN,3-5 FRIL", "At 00:00, on the last Friday of the month, in January and March to May"),
        ("0 0 * * 0-7", "At 00:00, on Sunday to Sunday"),
        ("H H(2-4) * * *", "A minute that the job's id picks, an hour from 2 to 4 that the job's id picks"),
        ("0 0 1 */3 *", "At 00:00, on the 1st, in every 3rd month from January"),
    ],
)
def test_what_is_said(expression: str, words: str) -> None:
    compile_cron(expression, "UTC", job_id="t@1")
    assert in_words(expression) == words


@settings(max_examples=300, deadline=None)
@given(expressions)
def test_whatever_is_accepted_can_be_said(expression: str) -> None:
    try:
        compile_cron(expression, "UTC")
    except CronError:
        return
    words = in_words(expression)
    assert words[0].isupper() or words[0].isdigit()
    assert "  " not in words
    assert write_out(expression, "t@1") == expression
