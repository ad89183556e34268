"""The offset window: what may be committed, and what a successor learns from it."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.domain.errors import Undecodable
from tocsin.engine.offset_metadata import BEGUN_MAX, METADATA_BYTES_MAX, WINDOW_MAX, Marks, decode_marks, encode_marks
from tocsin.engine.offset_window import OffsetWindow, Seen

relative = st.integers(0, WINDOW_MAX - 1)


@given(
    settled=st.sets(relative, max_size=300), begun=st.sets(relative, max_size=BEGUN_MAX), takeovers=st.integers(0, 127)
)
def test_metadata_comes_back_as_it_was_written(settled: set[int], begun: set[int], takeovers: int) -> None:
    begun -= settled
    marks = decode_marks(encode_marks(settled, begun, takeovers))
    assert marks == Marks(frozenset(settled), frozenset(begun), takeovers)


def test_the_largest_metadata_is_below_the_brokers_limit() -> None:
    begun = range(1, 2 * BEGUN_MAX, 2)
    settled = set(range(WINDOW_MAX)) - set(begun)
    text = encode_marks(settled, begun, 1_000)
    assert len(text.encode()) <= METADATA_BYTES_MAX
    assert decode_marks(text) == Marks(frozenset(settled), frozenset(begun), 127)


def test_nothing_to_say_is_the_empty_text() -> None:
    assert encode_marks([], [], 0) == ""
    assert decode_marks("") == decode_marks(None) == Marks()


@pytest.mark.parametrize(
    ("settled", "begun"), [([WINDOW_MAX], []), ([-1], []), ([], [WINDOW_MAX]), ([], range(BEGUN_MAX + 1))]
)
def test_what_is_out_of_bounds_is_not_written(settled: list[int], begun: list[int]) -> None:
    with pytest.raises(ValueError, match=r"offset|window"):
        encode_marks(settled, begun, 0)


@given(st.one_of(st.text(min_size=1), st.binary(min_size=1).map(lambda raw: base64.b64encode(raw).decode())))
def test_garbage_is_refused_and_never_crashes(text: str) -> None:
    try:
        marks = decode_marks(text)
    except Undecodable:
        return
    # What is not refused means something: it can be written again and says the same.
    assert decode_marks(encode_marks(*marks)) == marks


def test_a_cut_text_is_refused() -> None:
    text = encode_marks([1, 3], [2, 5], 0)
    for length in range(1, len(text)):
        with pytest.raises(Undecodable):
            decode_marks(text[:length])


def test_an_absurdly_long_text_is_refused() -> None:
    with pytest.raises(Undecodable, match="longer"):
        decode_marks("A" * 100_000)


def test_the_prefix_stops_at_the_first_unsettled_offset() -> None:
    window = OffsetWindow(10)
    for offset in (10, 11, 12):
        assert window.received(offset) is Seen.NEW
        window.begin(offset)
    window.settle(12)
    window.settle(11)
    assert (window.prefix, window.unsettled) == (10, 1)
    assert decode_marks(window.metadata()) == Marks(frozenset({1, 2}), frozenset({0}))
    window.settle(10)
    assert (window.prefix, window.unsettled, window.metadata()) == (13, 0, "")


def test_offsets_that_never_come_hold_nothing_up() -> None:
    window = OffsetWindow(0)
    window.received(0)
    window.received(7)
    window.begin(0)
    window.begin(7)
    window.settle(0)
    assert window.prefix == 7
    window.settle(7)
    assert window.prefix == 8


def test_gaps_alone_never_fill_the_window() -> None:
    window = OffsetWindow(0, window_max=64)
    for offset in range(0, 10_000, 100):
        window.received(offset)
        window.begin(offset)
        window.settle(offset)
        assert not window.is_full
        assert window.is_roomy


def test_a_slow_attempt_fills_the_window_and_its_end_empties_it() -> None:
    window = OffsetWindow(0, window_max=64)
    for offset in range(64):
        window.received(offset)
        window.begin(offset)
        if offset:
            window.settle(offset)
    assert (window.is_full, window.is_roomy) == (True, False)
    window.settle(0)
    assert (window.is_full, window.is_roomy) == (False, True)


def test_nothing_begins_past_the_window() -> None:
    window = OffsetWindow(0, window_max=64)
    window.received(0)
    window.received(64)
    assert window.can_begin(0)
    assert not window.can_begin(64)
    with pytest.raises(ValueError, match="cannot begin"):
        window.begin(64)
    window.begin(0)
    window.settle(0)
    assert window.can_begin(64)


def test_the_begun_list_is_bounded_also_by_what_is_inherited() -> None:
    window = OffsetWindow(0, Marks(begun=frozenset({5})), begun_max=2)
    window.received(0)
    window.received(1)
    window.begin(0)
    assert not window.can_begin(1)
    assert window.received(5) is Seen.BEGUN
    assert window.can_begin(5)


def test_a_withdrawn_offset_is_not_begun_but_an_inherited_one_stays() -> None:
    window = OffsetWindow(0, Marks(begun=frozenset({1})))
    for offset in (0, 1):
        window.received(offset)
        window.begin(offset)
        window.withdraw(offset)
    assert decode_marks(window.metadata()).begun == {1}


@pytest.mark.parametrize("offset", [0, 1, 9])
def test_only_a_begun_offset_settles(offset: int) -> None:
    window = OffsetWindow(0, Marks(begun=frozenset({9})))
    window.received(0)
    with pytest.raises(ValueError, match="not begun"):
        window.settle(offset)


def test_what_a_predecessor_said_is_said_again_before_it_is_received() -> None:
    window = OffsetWindow(100, Marks(frozenset({3, 5}), frozenset({0, 40})))
    assert window.received(100) is Seen.BEGUN
    window.begin(100)
    window.settle(100)
    assert window.prefix == 101
    assert decode_marks(window.metadata()) == Marks(frozenset({2, 4}), frozenset({39}))


def test_an_offset_that_comes_twice_is_ignored() -> None:
    window = OffsetWindow(0)
    window.received(0)
    window.received(1)
    assert window.received(0) is Seen.REPEATED
    assert (window.prefix, window.position, window.unsettled) == (0, 2, 2)


def test_a_log_that_starts_again_below_the_commit_is_read_from_there() -> None:
    window = OffsetWindow(1_000, Marks(frozenset({2}), frozenset({1})))
    assert window.received(1) is Seen.BEGUN, "whatever is below the commit was handed out before"
    assert (window.prefix, window.position) == (1, 2)
    assert decode_marks(window.metadata()) == Marks(doubt=999)
    window.begin(1)
    window.settle(1)
    assert window.received(1_000) is Seen.NEW


def test_takeovers_count_until_something_settles() -> None:
    window = OffsetWindow(0, Marks(takeovers=3))
    window.received(0)
    window.begin(0)
    assert decode_marks(window.metadata()).takeovers == 3
    assert decode_marks(window.metadata(released=True)).takeovers == 0
    window.settle(0)
    assert window.metadata() == ""


class Owner:
    """A partition's owner over a given log, acting at random, beside a plain model of what it did."""

    def __init__(self, log: list[int], start: int, marks: Marks) -> None:
        self.log = [offset for offset in log if offset >= start]
        self.window = OffsetWindow(start, marks, window_max=64, begun_max=8)
        self.received: set[int] = set()
        self.begun: set[int] = set()
        self.settled: set[int] = set()
        self.skipped: set[int] = set()
        self.known_begun: set[int] = set()

    def receive(self) -> None:
        if self.log:
            offset = self.log.pop(0)
            seen = self.window.received(offset)
            assert seen is not Seen.REPEATED
            (self.skipped if seen is Seen.SETTLED else self.received).add(offset)
            if seen is Seen.BEGUN:
                self.known_begun.add(offset)

    def begin(self, draw: st.DataObject) -> None:
        able = sorted(o for o in self.received - self.begun - self.settled if self.window.can_begin(o))
        if able:
            offset = draw.draw(st.sampled_from(able))
            self.window.begin(offset)
            self.begun.add(offset)

    def settle(self, draw: st.DataObject) -> None:
        if self.begun:
            offset = draw.draw(st.sampled_from(sorted(self.begun)))
            self.window.settle(offset)
            self.begun.remove(offset)
            self.settled.add(offset)


@settings(max_examples=200, deadline=None)
@given(gaps=st.lists(st.integers(1, 9), min_size=1, max_size=60), data=st.data())
def test_a_chain_of_owners_settles_every_offset_exactly_once(gaps: list[int], data: st.DataObject) -> None:
    log = [sum(gaps[: i + 1]) for i in range(len(gaps))]
    settled: set[int] = set()
    may_have_run: set[int] = set()
    committed, text = 0, ""
    for _ in range(data.draw(st.integers(1, 4))):
        owner = Owner(log, committed, decode_marks(text))
        for action in data.draw(st.lists(st.sampled_from("rrrbbs"), max_size=60)):
            if action == "r":
                owner.receive()
            elif action == "b":
                owner.begin(data)
            else:
                owner.settle(data)
        assert not owner.settled & settled, "settled twice"
        assert owner.skipped <= settled, "skipped what nobody settled"
        assert owner.received & settled == set(), "ran what was settled"
        assert owner.known_begun == owner.received & may_have_run, "begun ones must be known, and no others"
        settled |= owner.settled
        committed, text = owner.window.prefix, owner.window.metadata()
        assert len(text) <= METADATA_BYTES_MAX
        unsettled = [offset for offset in log if offset not in settled]
        assert all(offset >= committed for offset in unsettled), "committed past an unsettled offset"
        may_have_run = (may_have_run | owner.begun) - settled
