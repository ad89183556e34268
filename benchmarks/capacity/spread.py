"""How evenly hashing spreads a burst: jobs over shards, and tenants over the partitions of a lane.

The fullest shard decides how late the last job of a burst is, so its share is what the model reckons with. Ids are made
as tocsin and its clients make them, from a seed; the hashes are those of ``tocsin.domain.sharding``.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final

from tocsin.domain.ids import group_id, made_job_id
from tocsin.domain.sharding import lane_partition, murmur2

SHARDS: Final = (8, 16, 32, 64, 128, 256, 512)
PARTITIONS: Final = (16, 64, 128, 256)
TENANTS: Final = 500
GROUPED_SHARE: Final = 0.05
"""Of jobs that stand in concurrency groups: all jobs of a group are on one shard."""
GROUP_SIZE_MAX: Final = 2_000
TENANT_SPREAD: Final = 8
NAMES: Final = ("nightly-report", "sync-orders", "expire-trial", "invoice", "reminder")


def made(chance: random.Random, number: int) -> str:
    """Return an id as tocsin makes it: a UUIDv7, whose first digits are the time."""
    return made_job_id(f"{1_800_000_000_000 + number // 20:012x}7{chance.getrandbits(76):019x}")


def named(number: int) -> str:
    """Return an id as clients give them: a tenant, and names that differ in a number only."""
    return f"tenant-{number % TENANTS}@{NAMES[number % len(NAMES)]}-{number}"


def kinds() -> dict[str, Callable[[random.Random, int], list[bytes]]]:
    """Return how the keys of a burst are made, by the name of the kind."""
    return {
        "made": lambda chance, n: [made(chance, number).encode() for number in range(n)],
        "named": lambda chance, n: [
            named(first + number).encode() for first in [chance.randrange(n)] for number in range(n)
        ],
        "grouped": _grouped,
    }


def _named(chance: random.Random, n: int) -> list[bytes]:
    first = chance.randrange(n)
    return [named(first + number).encode() for number in range(n)]


def _grouped(chance: random.Random, n: int) -> list[bytes]:
    """Return keys of which some are those of groups, a few of these large and most small."""
    keys: list[bytes] = []
    left = round(n * GROUPED_SHARE)
    number = 0
    while left > 0:
        size = min(left, max(1, round(GROUP_SIZE_MAX / (number + 1))))
        keys += [group_id("tenant-1", f"group-{chance.getrandbits(40)}").encode()] * size
        left, number = left - size, number + 1
    return keys + [made(chance, at).encode() for at in range(n - len(keys))]


def over_shards(n: int, trials: int, chance: random.Random) -> dict[str, Any]:
    """Return by kind and number of shards the fullest one's share to the mean: the median and the worst trial."""
    found: dict[str, Any] = {}
    for kind, make in kinds().items():
        ratios: dict[int, list[float]] = {shards: [] for shards in SHARDS}
        for _ in range(trials):
            hashes = Counter(make(chance, n))
            hashed = [(murmur2(key) & 0x7FFFFFFF, count) for key, count in hashes.items()]
            for shards in SHARDS:
                filled = [0] * shards
                for value, count in hashed:
                    filled[value % shards] += count
                ratios[shards].append(max(filled) * shards / n)
        found[kind] = {str(shards): summary(values) for shards, values in ratios.items()}
    return found


def over_partitions(n: int, trials: int, chance: random.Random) -> dict[str, Any]:
    """Return by number of partitions how full the fullest is: tenants of like size, and such that one has a tenth."""
    found: dict[str, Any] = {}
    for name, weights in (("even", [1.0] * TENANTS), ("uneven", [1 / (at + 1) ** 0.9 for at in range(TENANTS)])):
        ratios: dict[int, list[float]] = {partitions: [] for partitions in PARTITIONS}
        for trial in range(trials):
            jobs = picked(weights, n, chance)
            for partitions in PARTITIONS:
                filled = [0] * partitions
                for number, tenant in enumerate(jobs):
                    place = lane_partition(f"tenant-{trial}-{tenant}", f"job-{number}", partitions, TENANT_SPREAD)
                    filled[place] += 1
                ratios[partitions].append(max(filled) * partitions / n)
        found[name] = {str(partitions): summary(values) for partitions, values in ratios.items()}
    found["largest_tenant_share"] = {"even": round(1 / TENANTS, 3), "uneven": round(1 / sum(weights), 3)}
    return found


def picked(weights: Sequence[float], n: int, chance: random.Random) -> list[int]:
    """Return so many picks by weight."""
    upto = list(accumulate(weights))
    return [bisect(upto, chance.random() * upto[-1]) for _ in range(n)]


def summary(values: Sequence[float]) -> list[float]:
    """Return the median and the greatest."""
    ordered = sorted(values)
    return [round(ordered[len(ordered) // 2], 3), round(ordered[-1], 3)]
