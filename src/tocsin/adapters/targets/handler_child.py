"""A process that runs plain handlers, one call after another. Started by ``handler_children``, never by people.

It ends when its orders end, and dies with its parent. The standard input of handlers is empty.
"""

from __future__ import annotations

import ctypes
import importlib
import io
import json
import os
import pickle
import signal
import sys
from typing import Any, Final

PR_SET_PDEATHSIG: Final = 1
READY: Final = b"ready\n"


def main(tell: int, parent: int) -> None:
    """Run calls until there are no more.

    Args:
        tell: file descriptor of the pipe to the parent.
        parent: its process id.
    """
    os.set_inheritable(tell, False)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    orders = os.fdopen(os.dup(0), "rb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    path, factory, argument = pickle.load(orders)
    sys.path[:] = path
    module, _, name = factory.partition(":")
    app = getattr(importlib.import_module(module), name)(argument)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what is printed before a kill is kept
    os.write(tell, READY)
    while True:
        try:
            order = pickle.load(orders)
        except EOFError:
            break
        end = _called(app, *order)
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(tell, _told(end) + b"\n")
    os._exit(0)  # threads of a handler must not keep it alive


def _called(app: Any, name: str, payload: str | None, head: Any, redelivered: bool, kept: bool) -> Any:
    from tocsin.handlers.calling import HandlerEnd, call, find
    from tocsin.handlers.context import context_of

    handler = find(app, name)
    if isinstance(handler, HandlerEnd):
        return handler
    return call(handler, payload, context_of(head, redelivered, _print if kept else None))


def _print(data: bytes) -> None:
    sys.stderr.flush()
    os.write(2, data)


def _told(end: Any) -> bytes:
    error = end.error
    told = error and [error.error_class, error.message, error.status, error.retry_after_s]
    return json.dumps([str(end.kind), told, end.result]).encode()
