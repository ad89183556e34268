"""Reading lines from a child's pipe until a deadline."""

from __future__ import annotations

import os
import select
import time
from typing import Final

LINE_BYTES_MAX: Final = 64 * 1024


class Pipe:
    """The reading end of a pipe.

    Attributes:
        is_open: the writing end is held by somebody; learnt by reading.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held = bytearray()
        self._poller = select.poll()  # select() takes no number above 1,023
        self._poller.register(descriptor, select.POLLIN)
        self.is_open = True

    def read_line(self, until_s: float) -> bytes | None:
        """Return the next line, or None where there is none by a monotonic time, or ever."""
        while b"\n" not in self._held:
            left_s = until_s - time.monotonic()
            if not self.is_open or left_s <= 0 or len(self._held) > LINE_BYTES_MAX:
                return None
            if self._poller.poll(max(1, left_s * 1000)):
                piece = os.read(self._descriptor, LINE_BYTES_MAX)
                self.is_open = bool(piece)
                self._held += piece
        line, _, rest = bytes(self._held).partition(b"\n")
        self._held = bytearray(rest)
        return line

    def close(self) -> None:
        """Close it, once."""
        if self._descriptor >= 0:
            self._poller.unregister(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
            self.is_open = False
