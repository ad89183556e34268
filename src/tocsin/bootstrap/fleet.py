"""Wiring of the fleet's roll call: settings in, the latest heartbeat of each process out, and which pools there are."""

from __future__ import annotations

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.kafka.fleet_roll import call_roll
from tocsin.bootstrap.cluster import names_of
from tocsin.bootstrap.pools import pool_roll
from tocsin.config import Settings
from tocsin.domain.instants import Micros
from tocsin.ports.fleet_log import SeenBeat


def read_fleet(settings: Settings, since: Micros) -> list[SeenBeat]:
    """Return the latest beat of each process that beat since an instant, µs.

    Raises:
        Unavailable: Kafka does not answer, or the cluster was not created yet.
    """
    kafka = settings.kafka
    return call_roll(kafka.bootstrap_servers, names_of(settings).fleet, AvroCodec(), since, kafka.extra)


def read_pools(settings: Settings) -> list[str]:
    """Return the names of the pools whose topics exist.

    Raises:
        Unavailable: Kafka does not answer.
    """
    return sorted(pool_roll(settings, names_of(settings), "tocsin-fleet-roll").partitions())
