"""Which shard owns a job, and which partitions of a lane serve a tenant.

The hash is murmur2 as Kafka's Java client uses it, so that any producer with that partitioner
(``partitioner=murmur2_random`` in librdkafka) sends a job's commands to the shard that owns it.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from hashlib import blake2b

_MASK = 0xFFFFFFFF
_M = 0x5BD1E995
_SEED = 0x9747B28C
_WORDS = struct.Struct("<I").iter_unpack


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 of ``data``, as in ``org.apache.kafka.common.utils.Utils.murmur2`` (unsigned)."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for (word,) in _WORDS(data[:whole]):
        k = word * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if tail := data[whole:]:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def shard_key(job_id: str) -> str:
    """Return what decides a job's shard: its id, or the part before ``~`` (jobs of one concurrency group share it)."""
    return job_id if "~" not in job_id else job_id.split("~", 1)[0]


def shard_of(job_id: str, shards: int) -> int:
    """Return the shard, 0 to ``shards`` - 1, that owns a job."""
    return (murmur2(shard_key(job_id).encode()) & 0x7FFFFFFF) % shards


@lru_cache(maxsize=4)
def routes(shards: int) -> tuple[str, ...]:
    """Return for each shard a key that leads to it, for what concerns shards and no job."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < shards:
        key = f"shard-{number}"
        found.setdefault(shard_of(key, shards), key)
        number += 1
    return tuple(found[shard] for shard in range(shards))


@lru_cache(maxsize=65_536)
def tenant_partitions(tenant_id: str, partitions: int, spread: int) -> tuple[int, ...]:
    """Return the ``spread`` of a lane's ``partitions`` that serve a tenant (shuffle sharding).

    Rendezvous hashing picks them: two tenants rarely share all of theirs, and a tenant keeps most of its own when
    partitions are added.
    """
    ranked = sorted(range(partitions), key=lambda p: blake2b(f"{tenant_id}/{p}".encode(), digest_size=8).digest())
    return tuple(ranked[: max(1, min(spread, partitions))])


def lane_partition(tenant_id: str, job_id: str, partitions: int, spread: int) -> int:
    """Return the partition of a lane to which all executions of a job go."""
    chosen = tenant_partitions(tenant_id, partitions, spread)
    return chosen[zlib.crc32(job_id.encode()) % len(chosen)]
