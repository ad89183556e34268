"""Puts a projector together, and runs it."""

from __future__ import annotations

import time

import structlog

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.cassandra.migrations import refuse_unless_migrated
from tocsin.adapters.cassandra.session import connect
from tocsin.adapters.cassandra.view_writer import CassandraViewWriter
from tocsin.adapters.kafka.projection_log import KafkaProjectionLog, ProjectionBounds
from tocsin.bootstrap.beats import beating
from tocsin.bootstrap.cluster import check_cluster, names_of
from tocsin.bootstrap.garbage import collect_rarely
from tocsin.bootstrap.process import Process
from tocsin.bootstrap.stores import batch_bounds, store_address
from tocsin.config import Settings
from tocsin.domain.errors import TocsinError
from tocsin.roles.projector.loop import ProjectorLimits, ProjectorLoop

log = structlog.get_logger()


def run_projector(settings: Settings) -> int:
    """Run a projector until it is asked to stop or must go.

    Returns:
        The exit code: 0 after a polite stop, 3 when it cannot go on; another process takes its partitions.
    """
    process = Process("projector", settings)
    process.stop_on_signals()
    collect_rarely()
    try:
        _serve(process, settings)
    except TocsinError as error:
        log.error(str(error), action="projector.gave_up", error=type(error).__name__)
        return 3
    finally:
        process.close()
    return 0


def _serve(process: Process, settings: Settings) -> None:
    connection = connect(store_address(settings))
    records = None
    try:
        refuse_unless_migrated(connection)
        facts, _counts = check_cluster(settings, connection)
        views = CassandraViewWriter(connection, batch_bounds(settings), settings.cassandra.requests_in_flight_max)
        records = KafkaProjectionLog(
            settings.kafka.bootstrap_servers,
            names_of(settings),
            f"tocsin-projector-{process.name}",
            _bounds(settings),
            settings.kafka.extra,
        )
        limits = ProjectorLimits(wait_max_s=settings.projector.poll_wait_max_s)
        loop = ProjectorLoop(records, views, AvroCodec(), process.meter, facts.epoch, limits)
        with beating(process, settings) as life:
            loop.step(time.monotonic())
            process.ready()
            while not process.stopping.is_set():
                loop.step(time.monotonic())
                life.watch.turned()
            life.clean = True
    finally:
        if records is not None:
            records.close()
        connection.close()


def _bounds(settings: Settings) -> ProjectionBounds:
    p = settings.projector
    return ProjectionBounds(p.batch_records_max, p.batch_bytes_max, p.group_protocol, p.topics_refresh_s)
