"""Pools of workers: lanes of their own, for targets that only certain workers can run.

A pool exists where its topic does. Its lane is ``pool.<name>``, so a pool is never mistaken for a lane of tocsin's own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tocsin.domain.errors import Fault
from tocsin.domain.fields import FieldReader, shown
from tocsin.domain.ids import NAME

LANE_PREFIX: Final = "pool."
NAME_REMEDY: Final = "give the name of a worker pool: 1 to 64 letters, digits, hyphens and underscores"
SHOWN_POOLS_MAX: Final = 20


def lane_of_pool(pool: str) -> str:
    """Return the lane of a pool."""
    return LANE_PREFIX + pool


def pool_of_lane(lane: str) -> str | None:
    """Return the pool whose lane this is; None: it is no pool's."""
    name = lane.removeprefix(LANE_PREFIX)
    return name if name != lane and NAME.fullmatch(name) is not None else None


def parse_pool(target: FieldReader) -> str | None:
    """Read the pool that a target must name; None where faults were recorded."""
    pool = target.text("pool", chars_max=64, required=True, remedy=NAME_REMEDY)
    if pool is not None and NAME.fullmatch(pool) is None:
        target.fault("pool", pool, "is not a pool's name", NAME_REMEDY)
        return None
    return pool


def unknown_pool(pool: str, known: Collection[str]) -> Fault:
    """Return what is wrong with a target whose pool does not exist."""
    names = sorted(known)
    listed = ", ".join(names[:SHOWN_POOLS_MAX]) + (", …" if len(names) > SHOWN_POOLS_MAX else "")
    remedy = (
        f"give one of {listed or 'none: this cluster has no pools yet'}; a new one is declared in "
        "TOCSIN_CLUSTER__POOLS, made by `tocsin topics apply`, and known within ten seconds"
    )
    return Fault("target.pool", shown(pool), "is not a pool of this cluster", remedy)
