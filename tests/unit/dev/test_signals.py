"""What a signal means, by when it comes and where."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tocsin.dev.signals import SAME_SIGNAL_S, HurryAsked, SignalBook, StopAsked, StopSignals


def send_self(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    time.sleep(0.01)  # the handler runs between two steps of the interpreter


def test_signals_that_come_together_are_one() -> None:
    book = SignalBook()
    assert not book.asked
    assert book.note(100.0) is StopAsked
    assert book.note(100.0) is None
    assert book.note(100.0 + SAME_SIGNAL_S / 2) is None
    assert book.asked
    assert not book.hurried


def test_a_later_signal_hurries_once() -> None:
    book = SignalBook()
    book.note(100.0)
    assert book.note(100.0 + SAME_SIGNAL_S) is HurryAsked
    assert book.note(105.0) is None
    assert book.hurried


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_where_it_may(number: signal.Signals) -> None:
    signals = StopSignals()
    former = signal.signal(number, signal.SIG_DFL)  # tests that run in the background inherit an ignored SIGHUP
    try:
        with signals, pytest.raises(StopAsked), signals.interrupting(StopAsked):
            send_self(number)
            pytest.fail("the signal did not break in")
    finally:
        signal.signal(number, former)
    assert signals.asked


def test_a_signal_elsewhere_is_only_noted_and_breaks_in_at_the_next_place() -> None:
    signals = StopSignals()
    with signals:
        send_self(signal.SIGTERM)
        assert signals.asked
        with signals.interrupting(HurryAsked):
            pass
        with pytest.raises(StopAsked), signals.interrupting(StopAsked):
            pytest.fail("a stop that was asked for must not be forgotten")


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with StopSignals():
        assert signal.getsignal(signal.SIGTERM) != before[0]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_sigint_that_a_shell_ignored_for_a_background_job_still_stops() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        signals = StopSignals()
        with signals:
            send_self(signal.SIGINT)
        assert signals.asked
    finally:
        signal.signal(signal.SIGINT, before)
