"""How a handler leaves evidence of its start: one short write, which outlives the process. Needs nothing but Python."""

from __future__ import annotations

import os
import struct
import time

_RECORD = struct.Struct("<qqq")
_file = os.open(os.environ.get("PEER_STARTS", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(number: int, told: bool = False) -> None:
    """Note that a job's handler started; ``told``: it was told that the job may have run before."""
    os.write(_file, _RECORD.pack(number, time.time_ns(), told))


def planned() -> list[tuple[int, float]]:
    """Return the jobs to insert: number and due time (Unix). Those that warm up, due at once, have negative numbers."""
    due_s = int(os.environ["PEER_DUE_MS"]) / 1000
    now_s = time.time()
    warm = [(-number, now_s) for number in range(1, int(os.environ["PEER_WARM"]) + 1)]
    return warm + [(number, due_s) for number in range(int(os.environ["PEER_N"]))]
