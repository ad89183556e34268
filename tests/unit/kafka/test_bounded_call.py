"""Calls that come back, raise, or never end."""

from __future__ import annotations

import threading

import pytest

from tocsin.adapters.kafka.bounded_call import BoundedCaller, HungCall


def test_returns_and_raises_what_the_calls_do_one_after_the_other() -> None:
    caller = BoundedCaller()
    assert [caller.call(lambda n=n: n * 2, 60) for n in range(3)] == [0, 2, 4]
    with pytest.raises(ZeroDivisionError):
        caller.call(lambda: 1 // 0, 60)
    assert caller.call(threading.current_thread, 60) is not threading.current_thread()
    caller.close()


def test_gives_up_what_does_not_come_back_and_leaves_no_thread_once_it_does() -> None:
    caller, released = BoundedCaller(), threading.Event()
    stuck: list[threading.Thread] = []

    def hang() -> None:
        stuck.append(threading.current_thread())
        released.wait()

    with pytest.raises(HungCall, match="did not come back"):
        caller.call(hang, 0.2)
    released.set()
    stuck[0].join(60)
    assert not stuck[0].is_alive()
