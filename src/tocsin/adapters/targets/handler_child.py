"""A process that runs plain handlers, one call after another. Started by ``handler_children``, never by people.

It ends when its orders end, and dies with its parent. The standard input of handlers is empty.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
from contextlib import suppress
from typing import Any, Final

from tocsin.adapters.targets.child_process import end_with, error_told, make_ordered

READY: Final = b"ready\n"


def main(tell: int, parent: int) -> None:
    """Run calls until there are no more.

    Args:
        tell: file descriptor of the pipe to the parent.
        parent: its process id.
    """
    end_with(parent, tell)
    orders = os.fdopen(os.dup(0), "rb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    app, own = make_ordered(orders), os.getpid()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what is printed before a kill is kept
    os.write(tell, READY)
    while True:
        try:
            number, *order = pickle.load(orders)
        except EOFError:
            break
        end = _called(app, *order)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # a handler may have closed or replaced them
                stream.flush()
        if os.getpid() != own:
            os._exit(0)  # a copy that the handler forked and let come back: the call is not this one's to tell of
        os.write(tell, _told(number, end) + b"\n")
    os._exit(0)  # threads of a handler must not keep it alive


def _called(app: Any, name: str, payload: str | None, head: Any, redelivered: bool, kept: bool) -> Any:
    from tocsin.handlers.calling import HandlerEnd, call, find
    from tocsin.handlers.context import context_of

    handler = find(app, name)
    if isinstance(handler, HandlerEnd):
        return handler
    return call(handler, payload, context_of(head, redelivered, _print if kept else None))


def _print(data: bytes) -> None:
    with suppress(Exception):
        sys.stderr.flush()
    os.write(2, data)


def _told(number: int, end: Any) -> bytes:
    return json.dumps([number, str(end.kind), error_told(end.error), end.result]).encode()
