"""A histogram that takes many observations at once: a burst would spend longer on telling than on firing."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


@dataclass(slots=True)
class _Counts:
    """What was counted under one label."""

    buckets: list[int]
    sum: float = 0.0


class BatchedHistogram(Collector):
    """Is scraped like ``prometheus_client.Histogram``, but for the sample ``_created``.

    Args:
        name, documentation: as there.
        buckets: upper bounds, ascending, without infinity.
        registry: where it is scraped.
        label: the name of its only label; None: it has none.
    """

    def __init__(
        self,
        name: str,
        documentation: str,
        buckets: Sequence[float],
        registry: CollectorRegistry,
        label: str | None = None,
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._bounds = [float(bound) for bound in buckets]
        self._labels = [] if label is None else [label]
        self._kinds: dict[str, _Counts] = {}
        """By the label's value."""
        if label is None:
            self._kinds[""] = self._none()
        self._lock = threading.Lock()
        registry.register(self)

    def _none(self) -> _Counts:
        return _Counts([0] * (len(self._bounds) + 1))

    def observe_all(self, values: Iterable[float], kind: str = "") -> None:
        """Count values; equal ones cost one look at the buckets.

        Args:
            values: what was measured.
            kind: the label's value.
        """
        with self._lock:
            counts = self._kinds.get(kind)
            if counts is None:
                counts = self._kinds[kind] = self._none()
            for value, count in Counter(values).items():
                counts.buckets[bisect_left(self._bounds, value)] += count
                counts.sum += value * count

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            kinds = [(kind, list(accumulate(counts.buckets)), counts.sum) for kind, counts in self._kinds.items()]
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        for kind, buckets, total in kinds:
            labels = [kind] if self._labels else []
            family.add_metric(labels, buckets=list(zip(names, buckets, strict=True)), sum_value=total)
        yield family
