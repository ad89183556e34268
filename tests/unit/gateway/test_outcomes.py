"""The book of outcomes: what it keeps, and whom it wakes."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.domain.errors import Unavailable
from tocsin.ports.command_bus import OutcomeSeen
from tocsin.roles.gateway.outcomes import OutcomeBook

NOW_MS = 10_000_000


def command_id(number: int) -> str:
    return f"cmd_{number:012x}7{number:019x}"


def book(kept_max: int = 10, kept_bytes_max: int = 1_000, waiting_max: int = 10) -> OutcomeBook:
    return OutcomeBook(kept_max, kept_bytes_max, waiting_max, lambda _count: None, lambda: NOW_MS)


@given(st.lists(st.tuples(st.integers(1, 30), st.binary(max_size=40)), max_size=60))
@settings(deadline=None)
def test_what_is_kept_is_bounded_and_the_latest(seen: list[tuple[int, bytes]]) -> None:
    b = book(kept_max=5, kept_bytes_max=100)
    for number, value in seen:
        b.learn([OutcomeSeen(command_id(number), value)])
    kept = {number: b.outcome(command_id(number)) for number in range(1, 31)}
    known = [value for value in kept.values() if value is not None]
    assert len(known) <= 5
    assert sum(map(len, known)) <= 100
    last = dict(seen)
    for number, found in kept.items():
        assert found is None or found == last[number]
        if number in last and found is None:
            assert not b.may_be_pending(command_id(number), number), "a decided command is never called pending"
    if seen and len(seen[-1][1]) <= 100:
        assert b.outcome(command_id(seen[-1][0])) == seen[-1][1] or len(last) < len(seen)


def test_whoever_waits_is_woken_once_and_repeats_do_no_harm() -> None:
    async def scene() -> None:
        b = book()
        waiting = b.expect(command_id(1))
        b.learn([OutcomeSeen(command_id(2), b"other")])
        assert not waiting.done()
        b.learn([OutcomeSeen(command_id(1), b"mine"), OutcomeSeen(command_id(1), b"again")])
        assert await waiting == b"mine"
        b.forget(command_id(1))
        b.forget(command_id(1))

    asyncio.run(scene())


def test_who_left_is_not_woken_and_makes_room() -> None:
    async def scene() -> None:
        b = book(waiting_max=1)
        waiting = b.expect(command_id(1))
        with pytest.raises(Unavailable):
            b.expect(command_id(2))
        waiting.cancel()
        b.learn([OutcomeSeen(command_id(1), b"late")])
        b.forget(command_id(1))
        b.expect(command_id(2))

    asyncio.run(scene())


def test_made_up_ids_from_the_future_hide_nobodys_command() -> None:
    b = book(kept_max=2)
    future = [OutcomeSeen(command_id(NOW_MS + 3_600_000 * n), b"made up") for n in range(1, 20)]
    b.learn(future)
    assert b.outcome(future[-1].command_id) is None
    assert b.may_be_pending(command_id(NOW_MS), NOW_MS)


def test_ids_of_strangers_are_not_kept() -> None:
    b = book()
    b.learn([OutcomeSeen("my-own-id", b"x"), OutcomeSeen("", b"y"), OutcomeSeen("cmd_\ud800", b"z")])
    assert b.outcome("my-own-id") is None
