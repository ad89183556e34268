"""Heartbeats of a process, whatever its role: from a thread of their own, while the loop they watch turns.

A loop that hangs must not look alive, and a loop that is merely slow must not look dead; so the thread beats on its
own, but stops when the loop has not turned for long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import structlog

from tocsin.domain.fleet import Heartbeat
from tocsin.ports.fleet import FleetBeats

log = structlog.get_logger()

STALLED_AFTER_S: Final = 120.0
"""A loop that has not turned for so long is taken for hung."""
CLOSE_WAIT_S: Final = 3.0


class LoopWatch:
    """Where a loop notes that it turned, and others read how long ago. Safe between threads.

    Args:
        monotonic_s: seconds that never jump.
    """

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._turned_at_s = monotonic_s()

    def turned(self) -> None:
        self._turned_at_s = self._monotonic_s()

    def age_s(self) -> float:
        return self._monotonic_s() - self._turned_at_s


class HeartbeatSender:
    """Beats until it is stopped.

    Args:
        beats: where to.
        describe: returns the heartbeat; its argument says whether the process has stopped.
        watch: the loop whose life is told.
        every_s: the period.
        stalled_after_s: see ``STALLED_AFTER_S``.
    """

    def __init__(
        self,
        beats: FleetBeats,
        describe: Callable[[bool], Heartbeat],
        watch: LoopWatch,
        every_s: float,
        stalled_after_s: float = STALLED_AFTER_S,
    ) -> None:
        self._beats = beats
        self._describe = describe
        self._watch = watch
        self._every_s = every_s
        self._stalled_after_s = stalled_after_s
        self._silent = False
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Beat at once, then every period."""
        self._thread.start()

    def stop(self, *, clean: bool) -> None:
        """End the beats.

        Args:
            clean: all that the process had to say is in the log: say that it has stopped. Otherwise fall silent.
        """
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_WAIT_S)
        if clean and not self._thread.is_alive():
            self._beats.send(self._describe(True))
            self._beats.close(CLOSE_WAIT_S)

    def _run(self) -> None:
        while not self._ending.is_set():
            self.beat()
            self._ending.wait(self._every_s)

    def beat(self) -> None:
        """Send one heartbeat, unless the loop hangs."""
        stalled = self._watch.age_s() > self._stalled_after_s
        if stalled != self._silent:
            self._silent = stalled
            text = "the loop does not turn: no more heartbeats" if stalled else "the loop turns again"
            log.error(text, action="fleet.loop_stalled" if stalled else "fleet.loop_turns")
        if not stalled:
            self._beats.send(self._describe(False))
