"""Pages grow to thousands of small rows, and stay bounded in bytes with large ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.adapters.cassandra.page_sizes import ROWS_FIRST, PageBounds, PageSize

BOUNDS = PageBounds()


def read(size: PageSize, row_bytes: int) -> None:
    size.read(size.rows, size.rows * row_bytes, row_bytes)


def test_rows_of_the_usual_size_come_in_thousands_within_a_few_pages() -> None:
    size = PageSize(BOUNDS)
    assert size.rows == ROWS_FIRST
    for _ in range(4):
        read(size, 450)
    assert size.rows == BOUNDS.bytes_max // 450


def test_small_rows_never_make_a_page_of_more_rows_than_allowed() -> None:
    size = PageSize(BOUNDS)
    for _ in range(10):
        read(size, 10)
    assert size.rows == BOUNDS.rows_max


@given(st.integers(1, 3_000_000), st.lists(st.integers(1, 3_000_000), min_size=1, max_size=20))
def test_a_page_is_bounded_when_its_rows_are_like_the_last_ones_and_even_when_all_are_like_the_largest(
    first: int, others: list[int]
) -> None:
    size = PageSize(BOUNDS)
    for row_bytes in (first, *others):
        read(size, row_bytes)
        assert size.rows == 1 or size.rows * row_bytes <= BOUNDS.bytes_max
        assert size.rows == 1 or size.rows * max(first, row_bytes) <= 16 * BOUNDS.bytes_max


def test_an_empty_page_says_nothing() -> None:
    size = PageSize(BOUNDS)
    size.read(0, 0, 0)
    assert size.rows == ROWS_FIRST


def test_half_is_asked_for_after_each_failure_and_never_nothing() -> None:
    size = PageSize(BOUNDS)
    asked = []
    for _ in range(7):
        size.failed()
        asked.append(size.rows)
    assert asked == [16, 8, 4, 2, 1, 1, 1]
    read(size, 450)
    assert size.rows == 4


def test_what_was_refused_is_not_asked_for_again() -> None:
    size = PageSize(BOUNDS)
    assert size.refused()
    for _ in range(5):
        read(size, 450)
    assert size.rows == 16
    assert [size.refused() for _ in range(5)] == [True] * 4 + [False]


def test_the_first_page_is_small_where_pages_must_be() -> None:
    assert PageSize(PageBounds(bytes_max=500_000)).rows == 8
    assert PageSize(PageBounds(bytes_max=10_000)).rows == 1
    assert PageSize(PageBounds(rows_max=5)).rows == 5
