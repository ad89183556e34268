"""Batches keep order, lose nothing and stay within their bounds."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tocsin.adapters.cassandra.batches import by_replica, split


@given(st.lists(st.integers(0, 100)), st.integers(1, 10), st.integers(1, 150))
def test_items_are_split_in_order_within_both_bounds(sizes: list[int], rows_max: int, bytes_max: int) -> None:
    items = list(enumerate(sizes))
    parts = list(split(items, lambda item: item[1], rows_max, bytes_max))
    assert [item for part in parts for item in part] == items
    for part in parts:
        assert 1 <= len(part) <= rows_max
        assert len(part) == 1 or sum(size for _, size in part) <= bytes_max


@given(st.lists(st.integers(0, 100), min_size=1), st.integers(1, 10), st.integers(1, 150))
def test_a_part_ends_only_where_the_next_item_has_no_room(sizes: list[int], rows_max: int, bytes_max: int) -> None:
    parts = list(split(sizes, lambda size: size, rows_max, bytes_max))
    for part, following in pairwise(parts):
        assert len(part) == rows_max or sum(part) + following[0] > bytes_max


def test_a_large_item_goes_alone() -> None:
    assert list(split([10, 10, 500, 10, 10], int, 100, 40)) == [[10, 10], [500], [10, 10]]
    assert list(split([500, 500, 10], int, 100, 40)) == [[500], [500], [10]]


class FakeConnection:
    """Knows on which node a partition lies: the one that its key begins with."""

    def replica_of(self, routing_key: bytes) -> str:
        return chr(routing_key[0])


def test_writes_are_grouped_by_the_node_that_has_them_and_keep_their_order() -> None:
    items = ["a1", "b1", "a2", "c1", "b2", "a3"]
    groups = by_replica(FakeConnection(), items, str.encode)  # type: ignore[arg-type]
    assert groups == [["a1", "a2", "a3"], ["b1", "b2"], ["c1"]]
    assert by_replica(FakeConnection(), [], str.encode) == []  # type: ignore[arg-type]
