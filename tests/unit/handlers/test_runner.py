"""The runner of handlers with real child processes: what one call does touches no other, and each has one end."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.handlers import deeds
from tests.unit.handlers.deeds import app
from tocsin.adapters.targets.alone import AloneRunner
from tocsin.adapters.targets.handler_children import CHILD_DIED, NO_PROCESS, HandlerChildren
from tocsin.adapters.targets.handlers import HandlerRunner
from tocsin.bootstrap.process import SystemClock
from tocsin.config import Settings
from tocsin.domain.executions import REAPED, AttemptHead, Execution, ReportKind, Started
from tocsin.domain.targets import HandlerTarget
from tocsin.handlers.context import context_of
from tocsin.ports.run_logs import LogPlace
from tocsin.ports.targets import Attempt, AttemptEnd, RunnerSpec

SPEC = RunnerSpec("tocsin.bootstrap.child_app:app_of_child", "tests.unit.handlers.deeds:app")
WAIT_S = 60.0
numbers = itertools.count(1)


class Logs:
    """Fulfils ``ports.run_logs.RunLogs`` and hands out itself as each log's place."""

    def __init__(self) -> None:
        self.kept: dict[LogPlace, bytes] = {}
        self.over: set[LogPlace] = set()

    def open(self, place: LogPlace) -> Any:
        logs = self
        logs.kept[place] = b""

        class Log:
            def write(self, data: bytes) -> None:
                assert place not in logs.over
                logs.kept[place] += data

            def end(self) -> str:
                logs.over.add(place)
                return ""

        return Log()

    def close(self, wait_s: float) -> None: ...


class House:
    """A runner, and all that it has ended."""

    def __init__(self, children: int = 2, wait_s: float = WAIT_S, logs: Any = None, spec: RunnerSpec = SPEC) -> None:
        clock = SystemClock()
        self.children = HandlerChildren(spec, clock, children, wait_s, logs)
        self.runner = HandlerRunner(app, clock, self.children, logs)
        self.ends: dict[Any, AttemptEnd] = {}

    def start(
        self,
        name: str,
        payload: str | None = None,
        timeout_s: float = WAIT_S,
        *,
        losses: int = 0,
        tenant: str = "default",
    ) -> str:
        ref = f"ref-{next(numbers)}"
        head = AttemptHead(2, 7, losses, f"job_1.1.{ref[4:]}", "job_1", tenant, 1, 5, 5)
        execution = Execution(head, b"", HandlerTarget(name, "deeds", payload, timeout_s))
        self.runner.start([Attempt(ref, execution, losses > 0)])
        return ref

    def end_of(self, ref: str) -> AttemptEnd:
        self.wait_for(lambda: ref in self.ends)
        return self.ends[ref]

    def wait_for(self, condition: Callable[[], Any]) -> None:
        until = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < until, "it did not come in time"
            for end in self.runner.ended():
                assert end.ref not in self.ends, "one attempt has one end"
                self.ends[end.ref] = end
            time.sleep(0.005)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    made = House()
    yield made
    made.runner.close()


@pytest.fixture
def started(tmp_path: Path) -> Callable[[], int | None]:
    """The process in which the handler ``sleep`` sleeps, once it does."""
    file = tmp_path / "pid"
    return lambda: int(text) if file.exists() and (text := file.read_text()) else None


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def sleeper(house: House, tmp_path: Path, started: Callable[[], int | None], **more: Any) -> tuple[str, int]:
    ref = house.start("sleep", f'"{tmp_path / "pid"}"', **more)
    house.wait_for(started)
    pid = started()
    assert pid is not None
    return ref, pid


def test_a_plain_handler_runs_in_another_process_that_is_used_again(house: House) -> None:
    first = house.end_of(house.start("pid"))
    pids = {house.end_of(house.start("pid")).result for _ in range(6)} | {first.result}
    assert first.kind is ReportKind.SUCCEEDED
    assert str(os.getpid()) not in pids and len(pids) <= 2


def test_payload_and_context_come_over(house: House) -> None:
    end = house.end_of(house.start("echo", '{"a":["ü",null]}', losses=1))
    assert end.result == '{"payload":{"a":["ü",null]},"attempt":2,"again":true}'


def test_an_unknown_handler_fails_to_be_attempted_again(house: House) -> None:
    end = house.end_of(house.start("nobody"))
    assert end.error is not None and end.error.error_class == "no_handler"


def test_a_handler_that_ends_its_process_is_given_back_and_its_neighbour_goes_on(
    house: House, tmp_path: Path, started: Callable[[], int | None]
) -> None:
    neighbour, pid = sleeper(house, tmp_path, started)
    end = house.end_of(house.start("exit", "7"))
    assert (end.kind, end.started) == (ReportKind.RETURNED, Started.MAYBE)
    assert end.error is not None and end.error.error_class == CHILD_DIED and "exit status 7" in end.error.message
    assert house.end_of(house.start("echo", "1")).kind is ReportKind.SUCCEEDED, "another process took its place"
    assert is_alive(pid) and neighbour not in house.ends
    house.runner.cancel([neighbour])
    assert house.end_of(neighbour).kind is ReportKind.CANCELLED
    assert not is_alive(pid)


def test_a_death_is_seen_though_something_that_it_left_behind_holds_its_pipes(house: House) -> None:
    end = house.end_of(house.start("fork-and-exit", timeout_s=600))
    assert end.error is not None and end.error.error_class == CHILD_DIED


def test_a_time_limit_kills_the_process(house: House, tmp_path: Path, started: Callable[[], int | None]) -> None:
    ref = house.start("sleep", f'"{tmp_path / "pid"}"', timeout_s=2.0)
    end = house.end_of(ref)
    assert (end.kind, end.error and end.error.error_class) == (ReportKind.TIMED_OUT, "timeout")
    pid = started()
    assert pid is None or not is_alive(pid), "what is told to have ended does nothing more"


def test_what_waits_is_cancelled_before_it_begins_and_a_cancel_of_what_is_over_is_nothing(
    house: House, tmp_path: Path
) -> None:
    files = [tmp_path / str(n) for n in range(2)]
    busy = [house.start("sleep", f'"{file}"') for file in files]
    house.wait_for(lambda: all(file.exists() for file in files))
    waiting = house.start("sleep", f'"{tmp_path / "never"}"')
    house.runner.cancel([waiting, "ref-0"])
    assert house.end_of(waiting).kind is ReportKind.CANCELLED
    house.runner.cancel(busy)
    assert {house.end_of(ref).kind for ref in busy} == {ReportKind.CANCELLED}
    assert not (tmp_path / "never").exists()
    house.runner.cancel([*busy, waiting])


def test_system_exit_and_an_empty_standard_input(house: House) -> None:
    end = house.end_of(house.start("sys-exit"))
    assert end.kind is ReportKind.FAILED and end.error is not None and end.error.message.startswith("SystemExit: 3")
    assert house.end_of(house.start("stdin")).result == ""


def test_an_async_handler_hears_that_it_is_cancelled(house: House) -> None:
    ref = house.start("async-sleep")
    house.runner.cancel([ref])
    other = house.start("async-exit")
    assert house.end_of(ref).kind is ReportKind.CANCELLED
    assert house.end_of(other).kind is ReportKind.FAILED, "and the loop goes on"
    late = house.start("async-sleep", timeout_s=0.01)
    assert house.end_of(late).error is not None


def test_what_is_cancelled_as_it_starts_is_an_end_too(house: House) -> None:
    loop, held = house.runner._on_loop._loop, threading.Event()
    loop.call_soon_threadsafe(held.wait, WAIT_S)  # so that both orders come in one turn of the loop
    ref, short = house.start("async-sleep"), house.start("async-log")
    house.runner.cancel([ref, short])
    held.set()
    assert house.end_of(ref).kind is ReportKind.CANCELLED
    assert house.end_of(short).kind is ReportKind.SUCCEEDED, "it had ended with its first step"


def test_what_no_process_becomes_free_for_is_given_back_as_not_started(
    tmp_path: Path, started: Callable[[], int | None]
) -> None:
    house = House(children=1, wait_s=0.2)
    try:
        house.wait_for(lambda: house.children._all)
        busy = house.start("sleep", f'"{tmp_path / "pid"}"')
        house.wait_for(lambda: started() or busy in house.ends)
        if busy in house.ends:
            return  # this machine was slower to start a process than that, which is the same case
        end = house.end_of(house.start("echo", "1"))
        assert (end.kind, end.started) == (ReportKind.RETURNED, Started.NO)
        assert end.error is not None and end.error.error_class == NO_PROCESS
    finally:
        house.runner.close()


def test_an_app_that_no_child_can_import_costs_no_attempt() -> None:
    house = House(wait_s=0.5, spec=SPEC._replace(argument="nowhere.at.all:app"))
    end = house.end_of(house.start("echo", "1"))
    assert (end.kind, end.started) == (ReportKind.RETURNED, Started.NO)
    house.runner.close()


def test_closing_leaves_no_process_behind(tmp_path: Path, started: Callable[[], int | None]) -> None:
    house = House(children=1)
    _, pid = sleeper(house, tmp_path, started)
    house.runner.close()
    assert not is_alive(pid)


def test_a_suspect_that_ends_its_process_is_reaped_and_a_plain_one_runs_alone_in_its_process() -> None:
    """As `holding` has it: run alone, the process is the attempt's own, and its death is proof."""
    settings = Settings(worker={"app": SPEC.argument})
    spec = RunnerSpec("tocsin.bootstrap.runners:runner_of_child", settings)
    house = House(children=1)
    alone = AloneRunner(house.runner, spec, SystemClock(), 8)
    house.runner = alone  # type: ignore[assignment]
    try:
        deadly, harmless = house.start("exit", "1", losses=2), house.start("pid", losses=2)
        asynchronous = house.start("async-exit", losses=2)
        end = house.end_of(deadly)
        assert (end.kind, end.error and end.error.error_class) == (ReportKind.RETURNED, REAPED)
        assert house.end_of(harmless).kind is ReportKind.SUCCEEDED
        assert house.end_of(asynchronous).kind is ReportKind.FAILED
    finally:
        alone.close()


def test_what_handlers_print_and_log_is_kept_with_their_run() -> None:
    logs = Logs()
    house = House(children=1, logs=logs)
    try:
        plain, asynchronous = house.start("print"), house.start("async-log")
        assert house.end_of(plain).kind is ReportKind.FAILED
        assert house.end_of(asynchronous).kind is ReportKind.SUCCEEDED
    finally:
        house.runner.close()
    text = logs.kept[LogPlace(f"job_1.1.{plain[4:]}", 2, 7)].decode()
    for said in ("printed\n", "logged", "n=1", "to stderr\n", "by the descriptor\n", "Traceback", "ValueError: told"):
        assert said in text
    assert b"n=2" in logs.kept[LogPlace(f"job_1.1.{asynchronous[4:]}", 2, 7)]
    assert logs.over == set(logs.kept)


def test_a_handler_that_says_nothing_has_no_log_and_what_is_said_after_its_end_is_dropped() -> None:
    logs = Logs()
    house = House(children=1, logs=logs)
    try:
        silent, late = house.start("async-silent"), house.start("async-late-log")
        assert {house.end_of(ref).kind for ref in (silent, late)} == {ReportKind.SUCCEEDED}
        house.wait_for(deeds.said_late.is_set)
    finally:
        house.runner.close()
    assert not logs.kept


@pytest.mark.parametrize("before", [True, False])
def test_whoever_waits_for_a_cancel_hears_of_it(before: bool) -> None:
    async def scene() -> bool:
        context = context_of(AttemptHead(1, 1, 0, "job_1.1.5", "job_1", "default", 1, 5, 5), False)
        if before:
            context.cancel()
        waiting = asyncio.create_task(context.wait_cancelled())
        await asyncio.sleep(0)
        context.cancel()
        await asyncio.wait_for(waiting, WAIT_S)
        return context.cancelled

    assert asyncio.run(scene())
