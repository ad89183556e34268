"""Puts a reconciler together: for one look, or as a process that follows all that closes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import structlog

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.cassandra.index_reader import CassandraIndexReader
from tocsin.adapters.cassandra.migrations import refuse_unless_migrated
from tocsin.adapters.cassandra.view_reader import CassandraViewReader
from tocsin.adapters.kafka.alert_sink import KafkaAlertSink
from tocsin.adapters.kafka.projection_progress import KafkaProjectionProgress
from tocsin.adapters.kafka.takeover import KafkaTakeover
from tocsin.bootstrap.beats import beating
from tocsin.bootstrap.cluster import check_cluster, names_of, open_store
from tocsin.bootstrap.process import Process
from tocsin.config import Settings
from tocsin.domain.errors import Refused, TocsinError, Unavailable
from tocsin.domain.instants import Micros, minute_of
from tocsin.roles.reconciler.reconciler import Findings, Limits, Reconciler
from tocsin.roles.reconciler.watch import ReconcilerWatch, WatchLimits

log = structlog.get_logger()

CLIENT: Final = "tocsin-reconciler"
WAIT_S: Final = 0.25
MINUTES_MAX: Final = 31 * 1_440
"""Looked at in one go."""


class Parts(NamedTuple):
    """A reconciler, and how many shards there are."""

    reconciler: Reconciler
    shards: int


@contextmanager
def _parts(settings: Settings, wait: Callable[[], None]) -> Iterator[Parts]:
    names, kafka, bounds = names_of(settings), settings.kafka, settings.reconciler
    with open_store(settings) as connection:
        refuse_unless_migrated(connection)
        facts, _ = check_cluster(settings, connection)
        reconciler = Reconciler(
            KafkaTakeover(kafka.bootstrap_servers, names, CLIENT, kafka.extra),
            CassandraIndexReader(connection),
            CassandraViewReader(connection),
            KafkaProjectionProgress(kafka.bootstrap_servers, names, CLIENT, kafka.extra),
            AvroCodec(),
            wait,
            Limits(bounds.reads_max, round(bounds.patience_s / WAIT_S)),
        )
        yield Parts(reconciler, facts.shards)


def reconcile_once(settings: Settings, begin: Micros, end: Micros) -> Findings:
    """Return what history lacks of the minutes of a span, as far as they are closed.

    Raises:
        Unavailable, Refused, StateGap: log or store cannot be read, or the projectors are too far behind.
    """
    minutes = range(minute_of(begin), minute_of(end) + 1)
    if len(minutes) > MINUTES_MAX:
        raise Refused(f"--from, --to: {len(minutes)} minutes are too many; look at {MINUTES_MAX} at most, part by part")
    with _parts(settings, lambda: time.sleep(WAIT_S)) as (reconciler, shards):
        return reconciler.reconcile(dict.fromkeys(range(shards), minutes))


def run_reconciler(settings: Settings) -> int:
    """Follow all shards until asked to stop.

    Returns:
        The exit code: 0 after a polite stop, 3 when it cannot go on.
    """
    process = Process("reconciler", settings)
    process.stop_on_signals()
    try:
        _serve(process, settings)
    except TocsinError as error:
        log.error(str(error), action="reconciler.gave_up", error=type(error).__name__)
        return 3
    finally:
        process.close()
    return 0


def _serve(process: Process, settings: Settings) -> None:
    bounds, kafka = settings.reconciler, settings.kafka
    limits = WatchLimits(
        bounds.settle_s, bounds.look_back_s, bounds.minutes_per_look_max, bounds.open_minutes_max, bounds.alerts_max
    )
    with beating(process, settings) as life:

        def wait() -> None:
            life.watch.turned()
            if process.stopping.wait(WAIT_S):
                raise Unavailable("reconciler", "it is asked to stop")

        with _parts(settings, wait) as (reconciler, shards):
            sink = KafkaAlertSink(kafka.bootstrap_servers, names_of(settings).alerts, CLIENT, AvroCodec(), kafka.extra)
            watch = ReconcilerWatch(reconciler, sink, process.meter, process.clock, range(shards), limits)
            process.ready()
            due_at = time.monotonic()
            while not process.stopping.wait(WAIT_S):
                life.watch.turned()
                if time.monotonic() >= due_at:
                    more = watch.step()
                    due_at = time.monotonic() + (0 if more else bounds.every_s)
        life.clean = True
