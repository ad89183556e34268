"""Percentiles and small histograms of what was measured. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

BAR_CHARS: Final = 40
CLASSES_MAX: Final = 12


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the sorted values does not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def described(ordered_ms: Sequence[float]) -> str:
    """Return p50, p99 and max of sorted milliseconds, in words."""
    if not ordered_ms:
        return "none measured"
    p50, p99, most = percentile(ordered_ms, 0.5), percentile(ordered_ms, 0.99), ordered_ms[-1]
    return f"p50 {p50:.0f} ms, p99 {p99:.0f} ms, max {most:.0f} ms"


def histogram(values_ms: Sequence[float]) -> list[str]:
    """Return a small histogram: a line for each class from the first to the last that holds anything."""
    if not values_ms:
        return []
    width = class_width(min(values_ms), max(values_ms))
    first, last = math.floor(min(values_ms) / width), math.floor(max(values_ms) / width)
    counts = [0] * (last - first + 1)
    for value in values_ms:
        counts[math.floor(value / width) - first] += 1
    lines = []
    for index, count in enumerate(counts, first):
        bar = "█" * math.ceil(BAR_CHARS * count / max(counts))
        label = f"{index * width} to {(index + 1) * width}"
        lines.append(f"{label:>16} ms {count:>5}  {bar}".rstrip())
    return lines


def class_width(low: float, high: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50, … that splits the range into few classes."""
    scale = 1
    while True:
        for step in (scale, 2 * scale, 5 * scale):
            if math.floor(high / step) - math.floor(low / step) < CLASSES_MAX:
                return step
        scale *= 10


def bucket_bound(buckets: Sequence[tuple[float, float]], share: float) -> float | None:
    """Return the upper bound of the histogram bucket in which a share of all observations is reached.

    Args:
        buckets: (upper bound, observations up to it), ascending, the last bound infinite: as Prometheus has them.
    """
    if not buckets or buckets[-1][1] == 0:
        return None
    return next(upper for upper, count in buckets if count >= share * buckets[-1][1])
