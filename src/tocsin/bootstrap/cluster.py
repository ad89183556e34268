"""Creating a cluster, and checking that what a process finds is the cluster that was created."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tocsin.adapters.cassandra.cluster_facts import CassandraClusterFacts
from tocsin.adapters.cassandra.session import Connection, connect
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.topics import TopicAdmin, TopicChange, load_declarations
from tocsin.bootstrap.lane_groups import begin_lanes
from tocsin.bootstrap.stores import store_address
from tocsin.config import Settings
from tocsin.domain.errors import Refused
from tocsin.domain.recurrence import TZDATA_VERSION
from tocsin.resources import topics_dir
from tocsin.roles.trigger.takeover import ClusterFacts
from tocsin.roles.trigger.zone_watch import ZONE_DATA

INCARNATION = "incarnation"
"""Name of the fact that says which incarnation of the topics the store belongs to."""


def names_of(settings: Settings) -> TopicNames:
    return TopicNames(settings.kafka.topic_prefix)


@contextmanager
def open_store(settings: Settings) -> Iterator[Connection]:
    """Open a connection to the store for a while."""
    connection = connect(store_address(settings))
    try:
        yield connection
    finally:
        connection.close()


def topic_admin(settings: Settings) -> TopicAdmin:
    return TopicAdmin(settings.kafka.bootstrap_servers, settings.kafka.extra)


def plan_topics(settings: Settings, admin: TopicAdmin) -> list[TopicChange]:
    """Return what the declared topics need."""
    cluster = settings.cluster
    counts = {"shards": cluster.shards, "lane": cluster.lane_partitions, "outcomes": cluster.outcome_partitions}
    return admin.plan(load_declarations(topics_dir(), settings.kafka.topic_prefix, counts, cluster.pools))


def apply_topics(settings: Settings, connection: Connection) -> list[TopicChange]:
    """Create and alter topics, and record the incarnation of the command log and the zone data where they are new.

    The incarnation is the high part of every version, so topics that were made anew never write versions that an
    older store already holds.
    """
    admin = topic_admin(settings)
    changes = plan_topics(settings, admin)
    admin.apply(changes, settings.cluster.replication_factor)
    begin_lanes(settings, [change.declaration.name for change in changes])
    facts = CassandraClusterFacts(connection)
    recorded = _recorded(facts.read_fact(INCARNATION))
    topic_id = admin.topic_id(names_of(settings).commands)
    if recorded.get("topic_id") != topic_id:
        epoch = int(str(recorded.get("epoch", 0))) + 1
        incarnation = {"epoch": epoch, "shards": settings.cluster.shards, "topic_id": topic_id}
        facts.write_fact(INCARNATION, json.dumps(incarnation), epoch)
    if facts.read_fact(ZONE_DATA) is None:
        facts.write_fact(ZONE_DATA, TZDATA_VERSION, 1)
    return changes


def check_cluster(settings: Settings, connection: Connection) -> tuple[ClusterFacts, dict[str, int]]:
    """Return the recorded facts and the partition counts, after making sure that the topics are those of the record.

    Raises:
        Refused: with what does not fit, and what to do.
    """
    admin = topic_admin(settings)
    names = names_of(settings)
    recorded = _recorded(CassandraClusterFacts(connection).read_fact(INCARNATION))
    if not recorded:
        raise Refused("this cluster has not been created yet; run `tocsin schema migrate` and `tocsin topics apply`")
    if admin.topic_id(names.commands) != recorded["topic_id"]:
        raise Refused(f"topic {names.commands} was made anew since; run `tocsin topics apply`")
    facts = ClusterFacts(int(str(recorded["epoch"])), int(str(recorded["shards"])))
    counts = admin.partition_counts()
    _check_counts(names, facts.shards, counts)
    missing = [topic for topic in (names.outcomes, names.worker_control, names.alerts) if topic not in counts]
    if missing:
        raise Refused(f"topics are missing: {', '.join(missing)}; run `tocsin topics apply`")
    return facts, counts


def check_retention(settings: Settings, topics: list[str]) -> None:
    """Make sure that topics keep executions as long as owners believe.

    Raises:
        Refused: one of them forgets earlier.
    """
    days = settings.trigger.executions_kept_days
    for topic, kept_s in topic_admin(settings).retention_s(topics).items():
        if kept_s is not None and kept_s < days * 86_400:
            raise Refused(
                f"topic {topic} keeps its records for {kept_s / 86_400:g} days, but trigger.executions_kept_days is "
                f"{days:g}; lower the setting, or raise the topic's retention.ms: what outlives its lane is lost"
            )


def _check_counts(names: TopicNames, shards: int, counts: Mapping[str, int]) -> None:
    sharded = (names.commands, names.reports, names.jobs, names.events, names.shard_state, names.dead_letters)
    wrong = [f"{topic} has {counts.get(topic, 0)} partitions" for topic in sharded if counts.get(topic) != shards]
    if wrong:
        raise Refused(
            f"this cluster was created with {shards} shards, but {', '.join(wrong)}; a shard is a partition, so their "
            "number cannot change: restore the topics as they were"
        )


def _recorded(text: str | None) -> dict[str, object]:
    return json.loads(text) if text else {}
