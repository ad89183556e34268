"""Setting and showing the zone data of a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable

import uuid_utils

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.cassandra.cluster_facts import CassandraClusterFacts
from tocsin.adapters.kafka.shard_orders import ShardOrders
from tocsin.bootstrap.cluster import check_cluster, names_of, open_store
from tocsin.config import Settings
from tocsin.domain.commands import Command, CommandKind
from tocsin.domain.errors import Undecodable
from tocsin.domain.ids import made_command_id
from tocsin.engine.ring import is_delta_key
from tocsin.roles.trigger.zone_watch import ZONE_DATA
from tocsin.roles.zone_moves import ZoneMoves

POLL_S = 0.2


def recorded_zone_data(settings: Settings) -> str | None:
    """Return the release that the cluster works by; None where none is recorded."""
    with open_store(settings) as connection:
        return CassandraClusterFacts(connection).read_fact(ZONE_DATA)


def set_zone_data(
    settings: Settings,
    release: str,
    shown: Callable[[ZoneMoves], None] = lambda _: None,
    within_s: float = 60.0,
    *,
    wait: bool = False,
) -> ZoneMoves:
    """Record the release that the cluster works by, and tell every shard.

    The fact comes first: an owner that is told looks it up, and goes where it has other data. Repeating it is harmless.

    Args:
        settings: where the parts are.
        release: the new one.
        shown: called now and then with how far it is.
        within_s: without a shard that gets further for so long, return.
        wait: follow what moves; otherwise return once the orders are in the log.

    Raises:
        Refused: the cluster does not exist, or is not what it was.
        Unavailable: log or store did not answer.
    """
    with open_store(settings) as connection:
        facts, _ = check_cluster(settings, connection)
        CassandraClusterFacts(connection).write_fact(ZONE_DATA, release, time.time_ns() // 1000)
    codec = AvroCodec()
    shards = list(range(facts.shards))
    ids = {shard: made_command_id(uuid_utils.uuid7().hex) for shard in shards}
    watch = ZoneMoves(ids)
    commands = {shard: Command(CommandKind.SET_ZONE_DATA, ids[shard], zone_data=release) for shard in shards}
    orders = ShardOrders(settings.kafka.bootstrap_servers, names_of(settings), shards, settings.kafka.extra)
    try:
        orders.send({shard: codec.encode_command(command) for shard, command in commands.items()})
        deadline = time.monotonic() + within_s
        while wait and not watch.is_over and time.monotonic() < deadline:
            for shard, key, value in orders.poll(POLL_S):
                if is_delta_key(key.decode()) and _take(watch, shard, codec, value):
                    deadline = time.monotonic() + within_s
            shown(watch)
    finally:
        orders.close()
    return watch


def _take(watch: ZoneMoves, shard: int, codec: AvroCodec, value: bytes) -> bool:
    """Take a turn in; tell whether its shard got further."""
    try:
        return watch.take(shard, codec.decode_delta(value))
    except Undecodable:
        # Of a newer program; whoever owns the shard can read it.
        return False
