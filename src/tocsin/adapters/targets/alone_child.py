"""The process in which one attempt runs alone. Started by ``alone``, never by people.

What may kill it (the record's own decoding, its target's code) comes only after the parent has been told that the
runner is made: a death before that is not the attempt's doing. Nothing of tocsin is imported at the top that is not
needed to get there.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import pickle
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

MADE: Final = b"made\n"
"""Said when the runner is made: from here on a death counts."""
OOM_SCORE_MAX: Final = "1000"
LOOK_EVERY_S: Final = 0.01
PR_SET_PDEATHSIG: Final = 1


def main(tell: int, parent: int, orders: IO[bytes]) -> None:
    """Run one attempt and tell its end.

    Args:
        tell: file descriptor of the pipe to the parent.
        parent: its process id.
        orders: what it sends: the path to import from and the runner's spec, then the attempt.
    """
    os.set_inheritable(tell, False)
    _be_first_to_go(parent)
    path, factory, argument = pickle.load(orders)
    sys.path[:] = path
    module, _, name = factory.partition(":")
    runner = getattr(importlib.import_module(module), name)(argument)
    os.write(tell, MADE)
    attempt = pickle.load(orders)
    runner.start([attempt])
    while not (ended := runner.ended()):
        time.sleep(LOOK_EVERY_S)
    os.write(tell, _told(ended[0]) + b"\n")
    runner.close()
    sys.stdout.flush()
    os._exit(0)  # a target's threads must not keep it alive


def _told(end: Any) -> bytes:
    error = end.error
    fields = {
        "kind": str(end.kind),
        "started_at": end.started_at,
        "finished_at": end.finished_at,
        "result": end.result,
        "started": str(end.started),
        "error": error and [error.error_class, error.message, error.status, error.retry_after_s],
    }
    return json.dumps(fields).encode()


def _be_first_to_go(parent: int) -> None:
    """Be the kernel's first choice when memory is short, and end with the parent, however that ends."""
    # Where that is not the system's way, the kernel chooses by size.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE_MAX)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
