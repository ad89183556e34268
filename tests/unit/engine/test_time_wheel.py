"""The wheel against the plainest model there is: a sorted list without doubles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.entries import Entry
from tocsin.domain.instants import SECOND
from tocsin.engine.time_wheel import TimeWheel


def _entry(run_at: int, job: str, version: int) -> Entry:
    return Entry(run_at, job, run_at, version, f"{job}.{version}", "tenant", "default", b"")


ENTRIES = st.builds(
    _entry,
    st.integers(0, 5 * SECOND) | st.sampled_from([0, SECOND - 1, SECOND]),
    st.sampled_from("abc"),
    st.integers(1, 2),
)
DEEDS = st.lists(
    st.one_of(st.lists(ENTRIES, max_size=6), st.tuples(st.integers(0, 6 * SECOND), st.integers(1, 4))), max_size=20
)


@given(DEEDS)
def test_drains_in_order_without_doubles_and_never_parts_a_place(deeds: list) -> None:  # type: ignore[type-arg]
    wheel, model = TimeWheel(), set()
    for deed in deeds:
        if isinstance(deed, list):
            wheel.add(deed)
            model |= set(deed)
        else:
            upto, limit = deed
            expected: list[Entry] = []
            for entry in sorted(model):
                if entry.run_at > upto or (len(expected) >= limit and entry[:3] != expected[-1][:3]):
                    break
                expected.append(entry)
            assert wheel.drain(upto, limit) == expected
            model -= set(expected)
        assert wheel.next_due() == min((entry.run_at for entry in model), default=None)
    assert wheel.drain(10 * SECOND, 10**6) == sorted(model)
    assert len(wheel) == 0


def test_nothing_is_drained_a_microsecond_early() -> None:
    wheel = TimeWheel()
    wheel.add([_entry(7 * SECOND + 3, "a", 1)])
    assert wheel.drain(7 * SECOND + 2, 10) == []
    assert len(wheel.drain(7 * SECOND + 3, 10)) == 1


def test_asking_when_the_next_is_due_sorts_nothing() -> None:
    wheel = TimeWheel()
    for number in range(100):
        wheel.add([_entry(7 * SECOND + number * 7 % 100, "a", number)])
        assert wheel.next_due() == 7 * SECOND
        assert wheel.drain_second(7 * SECOND - 1, 10) == []
        assert not wheel._sorted, "it is asked in every turn"
    assert [entry.run_at for entry in wheel.drain(7 * SECOND + 1, 10)] == [7 * SECOND, 7 * SECOND + 1]
    assert wheel.next_due() == 7 * SECOND + 2
