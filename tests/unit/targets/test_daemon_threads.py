"""Threads for blocking calls: as many as there is work for, and none that keeps a process alive."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import wait
from typing import Any

import pytest

from tocsin.adapters.targets import daemon_threads
from tocsin.adapters.targets.daemon_threads import DaemonThreads

STOP = """
import asyncio, sys, time, tocsin
from tests.unit.targets.programs import WallClock
from tocsin.adapters.targets.handlers import HandlerRunner
from tocsin.domain.executions import AttemptHead, Execution
from tocsin.domain.targets import HandlerTarget
from tocsin.ports.targets import Attempt

app = tocsin.Worker(pool="p")

@app.handler("hang")
async def hang() -> None:
    await asyncio.to_thread(time.sleep, 3600)

runner = HandlerRunner(app, WallClock(), None)
head = AttemptHead(1, 1, 0, "job_1.1.5", "job_1", "default", 1, 5, 5)
runner.start([Attempt("ref", Execution(head, b"", HandlerTarget("hang", "p", None, 0.2)), False)])
while not (ends := runner.ended()):
    time.sleep(0.01)
runner.close()
print(ends[0].kind)
sys.exit(7)
"""


def test_a_call_that_never_returns_keeps_no_worker_from_ending() -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", STOP]
    ended = subprocess.run(command, check=False, env=env, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (7, "TIMED_OUT\n"), ended.stderr


def test_calls_share_threads_up_to_the_bound_and_each_has_its_end() -> None:
    threads = DaemonThreads(4)
    seen: set[int] = set()
    under_way, most, lock, go_on = 0, 0, threading.Lock(), threading.Event()

    def call(n: int) -> int:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
            seen.add(threading.get_ident())
            if under_way == 4:
                go_on.set()
        go_on.wait(30)
        with lock:
            under_way -= 1
        if n % 10 == 0:
            raise SystemExit(n)
        return n

    futures = [threads.submit(call, n) for n in range(200)]
    assert not wait(futures, 60).not_done
    assert most == 4 and len(seen) == 4
    assert [f.result() for n, f in enumerate(futures) if n % 10] == [n for n in range(200) if n % 10]
    assert isinstance(futures[0].exception(), SystemExit)


def test_what_is_cancelled_before_its_turn_is_not_called() -> None:
    threads, begun, go_on, called = DaemonThreads(1), threading.Event(), threading.Event(), []

    def block() -> None:
        begun.set()
        go_on.wait(30)

    first = threads.submit(block)
    assert begun.wait(30)
    second, third = threads.submit(called.append, 2), threads.submit(called.append, 3)
    assert second.cancel()
    go_on.set()
    wait([first, third], 30)
    assert called == [3]


def test_threads_without_work_end_and_new_ones_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_threads, "IDLE_S", 0.01)
    threads = DaemonThreads(2, "short-lived")
    for _ in range(20):
        assert threads.submit(int, "5").result(30) == 5
        for thread in threading.enumerate():
            if thread.name == "short-lived":
                thread.join(30)
    assert threads._made == 0 and threads._unclaimed == 0


def test_a_loop_takes_it_and_runs_blocking_calls_in_it() -> None:
    async def ask() -> Any:
        asyncio.get_running_loop().set_default_executor(DaemonThreads(1, "mine"))
        return await asyncio.to_thread(lambda: threading.current_thread().name)

    assert asyncio.run(ask()) == "mine"
