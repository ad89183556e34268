"""Registering: what can be no handler is refused where it is written, or at the latest before any work comes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tocsin
from tocsin.handlers.loading import NoApp, load_app, ref_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "handler_app.py"
here = tocsin.Worker(pool="here")


@pytest.fixture
def app() -> tocsin.Worker:
    return tocsin.Worker(pool="p")


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("function", [generator, async_generator, 3, "text"])
def test_what_does_not_return_is_refused_at_once(app: tocsin.Worker, function: Any) -> None:
    with pytest.raises(TypeError):
        app.handler("h")(function)


@pytest.mark.parametrize("name", ["", "a b", "x" * 129, "a\n"])
def test_a_name_that_no_job_could_have_is_refused(app: tocsin.Worker, name: str) -> None:
    with pytest.raises(ValueError, match="handler"):
        app.handler(name)(lambda: None)


def test_a_name_is_taken_once_and_is_the_functions_own_by_default(app: tocsin.Worker) -> None:
    @app.handler()
    def tidy() -> None: ...

    assert list(app.handlers) == ["tidy"]
    with pytest.raises(ValueError, match="twice"):
        app.handler("tidy")(tidy)
    with pytest.raises(TypeError, match="parentheses"):
        app.handler(tidy)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="handler"):
        app.handler()(lambda: None)


@pytest.mark.parametrize("pool", ["", "a.b", "x" * 65, None, 3])
def test_a_pool_that_cannot_be_is_refused(pool: Any) -> None:
    with pytest.raises(ValueError, match="pool"):
        tocsin.Worker(pool=pool)


def two(a: int, b: int) -> None: ...
def unknown(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def unchecked(a: Callable[[int], object]) -> None: ...
def many(*payloads: int) -> None: ...
def only_positional(payload: int, /) -> None: ...


@pytest.mark.parametrize("function", [two, unknown, many, only_positional])
def test_what_cannot_be_called_is_found_before_any_work_comes(app: tocsin.Worker, function: Any) -> None:
    app.handler("h")(function)
    with pytest.raises((TypeError, NameError)):
        app.check()


def test_an_app_without_handlers_is_none(app: tocsin.Worker) -> None:
    with pytest.raises(ValueError, match="no handlers"):
        app.check()


class Called:
    async def __call__(self, payload: int, context: tocsin.Context) -> None: ...


def test_an_object_is_async_as_its_call_is(app: tocsin.Worker) -> None:
    app.handler("h")(Called())
    app.check()
    assert app.handlers["h"].is_async


def test_retry_takes_a_time_that_can_be(app: tocsin.Worker) -> None:
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="after_s"):
            tocsin.Retry(wrong)


def test_an_app_is_found_by_its_file_and_by_its_module(tmp_path: Path) -> None:
    by_file = load_app(f"{EXAMPLE}:app")
    assert (by_file.pool, "send-reminder" in by_file.handlers) == ("reminders", True)
    assert load_app(f"{__name__}:here") is here
    assert ref_of(here) == f"{__name__}:here"


@pytest.mark.parametrize(
    "ref",
    ["", "app", ":app", "nowhere.at.all:app", "/nowhere/app.py:app", f"{__name__}:EXAMPLE", f"{__name__}:missing"],
)
def test_what_names_no_app_is_refused_with_what_would(ref: str) -> None:
    with pytest.raises(NoApp, match="module:variable"):
        load_app(ref)


def test_an_app_that_is_no_variable_cannot_be_found_by_others(app: tocsin.Worker) -> None:
    with pytest.raises(NoApp, match="variable"):
        ref_of(app)


def test_an_app_runs_nothing_while_its_file_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "unguarded.py"
    file.write_text("import tocsin\napp = tocsin.Worker(pool='p')\napp.run()\nloaded = True\n")
    assert load_app(f"{file}:app").pool == "p"


def test_importing_tocsin_is_cheap() -> None:
    told = "import sys, tocsin; print(sorted(set(sys.modules) & {'pydantic', 'aiohttp', 'confluent_kafka', 'asyncio'}))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert {"Worker", "Context", "Retry", "Fail"} <= set(dir(tocsin))
    with pytest.raises(AttributeError):
        _ = tocsin.worker  # type: ignore[attr-defined]


def test_a_child_that_imports_an_app_for_its_handlers_imports_little_else() -> None:
    told = f"import sys; from tocsin.bootstrap.child_app import app_of_child; app_of_child({f'{EXAMPLE}:app'!r})"
    asked = (
        "print(sorted(set(sys.modules) & {'confluent_kafka', 'cassandra', 'aiohttp', 'fastapi', 'pydantic_settings'}))"
    )
    done = subprocess.run([sys.executable, "-c", f"{told}; {asked}"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
