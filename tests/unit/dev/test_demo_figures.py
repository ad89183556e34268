"""Percentiles, histograms and bounds of the demonstration's summary."""

from __future__ import annotations

import math

import pytest

from tocsin.dev.demo.door import buckets, total
from tocsin.dev.demo.figures import CLASSES_MAX, bucket_bound, class_width, described, histogram, percentile


def test_nothing_measured_is_said_in_words() -> None:
    assert described(()) == "none measured"
    assert described([3.0]) == "p50 3 ms, p99 3 ms, max 3 ms"


def test_percentiles_are_values_that_occurred() -> None:
    ordered = [float(n) for n in range(1, 101)]
    assert [percentile(ordered, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1.0, 50.0, 99.0, 100.0]
    assert percentile([7.0], 0.5) == 7.0


@pytest.mark.parametrize("values", [[0.2], [3.0, 3.0, 11.0], [626.0, 1_494.0, 12.5], [-3.0, 4.0], [90_000.0, 1.0]])
def test_a_histogram_counts_everything_in_few_lines(values: list[float]) -> None:
    lines = histogram(values)
    assert 1 <= len(lines) <= CLASSES_MAX
    assert sum(int(line.split(" ms ")[1].split()[0]) for line in lines) == len(values)
    assert max(line.count("█") for line in lines) > 0


def test_a_histogram_of_nothing_is_empty_and_classes_are_round() -> None:
    assert histogram([]) == []
    assert class_width(0.0, 1_494.0) == 200
    assert class_width(5.0, 5.0) == 1


def test_a_bound_of_a_prometheus_histogram() -> None:
    samples = [({"le": "+Inf"}, 10.0), ({"le": "0.1"}, 9.0), ({"le": "0.01"}, 4.0)]
    ascending = buckets(samples)
    assert ascending == [(0.01, 4.0), (0.1, 9.0), (math.inf, 10.0)]
    assert bucket_bound(ascending, 0.4) == 0.01
    assert bucket_bound(ascending, 0.5) == 0.1
    assert bucket_bound(ascending, 0.99) == math.inf
    assert bucket_bound([], 0.5) is None
    assert bucket_bound([(math.inf, 0.0)], 0.5) is None
    assert total([({}, 2.0), ({"state": "x"}, 3.0)]) == 5
