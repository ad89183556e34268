"""The histogram of many observations at once says what the client library's own does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from tocsin.adapters.metrics.batched_histogram import BatchedHistogram

BOUNDS = (0.001, 0.5, 1, 60)
values = st.lists(st.one_of(st.floats(-100, 100), st.sampled_from(BOUNDS)).map(lambda v: round(v * 1024) / 1024))


def lines(registry: CollectorRegistry) -> list[str]:
    return [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]


@given(st.lists(values))
def test_it_is_scraped_as_the_library_s_own(batches: list[list[float]]) -> None:
    one, other = CollectorRegistry(), CollectorRegistry()
    batched = BatchedHistogram("x_seconds", "How late", BOUNDS, one)
    plain = Histogram("x_seconds", "How late", buckets=BOUNDS, registry=other)
    for batch in batches:
        batched.observe_all(batch)
        for value in batch:
            plain.observe(value)
    assert lines(one) == lines(other)


@given(st.lists(st.tuples(st.sampled_from(["FAILED", "SUCCEEDED"]), values)))
def test_with_a_label_too(batches: list[tuple[str, list[float]]]) -> None:
    one, other = CollectorRegistry(), CollectorRegistry()
    batched = BatchedHistogram("x_seconds", "How late", BOUNDS, one, label="kind")
    plain = Histogram("x_seconds", "How late", ["kind"], buckets=BOUNDS, registry=other)
    for kind, batch in batches:
        batched.observe_all(batch, kind)
        child = plain.labels(kind)
        for value in batch:
            child.observe(value)
    assert lines(one) == lines(other)
