"""Keys of a shard's log of states: deltas in a ring, snapshots in two slots.

Log compaction keeps the latest record of each key, so the log holds at most one ring of deltas and two snapshots.
The ring is no setting: a log written with one size cannot be read with another.
"""

from __future__ import annotations

DELTA_RING = 4_096
"""How many turns back the log reaches; a snapshot begins every half of it."""


def delta_key(number: int, part: int, ring: int = DELTA_RING) -> str:
    """Return the key of a part of a delta."""
    return f"d/{number % ring}/{part}"


def chunk_key(slot: int, index: int) -> str:
    """Return the key of a snapshot's chunk; there are slots 0 and 1."""
    return f"s/{slot}/{index}"


def is_delta_key(key: str) -> bool:
    return key.startswith("d/")


def is_chunk_key(key: str) -> bool:
    return key.startswith("s/")
