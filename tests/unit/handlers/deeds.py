"""Handlers that do what handlers do at their worst; ``test_runner`` runs them in real child processes."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import tocsin

app = tocsin.Worker(pool="deeds")


@app.handler("echo")
def echo(payload: Any, context: tocsin.Context) -> Any:
    return {"payload": payload, "attempt": context.attempt, "again": context.redelivered}


@app.handler("pid")
def pid() -> int:
    return os.getpid()


@app.handler("sleep")
def sleep(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(600)


@app.handler("exit")
def leave(status: int) -> None:
    os._exit(status)


@app.handler("fork-and-exit")
def fork_and_exit() -> None:
    """Leave a process behind that holds all pipes open."""
    if os.fork() == 0:
        time.sleep(600)
    os._exit(1)


@app.handler("sys-exit")
def sys_exit() -> None:
    sys.exit(3)


@app.handler("print")
def say(context: tocsin.Context) -> None:
    print("printed")
    context.log.info("logged", n=1)
    sys.stderr.write("to stderr\n")
    os.write(1, b"by the descriptor\n")
    raise ValueError("told")


@app.handler("stdin")
def stdin() -> str:
    return sys.stdin.read()


@app.handler("async-sleep")
async def async_sleep(context: tocsin.Context) -> None:
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        if context.cancelled:
            await context.wait_cancelled()
        raise


@app.handler("async-log")
async def async_log(context: tocsin.Context) -> str:
    context.log.warning("logged", n=2)
    return "ok"


@app.handler("async-silent")
async def async_silent(context: tocsin.Context) -> int:
    return context.attempt


said_late = threading.Event()
left: list[asyncio.Task[None]] = []


@app.handler("async-late-log")
async def async_late_log(context: tocsin.Context) -> None:
    """Leave something behind that speaks when it is too late."""

    async def late() -> None:
        await asyncio.sleep(0.01)
        context.log.info("late")
        said_late.set()

    left.append(asyncio.create_task(late()))


@app.handler("async-exit")
async def async_exit() -> None:
    raise SystemExit(1)


@app.handler("fork-and-come-back")
def fork_and_come_back(how: str) -> str:
    """Two processes come back from one call; only the first is it."""
    pid = os.fork()
    if pid == 0 and how == "exit":
        sys.exit(0)
    if pid == 0:
        return "the copy"
    os.waitpid(pid, 0)
    return "the call"


@app.handler("close-streams")
def close_streams() -> str:
    sys.stdout.close()
    sys.stderr = None  # type: ignore[assignment]
    return "closed"


@app.handler("careless-retry")
def careless_retry() -> None:
    class NotReady(tocsin.Retry):
        def __init__(self, what: str) -> None:
            self.what = what

    raise NotReady("the cat")


@app.handler("half-a-pair")
def half_a_pair() -> str:
    print("\ud800".encode(errors="surrogatepass"))
    return "\ud800"


@app.handler("leave-a-thread")
def leave_a_thread() -> str:
    threading.Thread(target=time.sleep, args=(600,)).start()
    return "left"


@app.handler("flood")
def flood() -> str:
    for _ in range(8):
        sys.stdout.write("x" * 1_000_000)
    return "wet"


@app.handler("async-stop-loop")
async def async_stop_loop() -> str:
    asyncio.get_running_loop().stop()
    return "stopped"


@app.handler("async-exit-in-task")
async def async_exit_in_task() -> None:
    async def part() -> None:
        raise SystemExit(1)

    async with asyncio.TaskGroup() as group:
        group.create_task(part())


@app.handler("async-deaf")
async def async_deaf() -> str:
    """Take no notice of the first order to stop."""
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        await asyncio.sleep(0.01)
    return "deaf"


@app.handler("async-cancel-itself")
async def async_cancel_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
