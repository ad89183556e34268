"""Handlers run without any broker: what they are called with, and what each way to end is reported as."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Annotated, Any

import pydantic
import pytest

import tocsin
from tocsin.domain.errors import InvalidInput
from tocsin.domain.executions import ReportKind
from tocsin.domain.retries import is_retryable
from tocsin.handlers.calling import RESULT_CHARS_MAX, HandlerEnd
from tocsin.testing import run_handler

OK = ReportKind.SUCCEEDED


@pytest.fixture
def app() -> tocsin.Worker:
    return tocsin.Worker(pool="p")


class Order(pydantic.BaseModel):
    number: int
    tags: list[str] = []


@dataclass
class Reminder:
    to: str
    day: date


def result_of(app: tocsin.Worker, function: Any, payload: Any = None, **more: Any) -> Any:
    app.handlers.pop("h", None)
    app.handler("h")(function)
    return run_handler(app, "h", payload, **more)


def plain(payload):
    return repr(payload)  # type: ignore[no-untyped-def]


def number(payload: int) -> str:
    return repr(payload)


def model(order: Order) -> str:
    return repr(order)


def data(reminder: Reminder) -> str:
    return repr(reminder)


def maybe(payload: Order | None) -> str:
    return repr(payload)


def bounded(payload: Annotated[int, pydantic.Field(gt=3)]) -> str:
    return repr(payload)


def defaulted(payload: Any = None, other: int = 3) -> str:
    return repr((payload, other))


def nothing() -> str:
    return "called"


@pytest.mark.parametrize(
    ("function", "payload", "result"),
    [
        (plain, {"a": [1, None]}, "{'a': [1, None]}"),
        (plain, None, "None"),
        (plain, "text", "'text'"),
        (number, 5, "5"),
        (model, {"number": 7, "tags": ["x"]}, "Order(number=7, tags=['x'])"),
        (data, {"to": "ada", "day": "2026-10-11"}, "Reminder(to='ada', day=datetime.date(2026, 10, 11))"),
        (maybe, None, "None"),
        (bounded, 4, "4"),
        (defaulted, [1], "([1], 3)"),
        (nothing, None, "called"),
    ],
)
def test_a_payload_comes_as_what_the_handler_is_annotated_with(
    app: tocsin.Worker, function: Any, payload: Any, result: str
) -> None:
    assert result_of(app, function, payload) == HandlerEnd(OK, None, result)


@pytest.mark.parametrize(
    ("function", "payload"),
    [
        (number, "five"),
        (model, {"number": "x"}),
        (model, None),
        (data, {"to": "ada"}),
        (bounded, 3),
        (nothing, {"a": 1}),
    ],
)
def test_a_payload_that_does_not_fit_fails_for_good_and_is_not_shown(
    app: tocsin.Worker, function: Any, payload: Any
) -> None:
    end = result_of(app, function, payload)
    assert (end.kind, end.error.error_class) == (ReportKind.FAILED, "payload")
    assert not is_retryable(end.kind, end.error)
    assert "five" not in end.error.message


def test_a_context_says_which_attempt_it_is(app: tocsin.Worker) -> None:
    seen: list[tocsin.Context] = []

    @app.handler("h")
    def handle(ctx: tocsin.Context, payload: int) -> None:
        seen.append(ctx)

    at = datetime(2026, 10, 11, 2, 0, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    run_handler(app, "h", 1, attempt=3, scheduled_for=at, redelivered=True, job_id="acme@j", tenant_id="acme", token=41)
    (context,) = seen
    assert context.scheduled_for == at and context.scheduled_for.tzinfo is UTC
    assert context.execution_id == f"acme@j.1.{round(at.timestamp() * 1e6)}"
    assert (context.job_id, context.tenant_id, context.attempt, context.token) == ("acme@j", "acme", 3, 41)
    assert context.redelivered and not context.cancelled


def by_name(context: Any) -> int:
    return context.attempt  # type: ignore[no-any-return]


async def late(payload: LateName, context: tocsin.Context) -> int:
    return context.attempt


LateName = int  # fmt: skip


@pytest.mark.parametrize("function", [by_name, late, functools.partial(late, context=None)])
def test_annotations_are_resolved_late(app: tocsin.Worker, function: Any) -> None:
    payload = None if function is by_name else 3
    assert result_of(app, function, payload, attempt=2).kind in (OK, ReportKind.FAILED)


def test_a_context_by_its_name_alone_is_one(app: tocsin.Worker) -> None:
    def handle(ctx):  # type: ignore[no-untyped-def]
        return ctx.attempt

    assert result_of(app, handle, attempt=2).result == "2"


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("raised", "error_class", "message", "after_s", "again"),
    [
        (ValueError("no\nway"), "exception", "ValueError: no way (test_calling.py:", None, True),
        (KeyError("x" * 5_000), "exception", "KeyError: 'xxx", None, True),
        (TimeoutError("mine"), "exception", "TimeoutError: mine", None, True),
        (SystemExit(3), "exception", "SystemExit: 3", None, True),
        (tocsin.Retry(7.5, "busy"), "retry", "busy", 7.5, True),
        (tocsin.Retry(), "retry", "the handler asked", None, True),
        (tocsin.Fail("expired"), "fail", "expired", None, False),
        (asyncio.CancelledError(), "exception", "CancelledError", None, True),
    ],
)
def test_each_way_to_fail_is_an_end(
    app: tocsin.Worker,
    raised: BaseException,
    error_class: str,
    message: str,
    after_s: Any,
    again: bool,
    asynchronous: bool,
) -> None:
    def handle() -> None:
        raise raised

    async def handle_async() -> None:
        raise raised

    end = result_of(app, handle_async if asynchronous else handle)
    assert end.kind is ReportKind.FAILED
    assert end.error.error_class == error_class
    assert end.error.message.startswith(message) and len(end.error.message) <= RESULT_CHARS_MAX
    assert "\n" not in end.error.message
    assert end.error.retry_after_s == after_s
    assert is_retryable(end.kind, end.error) is again


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("never")


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("never")


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (None, None),
        ("text", "text"),
        ("x" * 5_000, "x" * 1_000),
        ({"a": date(2026, 1, 2)}, '{"a":"2026-01-02"}'),
        ([1, 2.5, True], "[1,2.5,true]"),
        (Reminder("ada", date(2026, 1, 2)), '{"to":"ada","day":"2026-01-02"}'),
        (b"\xff", "a bytes"),
        (Unprintable(), "a Unprintable"),
    ],
)
def test_of_a_return_value_a_bounded_summary_is_kept(app: tocsin.Worker, value: Any, result: str | None) -> None:
    def handle() -> Any:
        return value

    assert result_of(app, handle) == HandlerEnd(OK, None, result)


def test_an_exception_that_cannot_be_shown_is_an_end_all_the_same(app: tocsin.Worker) -> None:
    def handle() -> None:
        raise Unspeakable

    assert result_of(app, handle).error.error_class == "exception"


def test_an_async_handler_that_takes_too_long_is_timed_out(app: tocsin.Worker) -> None:
    async def handle() -> None:
        await asyncio.sleep(60)

    end = result_of(app, handle, timeout_s=0.01)
    assert (end.kind, end.error.error_class) == (ReportKind.TIMED_OUT, "timeout")


def test_an_unknown_handler_is_to_be_attempted_again_for_a_deployment_may_be_under_way(app: tocsin.Worker) -> None:
    end = run_handler(app, "nobody")
    assert end.error is not None and end.error.error_class == "no_handler" and "nobody" in end.error.message
    assert is_retryable(end.kind, end.error)


def test_a_plain_function_that_returns_an_awaitable_is_told_so(app: tocsin.Worker) -> None:
    def handle() -> Any:
        return asyncio.sleep(0)

    end = result_of(app, handle)
    assert "async def" in end.error.message


def test_what_no_job_could_have_is_refused(app: tocsin.Worker) -> None:
    app.handler("h")(nothing)
    with pytest.raises(InvalidInput):
        run_handler(app, "h", float("nan"))
    with pytest.raises(InvalidInput):
        run_handler(app, "h", timeout_s=-1)
    with pytest.raises(ValueError, match="offset"):
        run_handler(app, "h", scheduled_for=datetime(2026, 1, 1))  # noqa: DTZ001


def test_a_handler_runs_from_within_a_running_loop(app: tocsin.Worker) -> None:
    async def handle() -> str:
        return "ok"

    async def scene() -> Any:
        return result_of(app, handle)

    assert asyncio.run(scene()).result == "ok"
