"""A histogram that takes many observations at once: a burst would spend longer on telling than on firing."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class BatchedHistogram(Collector):
    """Is scraped like ``prometheus_client.Histogram``, but for the sample ``_created``.

    Args:
        name, documentation: as there.
        buckets: upper bounds, ascending, without infinity.
        registry: where it is scraped.
    """

    def __init__(self, name: str, documentation: str, buckets: Sequence[float], registry: CollectorRegistry) -> None:
        self._name = name
        self._documentation = documentation
        self._bounds = [float(bound) for bound in buckets]
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()
        registry.register(self)

    def observe_all(self, values: Iterable[float]) -> None:
        """Count values; equal ones cost one look at the buckets."""
        with self._lock:
            for value, count in Counter(values).items():
                self._counts[bisect_left(self._bounds, value)] += count
                self._sum += value * count

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            counts, total = list(accumulate(self._counts)), self._sum
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        family = HistogramMetricFamily(self._name, self._documentation)
        family.add_metric([], buckets=list(zip(names, counts, strict=True)), sum_value=total)
        yield family
