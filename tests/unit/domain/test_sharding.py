"""Routing: the same answer as Kafka's Java client, and tenants spread over a lane."""

from __future__ import annotations

from collections import Counter

import pytest

from tocsin.domain.sharding import lane_partition, murmur2, shard_of, tenant_partitions


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 275646681),
    ],
)
def test_murmur2_is_the_java_clients(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected & 0xFFFFFFFF


def test_jobs_of_one_group_share_a_shard() -> None:
    assert shard_of("group~one", 64) == shard_of("group~two", 64) == shard_of("group", 64)


def test_jobs_spread_over_shards() -> None:
    counts = Counter(shard_of(f"job_{n:032x}", 8) for n in range(8_000))
    assert set(counts) == set(range(8))
    assert max(counts.values()) < 1.3 * min(counts.values())


def test_a_tenant_has_its_own_few_partitions_and_all_its_jobs_go_there() -> None:
    own = tenant_partitions("acme", 16, 8)
    assert len(set(own)) == 8
    assert {lane_partition("acme", f"job{n}", 16, 8) for n in range(500)} == set(own)
    assert lane_partition("acme", "job1", 16, 8) == lane_partition("acme", "job1", 16, 8)


def test_tenants_rarely_share_all_their_partitions() -> None:
    sets = Counter(frozenset(tenant_partitions(f"tenant-{n}", 16, 4)) for n in range(300))
    assert max(sets.values()) <= 5
    load = Counter(p for n in range(1_000) for p in tenant_partitions(f"tenant-{n}", 16, 4))
    assert max(load.values()) < 1.5 * min(load.values())


def test_spread_is_bounded_by_the_lane() -> None:
    assert tenant_partitions("t", 3, 8) and len(tenant_partitions("t", 3, 8)) == 3
    assert len(tenant_partitions("t", 3, 0)) == 1
