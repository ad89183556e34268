"""Reading lines from a child's pipe until a deadline, and meanwhile whatever it prints."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import Final

LINE_BYTES_MAX: Final = 64 * 1024
PIECE_BYTES: Final = 64 * 1024


class Pipe:
    """The reading end of a pipe.

    Args:
        descriptor: of the pipe.
        printed: takes what comes on the other descriptor.

    Attributes:
        is_open: the writing end is held by somebody; learnt by reading.
    """

    def __init__(self, descriptor: int, printed: Callable[[bytes], None]) -> None:
        self._descriptor = descriptor
        self._printed = printed
        self._output = -1
        self._held = bytearray()
        self._poller = select.poll()  # select() takes no number above 1,023
        self._poller.register(descriptor, select.POLLIN)
        self.is_open = True

    def listen_to(self, output: int) -> None:
        """Read also what is printed there; closing it is its owner's business."""
        self._output = output
        os.set_blocking(output, False)
        self._poller.register(output, select.POLLIN)

    def read_line(self, until_s: float) -> bytes | None:
        """Return the next line, or None where there is none by a monotonic time, or ever."""
        while b"\n" not in self._held:
            left_s = until_s - time.monotonic()
            if not self.is_open or left_s <= 0 or len(self._held) > LINE_BYTES_MAX:
                return None
            for descriptor, _ in self._poller.poll(max(1, left_s * 1000)):
                if descriptor == self._output:
                    self.drain(1)
                else:
                    piece = os.read(descriptor, LINE_BYTES_MAX)
                    self.is_open = bool(piece)
                    self._held += piece
        line, _, rest = bytes(self._held).partition(b"\n")
        self._held = bytearray(rest)
        return line

    def drain(self, pieces_max: int = 64) -> None:
        """Take what is printed already; bounded, for something that is left behind may print for ever."""
        for _ in range(pieces_max):
            if self._output < 0:
                return
            try:
                piece = os.read(self._output, PIECE_BYTES)
            except BlockingIOError:
                return
            if not piece:
                self._poller.unregister(self._output)
                self._output = -1
                return
            self._printed(piece)

    def close(self) -> None:
        """Close it, once."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = self._output = -1
            self.is_open = False
