"""The process in which one attempt runs alone. Started by ``alone``, never by people.

What may kill it (the record's own decoding, its target's code) comes only after the parent has been told that the
runner is made: a death before that is not the attempt's doing. Nothing of tocsin is imported at the top that is not
needed to get there.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tocsin.adapters.targets.child_process import end_with, error_told, make_ordered

MADE: Final = b"made\n"
"""Said when the runner is made: from here on a death counts."""
OOM_SCORE_MAX: Final = "1000"
LOOK_EVERY_S: Final = 0.01


def main(tell: int, parent: int) -> None:
    """Run one attempt and tell its end.

    Args:
        tell: file descriptor of the pipe to the parent.
        parent: its process id. On stdin it sends how the runner is made, then the attempt.
    """
    # Be the kernel's first choice when memory is short; where that is not the system's way, it chooses by size.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE_MAX)
    end_with(parent, tell)
    orders = sys.stdin.buffer
    runner = make_ordered(orders)
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
    fields = {
        "kind": str(end.kind),
        "started_at": end.started_at,
        "finished_at": end.finished_at,
        "result": end.result,
        "started": str(end.started),
        "error": error_told(end.error),
    }
    return json.dumps(fields).encode()
