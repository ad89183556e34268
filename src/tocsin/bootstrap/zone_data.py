"""Setting and showing the zone data of a cluster."""

from __future__ import annotations

import time

import uuid_utils

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.cassandra.cluster_facts import CassandraClusterFacts
from tocsin.adapters.kafka.shard_orders import ShardOrders
from tocsin.bootstrap.cluster import check_cluster, names_of, open_store
from tocsin.config import Settings
from tocsin.domain.commands import Command, CommandKind
from tocsin.domain.ids import made_command_id
from tocsin.roles.trigger.zone_watch import ZONE_DATA


def recorded_zone_data(settings: Settings) -> str | None:
    """Return the release that the cluster works by; None where none is recorded."""
    with open_store(settings) as connection:
        return CassandraClusterFacts(connection).read_fact(ZONE_DATA)


def set_zone_data(settings: Settings, release: str) -> int:
    """Record the release that the cluster works by, and tell every shard; return how many there are.

    The fact comes first: an owner that is told looks it up, and goes where it has other data. Repeating it is harmless.

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
    commands = {shard: Command(CommandKind.SET_ZONE_DATA, ids[shard], zone_data=release) for shard in shards}
    orders = ShardOrders(settings.kafka.bootstrap_servers, names_of(settings), shards, settings.kafka.extra)
    try:
        orders.send({shard: codec.encode_command(command) for shard, command in commands.items()})
    finally:
        orders.close()
    return facts.shards
