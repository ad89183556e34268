"""Heartbeats: from a thread of their own, while the loop that they watch turns."""

from __future__ import annotations

import threading
import time

from tocsin.adapters.memory.fleet import MemoryFleetBeats
from tocsin.domain.fleet import Heartbeat
from tocsin.roles.heartbeat import HeartbeatSender, LoopWatch


def describe(stopped: bool) -> Heartbeat:
    return Heartbeat("worker-1", "host", "worker", "host", "0", 0, stopped)


class HandClock:
    def __init__(self) -> None:
        self.seconds = 50.0

    def __call__(self) -> float:
        return self.seconds


def test_it_beats_until_it_is_stopped_and_then_says_so() -> None:
    beats = MemoryFleetBeats()
    sender = HeartbeatSender(beats, describe, LoopWatch(time.monotonic), every_s=0.01)
    sender.start()
    until = time.monotonic() + 30
    while len(beats.beats) < 3 and time.monotonic() < until:
        time.sleep(0.005)
    sender.stop(clean=True)
    assert len(beats.beats) >= 4
    assert [beat.stopped for beat in beats.beats] == [False] * (len(beats.beats) - 1) + [True]
    assert beats.is_closed
    assert not any(thread.name == "heartbeat" for thread in threading.enumerate())


def test_an_unclean_end_only_falls_silent() -> None:
    beats = MemoryFleetBeats()
    sender = HeartbeatSender(beats, describe, LoopWatch(time.monotonic), every_s=60)
    sender.start()
    sender.stop(clean=False)
    assert not any(beat.stopped for beat in beats.beats)


def test_a_loop_that_hangs_is_not_told_to_live() -> None:
    clock, beats = HandClock(), MemoryFleetBeats()
    watch = LoopWatch(clock)
    sender = HeartbeatSender(beats, describe, watch, every_s=5)
    sender.beat()
    clock.seconds += 120
    sender.beat()
    assert len(beats.beats) == 2
    clock.seconds += 1
    sender.beat()
    sender.beat()
    assert len(beats.beats) == 2
    watch.turned()
    sender.beat()
    assert len(beats.beats) == 3
