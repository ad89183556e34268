"""Handlers by name. A handler is a function of a payload, a ``Context``, both in any order, or neither."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, TypeVar, get_type_hints

import pydantic

from tocsin.domain.ids import NAME
from tocsin.domain.targets import HANDLER_NAME, HANDLER_NAME_REMEDY
from tocsin.handlers.context import Context

Function = TypeVar("Function", bound=Callable[..., Any])
CONTEXT_NAMES: Final = ("context", "ctx")
"""Parameters without annotation that take the context by their name."""


class PayloadMismatch(Exception):
    """A payload that does not fit what a handler takes."""


class Handler:
    """One registered function.

    Attributes:
        name: under which jobs name it.
        function: the caller's own.
        is_async: it is a coroutine function, and runs on the event loop.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function
        called = _called(function)
        self.is_async = inspect.iscoroutinefunction(called)
        if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
            raise TypeError(f"handler {name!r} is a generator; give a function that returns, without yield")

    @functools.cached_property
    def _parameters(self) -> tuple[str | None, pydantic.TypeAdapter[Any] | None, str | None]:
        """The payload's parameter, what checks it, and the context's; resolved late, for names may come after it."""
        hints = _hints_of(self.function)
        payload: str | None = None
        context: str | None = None
        for parameter in inspect.signature(self.function).parameters.values():
            hint = hints.get(parameter.name, parameter.annotation)
            if hint is Context or (hint is parameter.empty and parameter.name in CONTEXT_NAMES):
                context = parameter.name
            elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise TypeError(f"handler {self.name!r} has the parameter {parameter}; give parameters with names")
            elif payload is None:
                payload = parameter.name
            elif parameter.default is parameter.empty:
                raise TypeError(
                    f"handler {self.name!r} takes {payload!r} and {parameter.name!r}; a handler takes one payload, "
                    "and a parameter annotated with tocsin.Context"
                )
        hint = hints.get(payload, Any) if payload else Any
        return payload, None if hint in (Any, object) else pydantic.TypeAdapter(hint), context

    def check(self) -> None:
        """Find out now whether the function can be called at all.

        Raises:
            TypeError, NameError, pydantic.PydanticUserError: it cannot.
        """
        _ = self._parameters

    def arguments(self, payload_json: str | None, context: Context) -> dict[str, Any]:
        """Return what the function is called with.

        Raises:
            PayloadMismatch: the payload is not what it takes.
        """
        payload_name, adapter, context_name = self._parameters
        arguments: dict[str, Any] = {} if context_name is None else {context_name: context}
        if payload_name is None:
            if payload_json is not None:
                raise PayloadMismatch(f"the handler {self.name!r} takes no payload, and the job has one")
            return arguments
        text = "null" if payload_json is None else payload_json
        try:
            arguments[payload_name] = _plain(text) if adapter is None else adapter.validate_json(text)
        except pydantic.ValidationError as error:
            raise PayloadMismatch(_told(error)) from error
        return arguments


class HandlerApp:
    """The handlers of one pool's workers.

    Args:
        pool: whose workers run them.
    """

    def __init__(self, pool: str) -> None:
        if not isinstance(pool, str) or NAME.fullmatch(pool) is None:
            raise ValueError(f"pool {pool!r}: give 1 to 64 letters, digits, hyphens and underscores")
        self.pool = pool
        self.handlers: dict[str, Handler] = {}

    def handler(self, name: str | None = None) -> Callable[[Function], Function]:
        """Register the function below under a name; without one, under its own.

        Raises:
            ValueError: the name is none, or is taken.
            TypeError: what is decorated cannot be a handler.
        """
        if callable(name):
            raise TypeError("write @app.handler() or @app.handler('name'), with the parentheses")

        def register(function: Function) -> Function:
            if not callable(function):
                raise TypeError(f"{function!r} is no function")
            known_as = name if name is not None else str(getattr(function, "__name__", ""))
            if HANDLER_NAME.fullmatch(known_as) is None:
                raise ValueError(f"handler {known_as!r}: {HANDLER_NAME_REMEDY}")
            if known_as in self.handlers:
                raise ValueError(f"handler {known_as!r} is registered twice; give each a name of its own")
            self.handlers[known_as] = Handler(known_as, function)
            return function

        return register

    def check(self) -> None:
        """Find out before any work comes whether all handlers can be called.

        Raises:
            TypeError, NameError, pydantic.PydanticUserError: one cannot.
            ValueError: there are none.
        """
        if not self.handlers:
            raise ValueError(f"the app of the pool {self.pool!r} has no handlers; register one with @app.handler(…)")
        for handler in self.handlers.values():
            handler.check()


def _called(function: Any) -> Any:
    """Return the very function that a call comes to: within a partial, or an object's own."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def _hints_of(function: Any) -> dict[str, Any]:
    return get_type_hints(_called(function), include_extras=True)


def _plain(text: str) -> Any:
    return _ANY.validate_json(text)


def _told(error: pydantic.ValidationError) -> str:
    """Return which fields do not fit and why, without their values: they may be secrets."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [f"{'.'.join(map(str, fault['loc'])) or 'payload'}: {fault['msg']}" for fault in faults[:5]]
    more = [f"and {len(faults) - 5} more"] if len(faults) > 5 else []
    return "the payload does not fit: " + "; ".join(lines + more)


_ANY: Final[pydantic.TypeAdapter[Any]] = pydantic.TypeAdapter(Any)
