"""Wiring of the tools for the index: rebuilding it, and comparing it with the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import uuid_utils

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.cassandra.index_reader import CassandraIndexReader
from tocsin.adapters.kafka.jobs_log import KafkaJobsLog
from tocsin.adapters.kafka.shard_orders import ShardOrders
from tocsin.adapters.kafka.takeover import KafkaTakeover
from tocsin.bootstrap.cluster import check_cluster, names_of, open_store
from tocsin.config import Settings
from tocsin.domain.commands import Command, CommandKind
from tocsin.domain.errors import Refused, Undecodable
from tocsin.engine.ring import is_delta_key
from tocsin.roles.index_audit import IndexAudit, Verdict
from tocsin.roles.rebuild_watch import RebuildWatch

CLIENT = "tocsin-index"
WAIT_S = 0.02
POLL_S = 0.2


def rebuild_index(
    settings: Settings,
    shards: Sequence[int],
    shown: Callable[[RebuildWatch], None],
    begin_within_s: float,
    *,
    wait: bool,
) -> RebuildWatch:
    """Ask the owners of shards to write their part of the index anew, and follow them.

    Args:
        settings: where the parts are.
        shards: which; empty means all.
        shown: called now and then with how far it is.
        begin_within_s: without a word from any owner for so long, return.
        wait: follow to the end; otherwise return once the orders are in the log.

    Raises:
        Unavailable, Refused: as ``open_store`` and ``check_cluster`` do.
    """
    codec, names = AvroCodec(), names_of(settings)
    wanted = _shards(settings, shards)
    ids = {shard: f"rebuild-{uuid_utils.uuid7().hex}" for shard in wanted}
    watch = RebuildWatch(ids)
    orders = ShardOrders(settings.kafka.bootstrap_servers, names, wanted, settings.kafka.extra)
    try:
        commands = {shard: Command(CommandKind.REBUILD_INDEX, ids[shard]) for shard in wanted}
        orders.send({shard: codec.encode_command(command) for shard, command in commands.items()})
        deadline = time.monotonic() + begin_within_s
        while wait and not watch.is_over and (watch.has_begun or time.monotonic() < deadline):
            for shard, key, value in orders.poll(POLL_S):
                if is_delta_key(key.decode()):
                    _take(watch, shard, codec, value)
            shown(watch)
    finally:
        orders.close()
    return watch


def _take(watch: RebuildWatch, shard: int, codec: AvroCodec, value: bytes) -> None:
    try:
        watch.take(shard, codec.decode_delta(value))
    except Undecodable:
        # Of a newer program; whoever owns the shard can read it.
        return


def verify_index(settings: Settings, shards: Sequence[int], patience_s: float) -> Verdict:
    """Compare the store with the log; see ``roles.index_audit``.

    Raises:
        Unavailable, Refused, StateGap: log or store cannot be read.
    """
    names, kafka = names_of(settings), settings.kafka
    wanted = _shards(settings, shards)
    jobs_log = KafkaJobsLog(kafka.bootstrap_servers, names, CLIENT, kafka.extra)
    try:
        with open_store(settings) as connection:
            facts, _ = check_cluster(settings, connection)
            audit = IndexAudit(
                KafkaTakeover(kafka.bootstrap_servers, names, CLIENT, kafka.extra),
                jobs_log,
                CassandraIndexReader(connection),
                AvroCodec(),
                facts.shards,
                lambda: time.sleep(WAIT_S),
            )
            return audit.verify(wanted, round(patience_s / WAIT_S))
    finally:
        jobs_log.close()


def _shards(settings: Settings, shards: Sequence[int]) -> list[int]:
    """Return the shards that are meant, checked against those that there are."""
    with open_store(settings) as connection:
        facts, _ = check_cluster(settings, connection)
    unknown = [shard for shard in shards if not 0 <= shard < facts.shards]
    if unknown:
        raise Refused(f"there is no shard {unknown[0]}: this cluster has {facts.shards}, counted from 0")
    return sorted(set(shards)) or list(range(facts.shards))
