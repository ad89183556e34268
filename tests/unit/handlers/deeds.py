"""Handlers that do what handlers do at their worst; ``test_runner`` runs them in real child processes."""

from __future__ import annotations

import asyncio
import os
import sys
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


@app.handler("async-exit")
async def async_exit() -> None:
    raise SystemExit(1)
