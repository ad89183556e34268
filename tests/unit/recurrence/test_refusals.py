"""What is refused, where the fault is said to be, and that saying so takes no time."""

from __future__ import annotations

import time

import pytest

from tocsin.domain.errors import CallerError
from tocsin.domain.recurrence import CronError, DstPolicy, compile_cron
from tocsin.domain.recurrence.dialect import EXPRESSION_CHARS_MAX


def refusal(expression: object, job_id: str | None = None) -> CronError:
    with pytest.raises(CronError) as refused:
        compile_cron(expression, "UTC", job_id=job_id)  # type: ignore[arg-type]
    return refused.value


@pytest.mark.parametrize(
    ("expression", "position", "problem"),
    [
        ("60 * * * *", 0, "minute 60 is out of range"),
        ("* 24 * * *", 2, "hour 24 is out of range"),
        ("* * 0 * *", 4, "day-of-month 0 is out of range"),
        ("* * 32 * *", 4, "day-of-month 32 is out of range"),
        ("* * * 13 *", 6, "month 13 is out of range"),
        ("* * * 0 *", 6, "month 0 is out of range"),
        ("* * * * 8", 8, "day-of-week 8 is out of range"),
        ("60 * * * * *", 0, "second 60 is out of range"),
        ("0 60 * * * *", 2, "minute 60 is out of range"),
        ("1,2,99 * * * *", 4, "minute 99 is out of range"),
        ("1-99 * * * *", 2, "minute 99 is out of range"),
        ("*/0 * * * *", 2, "step 0 is out of range"),
        ("*/60 * * * *", 2, "step 60 is out of range"),
        ("* */24 * * *", 4, "step 24 is out of range"),
        ("* * 1-5/32 * *", 8, "step 32 is out of range"),
        ("* * * * */8", 10, "step 8 is out of range"),
        ("  61 * * * *", 2, "minute 61 is out of range"),
        ("30-10 * * * *", 0, "runs backwards"),
        ("* * * NOV-FEB *", 6, "runs backwards"),
        ("* * * * SAT-SUN", 8, "runs backwards"),
        ("* * * * 5-0", 8, "runs backwards"),
        ("1,,2 * * * *", 2, "empty item"),
        (",1 * * * *", 0, "empty item"),
        ("1, * * * *", 2, "empty item"),
        ("/5 * * * *", 0, "is not a value"),
        ("5/ * * * *", 1, "is not a value"),
        ("*/ * * * *", 1, "is not a value"),
        ("*/*/2 * * * *", 1, "is not a value"),
        ("*5 * * * *", 1, "is not a value"),
        ("*-5 * * * *", 1, "is not a value"),
        ("5- * * * *", 1, "is not a value"),
        ("1-2-3 * * * *", 3, "is not a value"),
        ("1--2 * * * *", 1, "is not a value"),
        ("+5 * * * *", 0, "is not a value"),
        ("-5 * * * *", 0, "is not a value"),
        ("1-1_0 * * * *", 3, "is not a value"),
        ("1.5 * * * *", 1, "is not a value"),
        ("0x5 * * * *", 1, "is not a value"),
        ("1e1 * * * *", 1, "is not a value"),
        ("MON * * * *", 0, "'MON' is not a minute"),
        ("* * * MON *", 6, "'MON' is not a month"),
        ("* * * * JAN", 8, "'JAN' is not a day-of-week"),
        ("* * * * MONDAY", 8, "is not a day-of-week"),
        ("* * * * MON-FRIDAY", 12, "is not a day-of-week"),
        ("R * * * *", 0, "is not a minute"),
        ("? * * * *", 0, "? stands only for"),
        ("* ? * * *", 2, "? stands only for"),
        ("* * ?,1 * *", 4, "? stands only for"),
        ("* * ?/2 * *", 4, "is not a value"),
        ("* * * ? *", 6, "? stands only for"),
        ("L * * * *", 0, "is not a minute"),
        ("* * W * *", 4, "is not a day-of-month"),
        ("* * 0W * *", 4, "day-of-month 0 is out of range"),
        ("* * 32W * *", 4, "day-of-month 32 is out of range"),
        ("* * 1-5W * *", 7, "is not a value"),
        ("* * L-3 * *", 4, "counted from the end"),
        ("* * L/2 * *", 4, "is not a day-of-month"),
        ("* * WL * *", 4, "is not a day-of-month"),
        ("* * 5L * *", 5, "is not a value"),
        ("* * 5#2 * *", 5, "is not a value"),
        ("* * * * L", 8, "names no weekday"),
        ("* * * * L5", 8, "wrong side"),
        ("* * * * 8L", 8, "day-of-week 8 is out of range"),
        ("* * * * XYZL", 8, "'XYZ' is not a day-of-week"),
        ("* * * * 5W", 9, "is not a value"),
        ("* * * * 5#0", 10, "weekday number 0"),
        ("* * * * 5#6", 10, "weekday number 6"),
        ("* * * * 8#1", 8, "day-of-week 8 is out of range"),
        ("* * * * 5#", 9, "is not a value"),
        ("* * * * #1", 8, "is not a value"),
        ("* * * * 1-5#2", 11, "is not a value"),
        ("* * * * 5#2/2", 9, "is not a value"),
        ("* * * * 5#2#3", 9, "is not a value"),
        ("* * * *", 7, "has 4 fields"),
        ("*", 1, "has 1 field"),
        ("* * * * * * *", 12, "has 7 fields"),
        ("0 0 1 1 * 2024 x y", 15, "has 8 fields"),
        ("", None, "is empty"),
        ("   \t ", None, "is empty"),
        ("@reboot", 0, "is not a macro"),
        ("@every 5m", 0, "is not a macro"),
        ("  @nightly", 2, "is not a macro"),
        ("@", 0, "is not a macro"),
        ("@daily *", 7, "stands alone"),
        ("* @daily * * *", 2, "is not a value"),
        ("0\u00a00 * * *", 1, "no meaning"),
        ("0 0 * * *\n", 9, "no meaning"),
        ("0 0 * *\r*", 7, "no meaning"),
        ("0 0 *\x00 * *", 5, "no meaning"),
        ("0 0 * *\u2003*", 7, "no meaning"),
        ("\u0663 0 * * *", 0, "no meaning"),
        ("\uff15 0 * * *", 0, "no meaning"),
        ("\u00b2 0 * * *", 0, "no meaning"),
        ("0 0 * * fr\u0131", 10, "no meaning"),
        ("0 0 * * \u017fun", 8, "no meaning"),
        ("0 0 * * \ud800", 8, "no meaning"),
        ("0 0 30 2 *", 4, "no date ever"),
        ("0 0 31 2 *", 4, "no date ever"),
        ("0 0 30-31 feb *", 4, "no date ever"),
        ("0 0 31 4,6,9,11 *", 4, "no date ever"),
        ("0 0 31W 2,4 *", 4, "no date ever"),
        ("0 0 30W 2 *", 4, "no date ever"),
        ("0 0 30 2 */7", 4, "no date ever"),
        ("0 0 */30 * 1#2", 4, "no date ever"),
        ("0 0 */30 2 1#2", 4, "no date ever"),
        ("0 0 LW * */7", 4, "no date ever"),
        ("5 0 0 31 6 *", 6, "no date ever"),
        (None, None, "is not a text"),
        (5, None, "is not a text"),
        (b"* * * * *", None, "is not a text"),
        (["*"], None, "is not a text"),
    ],
    ids=repr,
)
def test_the_fault_is_named_with_its_place_and_a_remedy(expression: object, position: int | None, problem: str) -> None:
    error = refusal(expression)
    assert problem in error.problem
    assert error.position == position
    assert error.remedy
    assert error.field == "cron"
    assert error.value == (expression if isinstance(expression, str) else "")
    assert len(str(error)) < 1000


@pytest.mark.parametrize(
    ("expression", "position", "problem"),
    [
        ("H(5-1) * * * *", 0, "runs backwards"),
        ("H(0-60) * * * *", 4, "minute 60 is out of range"),
        ("* * H(0-5) * *", 6, "day-of-month 0 is out of range"),
        ("H/0 * * * *", 2, "step 0 is out of range"),
        ("H/60 * * * *", 2, "step 60 is out of range"),
        ("H(1-5) /2 * * *", 7, "is not a value"),
        ("H( * * * *", 1, "is not a value"),
        ("H() * * * *", 1, "is not a value"),
        ("H-5 * * * *", 0, "'H' is not a minute"),
        ("5-H * * * *", 2, "'H' is not a minute"),
        ("HH * * * *", 0, "'HH' is not a minute"),
        ("* * HW * *", 4, "'HW' is not a day-of-month"),
        ("* * * * H#2", 9, "is not a value"),
        ("* * * * HL", 8, "is not a day-of-week"),
        ("0 0 H(30-31) 2 *", 4, "no date ever"),
    ],
)
def test_faults_of_h(expression: str, position: int, problem: str) -> None:
    error = refusal(expression, job_id="job")
    assert problem in error.problem
    assert error.position == position


@pytest.mark.parametrize("expression", ["H * * * *", "h * * * *", "1,H * * * *", "* * H * *", "* H(0-5)/2 * * *"])
def test_h_needs_a_job(expression: str) -> None:
    error = refusal(expression)
    assert "job id" in error.problem
    assert error.position == expression.lower().index("h")


def test_an_error_is_a_callers_and_turns_into_a_fault() -> None:
    error = refusal("61 * * * *")
    assert isinstance(error, CallerError)
    fault = error.fault("schedule.")
    assert fault.field == "schedule.cron"
    assert fault.problem.startswith("at character 1: minute 61")
    assert fault.value == "'61 * * * *'"


@pytest.mark.parametrize(
    ("dst", "value"),
    [(DstPolicy(gap="later"), "later"), (DstPolicy(overlap="never"), "never")],  # type: ignore[arg-type]
)
def test_unknown_policies_are_refused(dst: DstPolicy, value: str) -> None:
    with pytest.raises(CronError) as refused:
        compile_cron("0 0 * * *", "UTC", dst)
    assert refused.value.field == "dst"
    assert refused.value.value == value


@pytest.mark.parametrize(
    "expression",
    ["*" * 580_000, "9" * 5_000 + " * * * *", "* " * 300, "\u0663" * 257, "1," * 130 + "1 * * * *"],
    ids=lambda text: f"{len(text)} characters",
)
def test_long_expressions_are_refused_unread(expression: str) -> None:
    error = refusal(expression)
    assert error.problem == f"is longer than {EXPRESSION_CHARS_MAX} characters"
    assert len(str(error)) < 1000


DENSE = [
    "1," * 123 + "1 * * * *",
    "* * " + "1W," * 80 + "LW * *",
    "* * * * " + "1#1,2L," * 34 + "1",
    ",".join(["0-59/7"] * 34) + " * * * *",
    "H," * 120 + "H * * * *",
    "H(0-59)/7," * 24 + "H * * * *",
    "9" * 240 + " * * * *",
    "0" * 240 + "5 * * * *",
    "*/" + "9" * 240 + " * * * *",
    "a" * 240 + " * * * *",
    "(" * 256,
    "," * 256,
    "* * * * " + "-" * 248,
    "* * * * " + "1-" * 124,
    "0 0 29 2 */7",
    "0 0 */30 2 " + ",".join(["1#2"] * 60),
    "@" + "y" * 255,
]


@pytest.mark.parametrize("expression", DENSE, ids=lambda text: text[:24])
def test_no_expression_within_the_length_is_slow(expression: str) -> None:
    """Some 50 ms of this process's own time are the goal; a limit far above it catches what grows without bound."""
    assert len(expression) <= EXPRESSION_CHARS_MAX
    began = time.process_time()
    try:
        plan = compile_cron(expression, "Europe/Berlin", job_id="job")
        plan.next_after(0)
        plan.previous_before(10**15)
    except CronError:
        pass
    assert time.process_time() - began < 2
