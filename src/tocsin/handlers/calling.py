"""Calling a handler, and saying how that ended, in the words of reports. Whatever a handler does, there is an end."""

from __future__ import annotations

import asyncio
import inspect
import math
import traceback
from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import pydantic_core

from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.handlers.context import Context
from tocsin.handlers.registry import Handler, HandlerApp, PayloadMismatch
from tocsin.handlers.signals import Fail, Retry

RESULT_CHARS_MAX: Final = 1_000
CANCELLED: Final = AttemptError("cancelled", "cancelled by its worker")


class HandlerEnd(NamedTuple):
    """How a call ended, as its worker reports it."""

    kind: ReportKind
    error: AttemptError | None = None
    result: str | None = None


DONE: Final = HandlerEnd(ReportKind.SUCCEEDED)


def find(app: HandlerApp, name: str) -> Handler | HandlerEnd:
    """Return a handler, or the end of an attempt that names none: it may be known once a deployment is through."""
    handler = app.handlers.get(name)
    if handler is not None:
        return handler
    message = f"no handler {name!r} is registered in this worker of the pool {app.pool!r}"
    return HandlerEnd(ReportKind.FAILED, AttemptError("no_handler", message[:RESULT_CHARS_MAX]))


def call(handler: Handler, payload_json: str | None, context: Context) -> HandlerEnd:
    """Call a plain function to its end."""
    try:
        value = handler.function(**handler.arguments(payload_json, context))
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise TypeError("the handler returned an awaitable: define it with `async def`")
        return HandlerEnd(ReportKind.SUCCEEDED, None, summary(value))
    except BaseException as error:  # noqa: BLE001 - also SystemExit: it is the handler's end, not the worker's
        return judged(error, context)


class Limit(Protocol):
    """A time limit, which cancels the task that it is for; whoever awaits the call begins and ends it."""

    def expired(self) -> bool:
        """Tell whether it was reached."""
        ...

    def take_back(self) -> bool:
        """Take back the cancel that the limit asked for, if it did; tell whether no other was asked for."""
        ...


async def call_async(
    handler: Handler, payload_json: str | None, context: Context, timeout_s: float, limit: Limit
) -> HandlerEnd:
    """Await a coroutine function to its end, or to its time limit; being cancelled is an end too.

    Args:
        timeout_s: what the limit says, to tell it.
    """
    try:
        value = await handler.function(**handler.arguments(payload_json, context))
        return DONE if value is None else HandlerEnd(ReportKind.SUCCEEDED, None, summary(value))
    except asyncio.CancelledError:
        if limit.take_back():
            return timed_out(timeout_s)
        if context.cancelled:
            return HandlerEnd(ReportKind.CANCELLED, CANCELLED)
        return HandlerEnd(ReportKind.FAILED, AttemptError("exception", "CancelledError: the handler cancelled itself"))
    except TimeoutError as error:
        return timed_out(timeout_s) if limit.expired() else judged(error, context)
    except BaseException as error:  # noqa: BLE001 - also SystemExit: it would end the loop of all its neighbours
        return judged(error, context)


def timed_out(timeout_s: float) -> HandlerEnd:
    """Return the end of what passed its limit."""
    return HandlerEnd(ReportKind.TIMED_OUT, AttemptError("timeout", f"no end within {timeout_s:g} s"))


def judged(error: BaseException, context: Context) -> HandlerEnd:
    """Return the end that an exception is; how it came about is kept with the run's output."""
    match error:
        case PayloadMismatch():
            told = AttemptError("payload", _line(error))
        case Fail():
            told = AttemptError("fail", _line(error.reason))
        case Retry():
            told = AttemptError("retry", _line(error.reason), retry_after_s=_seconds(error.after_s))
        case _:
            if context.keeps_output:
                with suppress(Exception):  # what an exception shows of itself may fail
                    context.log.error("the handler raised", exc_info=error)
            told = AttemptError("exception", _line(f"{type(error).__name__}: {_text(error)}{_place(error)}"))
    return HandlerEnd(ReportKind.FAILED, told)


def summary(value: Any) -> str | None:
    """Return what is kept of a handler's return value: a text as it is, anything else as JSON, cut to a bound."""
    if value is None or isinstance(value, str):
        return value and str(value[:RESULT_CHARS_MAX])
    try:
        text = pydantic_core.to_json(_beginning(value), fallback=repr).decode()
    except Exception:  # noqa: BLE001 - it did succeed, whatever its value does when it is looked at
        text = f"a {type(value).__name__}"
    return text[:RESULT_CHARS_MAX]


def _beginning(value: Any) -> Any:
    """Return a value without what no result has room for; an iterator, which may never end, as what it is."""
    left = RESULT_CHARS_MAX

    def cut(one: Any) -> Any:
        nonlocal left
        left -= 1  # whatever it is, it takes a character at the least
        if isinstance(one, Iterator):
            return repr(one)
        if isinstance(one, str | bytes):
            return one[:RESULT_CHARS_MAX]
        if isinstance(one, dict):
            return {key: cut(inner) for key, inner in takewhile(lambda _: left > 0, one.items())}
        if isinstance(one, list | tuple | set | frozenset):
            return [cut(inner) for inner in takewhile(lambda _: left > 0, one)]
        return one

    return cut(value)


def _seconds(after_s: Any) -> float | None:
    """Return a wish for patience as a number, as far as it is one: who raised it may have put anything there."""
    try:
        seconds = float(after_s)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _text(told: object) -> str:
    try:
        return str(told)
    except BaseException:  # noqa: BLE001 - a broken __str__ is the handler's, and no reason to lose its end
        return ""


def _place(error: BaseException) -> str:
    """Return where an exception was raised: the innermost frame."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


def _line(told: object) -> str:
    return " ".join(_text(told).split())[:RESULT_CHARS_MAX]
