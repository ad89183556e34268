"""From what was asked for, received and read back to the figures of the summary. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tocsin.domain.instants import Micros

BAR_CHARS: Final = 40
CLASSES_MAX: Final = 12


@dataclass(frozen=True, slots=True)
class Created:
    """A job that the gateway took.

    Attributes:
        job_id, due_at, burst: which, when, and whether it is one of those due in one second.
        answered_at: when its answer arrived, µs.
        decided: answered 201; else 202, in the log but not yet decided.
    """

    job_id: str
    due_at: Micros
    burst: bool
    answered_at: Micros
    decided: bool = True


@dataclass(frozen=True, slots=True)
class Summary:
    """What became of the jobs; each number counts jobs unless it says otherwise.

    Attributes:
        created: taken by the gateway.
        undecided: of these, answered 202.
        refused: creates that were not taken.
        fired: with a run in the history.
        succeeded, failed: by their state in the history.
        received: seen by the target at least once.
        calls: that the target got, repeats included.
        repeated: seen by the target more than once.
        early: seen by the target before they were due.
        lost: never seen by the target.
        created_late: answered after they were due; left out of the lateness, for it is not the scheduler's.
        lateness_ms, burst_lateness_ms: first arrival at the target after the due time, sorted.
    """

    created: int
    undecided: int
    refused: int
    fired: int
    succeeded: int
    failed: int
    received: int
    calls: int
    repeated: int
    early: int
    lost: int
    created_late: int
    lateness_ms: tuple[float, ...]
    burst_lateness_ms: tuple[float, ...]

    @property
    def good(self) -> bool:
        """Whether every job was created, and ran, not early, and is known to have succeeded."""
        return (
            self.created > 0
            and not self.refused
            and not self.early
            and not self.lost
            and (self.succeeded == self.created)
        )


def summarise(
    created: Sequence[Created], refused: int, arrivals: Mapping[str, Sequence[Micros]], states: Mapping[str, str]
) -> Summary:
    """Draw up the summary.

    Args:
        created: the jobs that were taken.
        refused: how many were not.
        arrivals: by job, when the target was called, in order.
        states: by job, the state of its run in the history; a job without a run is not in it.
    """
    seen = [job for job in created if arrivals.get(job.job_id)]
    timely = [job for job in seen if job.answered_at < job.due_at]

    def lateness(jobs: Sequence[Created]) -> tuple[float, ...]:
        return tuple(sorted((arrivals[job.job_id][0] - job.due_at) / 1_000 for job in jobs))

    return Summary(
        created=len(created),
        undecided=sum(not job.decided for job in created),
        refused=refused,
        fired=sum(job.job_id in states for job in created),
        succeeded=sum(states.get(job.job_id) == "SUCCEEDED" for job in created),
        failed=sum(states.get(job.job_id) == "DEAD" for job in created),
        received=len(seen),
        calls=sum(len(arrivals[job.job_id]) for job in seen),
        repeated=sum(len(arrivals[job.job_id]) > 1 for job in seen),
        early=sum(arrivals[job.job_id][0] < job.due_at for job in seen),
        lost=len(created) - len(seen),
        created_late=sum(job.answered_at >= job.due_at for job in created),
        lateness_ms=lateness(timely),
        burst_lateness_ms=lateness([job for job in timely if job.burst]),
    )


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
