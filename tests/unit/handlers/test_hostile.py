"""Handlers that do their worst, by mistake or by will: each call has its own end, and no other call has it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tocsin
from tests.unit.handlers.test_runner import House, Logs
from tocsin.domain.executions import AttemptError, AttemptHead, ReportKind
from tocsin.handlers.calling import RESULT_CHARS_MAX, call
from tocsin.handlers.context import context_of
from tocsin.handlers.registry import Handler
from tocsin.ports.run_logs import LogPlace
from tocsin.testing import run_handler

HEAD = AttemptHead(1, 1, 0, "job_1.1.5", "job_1", "default", 1, 5, 5)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    made = House(children=1)
    yield made
    made.runner.close()


def error_of(function: Callable[..., Any], *, is_async: bool = False) -> AttemptError:
    """Return the error with which a handler that raises ends, called plainly or awaited."""
    app = tocsin.Worker(pool="p")

    async def awaited() -> Any:
        return function()

    app.handler("h")(awaited if is_async else function)
    end = run_handler(app, "h")
    assert end.kind is ReportKind.FAILED and end.error is not None
    return end.error


def returning(value: Any) -> Callable[[], Any]:
    return lambda: value


class NotReady(tocsin.Retry):
    """Does not call the constructor above it, as many an exception does not."""

    def __init__(self, what: str) -> None:
        self.what = what


class GivenUp(tocsin.Fail):
    def __init__(self) -> None:
        pass


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class Nothing:
    __slots__ = ()

    def __str__(self) -> str:
        raise ValueError


def retry_after(value: Any) -> tocsin.Retry:
    error = tocsin.Retry(reason="later")
    error.after_s = value
    return error


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("raised", "error_class", "after_s"),
    [
        (lambda: NotReady("the cat"), "retry", None),
        (GivenUp, "fail", None),
        (lambda: tocsin.Fail(reason=Nothing()), "fail", None),  # type: ignore[arg-type]
        (lambda: tocsin.Retry(after_s=Decimal("2.5")), "retry", 2.5),  # type: ignore[arg-type]
        (lambda: retry_after(timedelta(seconds=5)), "retry", None),
        (lambda: retry_after("7"), "retry", 7.0),
        (lambda: retry_after(float("nan")), "retry", None),
        (lambda: retry_after(-1), "retry", None),
        (lambda: retry_after(10**400), "retry", None),
        (Unspeakable, "exception", None),
        (lambda: BaseExceptionGroup("several", [SystemExit(1), KeyboardInterrupt()]), "exception", None),
        (GeneratorExit, "exception", None),
        (KeyboardInterrupt, "exception", None),
    ],
)
def test_whatever_is_raised_there_is_an_end_in_plain_words(
    raised: Callable[[], BaseException], error_class: str, after_s: float | None, is_async: bool
) -> None:
    def handler() -> None:
        raise raised()

    error = error_of(handler, is_async=is_async)
    assert (error.error_class, error.retry_after_s) == (error_class, after_s)
    assert isinstance(error.message, str)
    assert error.retry_after_s is None or type(error.retry_after_s) is float


def test_a_traceback_in_a_runs_output_shows_no_values() -> None:
    """Whoever may read a run's output need not know its payload, let alone the service's own secrets."""

    def pay(order: dict[str, str]) -> None:
        password = "hunter2"
        raise ValueError(f"{len(order)} orders, {len(password)} letters")

    printed: list[bytes] = []
    end = call(Handler("pay", pay), '{"card": "4111-1111"}', context_of(HEAD, False, printed.append))
    text = b"".join(printed).decode()
    assert end.kind is ReportKind.FAILED and "Traceback" in text and "in pay" in text
    assert "hunter2'" not in text and "4111" not in text


def test_what_is_returned_is_looked_at_no_further_than_a_result_goes() -> None:
    def endless() -> Iterator[int]:
        raise AssertionError("it was iterated")
        yield 1

    circle: dict[str, Any] = {}
    circle |= {"a": circle, "b": circle}
    for value, result in (
        (endless(), "generator"),
        ({"rows": endless()}, "generator"),
        (itertools.count(), "count(0)"),
        (circle, "a dict"),
        (list(range(300_000)), "[0,1,2"),
        ({"x": "y" * 30_000_000}, '{"x":"yyy'),
        (b"\xff", "a bytes"),
        (float("nan"), "NaN"),
        ({(1, 2): {3}}, '{"1,2":[3]}'),
    ):
        app = tocsin.Worker(pool="p")
        app.handler("h")(returning(value))
        end = run_handler(app, "h")
        assert end.kind is ReportKind.SUCCEEDED
        assert result in (end.result or "") and len(end.result or "") <= RESULT_CHARS_MAX


@pytest.mark.parametrize("how", ["exit", "return"])
def test_a_copy_that_a_handler_forks_ends_neither_its_call_nor_the_next(house: House, how: str) -> None:
    assert house.end_of(house.start("fork-and-come-back", f'"{how}"')).result == "the call"
    assert house.end_of(house.start("echo", "1")).result == '{"payload":1,"attempt":2,"again":false}'


def test_closed_streams_and_left_threads_cost_no_call(house: House) -> None:
    assert house.end_of(house.start("leave-a-thread")).result == "left"
    assert house.end_of(house.start("close-streams")).result == "closed"
    end = house.end_of(house.start("careless-retry"))
    assert end.error is not None and end.error.error_class == "retry"
    assert house.end_of(house.start("half-a-pair")).kind is ReportKind.FAILED, "its stream is closed"


def test_a_task_that_ends_the_loop_ends_no_neighbour(house: House) -> None:
    sleeping = house.start("async-sleep")
    for deed in ("async-stop-loop", "async-exit-in-task"):
        house.start(deed)
        assert house.end_of(house.start("async-log")).result == "ok"
    assert sleeping not in house.ends
    house.runner.cancel([sleeping])
    assert house.end_of(sleeping).kind is ReportKind.CANCELLED


def test_a_handler_that_does_not_hear_ends_as_it_says(house: House) -> None:
    ref = house.start("async-deaf")
    house.runner.cancel([ref])
    assert house.end_of(ref).kind in (ReportKind.SUCCEEDED, ReportKind.CANCELLED)


def test_a_flood_of_output_delays_no_end() -> None:
    logs = Logs()
    house = House(children=1, logs=logs)
    try:
        ref = house.start("flood")
        assert house.end_of(ref).result == "wet"
        after = house.start("print")
        assert house.end_of(after).kind is ReportKind.FAILED
    finally:
        house.runner.close()
    assert b"xxx" not in logs.kept[LogPlace(f"job_1.1.{after[4:]}", 2, 7)]


def test_a_handler_that_cancels_itself_has_failed_and_may_be_attempted_again(house: House) -> None:
    end = house.end_of(house.start("async-cancel-itself"))
    assert end.kind is ReportKind.FAILED and end.error is not None and end.error.error_class == "exception"


def test_a_tenant_with_many_calls_does_not_keep_another_from_its_turn(tmp_path: Path) -> None:
    house = House(children=1)
    try:
        first = house.start("sleep", f'"{tmp_path / "pid"}"', tenant="evil")
        house.wait_for((tmp_path / "pid").exists)
        for _ in range(30):
            house.start("pid", tenant="evil")
        good = house.start("pid", tenant="good")
        house.runner.cancel([first])
        house.wait_for(lambda: good in house.ends or len(house.ends) > 20)
        assert list(house.ends).index(good) <= 2, "after what was cancelled, and at most one more"
    finally:
        house.runner.close()
