"""Being asked to stop: which signal counts as what, and where it may interrupt.

The first signal asks for a polite stop, a later one for a quick end. Signals that come together are one: a terminal,
``make`` and a wrapper may each pass on the same Ctrl-C.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SAME_SIGNAL_S: Final = 1.0
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopAsked(KeyboardInterrupt):
    """The first signal came where it may interrupt. Not an Exception, so that nobody mistakes it for a failure."""


class HurryAsked(KeyboardInterrupt):
    """A further signal came: end everything at once."""


class SignalBook:
    """Tells a first signal from its echo and from an impatient second one."""

    def __init__(self) -> None:
        self._first_at: float | None = None
        self.hurried = False

    @property
    def asked(self) -> bool:
        """Whether a stop was asked for."""
        return self._first_at is not None

    def note(self, now_s: float) -> type[KeyboardInterrupt] | None:
        """Take note of a signal; return what it asks for that was not asked before, if anything."""
        if self._first_at is None:
            self._first_at = now_s
            return StopAsked
        if self.hurried or now_s - self._first_at < SAME_SIGNAL_S:
            return None
        self.hurried = True
        return HurryAsked


class StopSignals:
    """The process's handlers, set for the length of a ``with`` block on the main thread."""

    def __init__(self) -> None:
        self.book = SignalBook()
        self._interruptible: tuple[type[KeyboardInterrupt], ...] = ()

    @property
    def asked(self) -> bool:
        """Whether a stop was asked for."""
        return self.book.asked

    def __enter__(self) -> StopSignals:
        # A signal that our parent had ignored (nohup, a job in the background) stays so only if it is SIGHUP:
        # shells ignore SIGINT for background jobs, and yet whoever sends it means it.
        self._before = {
            number: signal.signal(number, self._on_signal)
            for number in SIGNALS
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def interrupting(self, *kinds: type[KeyboardInterrupt]) -> Iterator[None]:
        """Let these kinds of asking break into the block, as exceptions."""
        before, self._interruptible = self._interruptible, kinds
        try:
            if StopAsked in kinds and self.asked:
                raise StopAsked
            if HurryAsked in kinds and self.book.hurried:
                raise HurryAsked
            yield
        finally:
            self._interruptible = before

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        kind = self.book.note(time.monotonic())
        if kind is not None and kind in self._interruptible:
            raise kind
