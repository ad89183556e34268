"""Puts a trigger together, and runs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import structlog
import uuid_utils

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.cassandra.cluster_facts import CassandraClusterFacts
from tocsin.adapters.cassandra.migrations import refuse_unless_migrated
from tocsin.adapters.cassandra.schedule_store import CassandraScheduleStore
from tocsin.adapters.cassandra.session import Connection, connect
from tocsin.adapters.kafka.alert_sink import KafkaAlertSink
from tocsin.adapters.kafka.fleet_log import KafkaFleetLog
from tocsin.adapters.kafka.jobs_log import KafkaJobsLog
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.pool_roll import KafkaPoolRoll
from tocsin.adapters.kafka.shard_log import KafkaShardLog
from tocsin.adapters.kafka.takeover import KafkaTakeover
from tocsin.bootstrap import faults
from tocsin.bootstrap.beats import beating
from tocsin.bootstrap.cluster import check_cluster, check_retention, names_of
from tocsin.bootstrap.garbage import TRIGGER_YOUNG_MAX, collect_rarely, look_when_idle
from tocsin.bootstrap.pools import PoolThread, pool_roll
from tocsin.bootstrap.process import Process
from tocsin.bootstrap.stores import store_address, store_bounds
from tocsin.config import Settings, TriggerSettings
from tocsin.domain.errors import Refused, TocsinError
from tocsin.domain.instants import Micros
from tocsin.domain.pools import pool_of_lane
from tocsin.engine.broker_clock import BrokerClock
from tocsin.engine.catch_up import CatchUpLimits
from tocsin.engine.dispatch_desk import Lanes
from tocsin.engine.horizon import HorizonLimits
from tocsin.engine.parking import ParkingLimits
from tocsin.engine.passed_buckets import PassedLimits
from tocsin.engine.retry_pauses import RetryPauseLimits
from tocsin.engine.shard_engine import EngineLimits
from tocsin.ports.shard_log import ShardLog
from tocsin.roles.pools import PoolBook
from tocsin.roles.trigger.fleet import FleetReader
from tocsin.roles.trigger.idle_pools import FIRST_SHARD, IdlePools
from tocsin.roles.trigger.loop import LoopLimits, TriggerLoop
from tocsin.roles.trigger.takeover import ClusterFacts, Restorer
from tocsin.roles.trigger.zone_watch import ZoneWatch, refuse_other_zone_data

log = structlog.get_logger()

LANES = ("default", "message")


class GuardedClock:
    """Fulfils ``ports.clock.TriggerClock`` with the machine's monotonic clock, held at the broker's time."""

    def __init__(self) -> None:
        self.broker = BrokerClock(time.time_ns() // 1000, time.monotonic_ns() // 1000)

    def now(self) -> Micros:
        return self.broker.now(time.monotonic_ns() // 1000)

    def local(self) -> Micros:
        return self.broker.local(time.monotonic_ns() // 1000)

    def at_most(self) -> Micros:
        return self.broker.at_most(time.monotonic_ns() // 1000)

    def is_known(self) -> bool:
        return self.broker.is_known()

    def off_by(self) -> Micros | None:
        return self.broker.off_by()


def run_trigger(settings: Settings) -> int:
    """Run a trigger until it is asked to stop or must go.

    Returns:
        The exit code: 0 after a polite stop, 3 when it cannot go on; another trigger takes its shards.
    """
    process = Process("trigger", settings)
    clock = GuardedClock()
    process.local_now = clock.local
    process.meter.shards(settings.cluster.shards)
    process.stop_on_signals()
    collect_rarely(TRIGGER_YOUNG_MAX)
    try:
        _serve(process, clock, settings)
    except TocsinError as error:
        log.error(str(error), action="trigger.gave_up", error=type(error).__name__)
        return 3
    finally:
        process.close()
    return 0


def _serve(process: Process, clock: GuardedClock, settings: Settings) -> None:
    names = names_of(settings)
    connection = connect(store_address(settings))
    store = CassandraScheduleStore(connection, store_bounds(settings))
    fleet_log = KafkaFleetLog(
        settings.kafka.bootstrap_servers, names.fleet, process.process_id, AvroCodec(), settings.kafka.extra
    )
    shard_log = _shard_log(process, names, settings)
    jobs_log = KafkaJobsLog(
        settings.kafka.bootstrap_servers, names, f"tocsin-trigger-{process.name}", settings.kafka.extra
    )
    roll = pool_roll(settings, names, f"tocsin-trigger-{process.name}")
    book = PoolBook(roll)
    fleet = FleetReader(fleet_log, process.process_id, clock.broker)
    alerts = KafkaAlertSink(
        settings.kafka.bootstrap_servers,
        names.alerts,
        f"tocsin-trigger-{process.name}",
        AvroCodec(),
        settings.kafka.extra,
    )
    leave = False
    pools: PoolThread | None = None
    try:
        loop = _loop(process, clock, names, connection, store, fleet, shard_log, jobs_log, book, alerts, settings)
        pools = _pool_thread(process, names, roll, book, fleet, loop, settings)
        pools.start()
        with beating(process, settings) as life:
            loop.join()
            watch = ZoneWatch(CassandraClusterFacts(connection), clock)
            refusal = _turn_until_stopped(process, loop, shard_log, watch, life.watch.turned)
            # From within: its shards are released while it can still commit.
            shard_log.close(leave=True)
            leave = True
            life.clean = True
        if refusal is not None:
            raise refusal
    finally:
        if pools is not None:
            pools.stop()
        if not leave:
            shard_log.close(leave=False)
        fleet_log.close()
        jobs_log.close()
        alerts.close()
        store.close()
        connection.close()


def _turn_until_stopped(
    process: Process, loop: TriggerLoop, shard_log: KafkaShardLog, zones: ZoneWatch, turned: Callable[[], None]
) -> Refused | None:
    """Turn the loop until the process is asked to stop, or must go; return why it must."""
    ready = False
    while not process.stopping.is_set():
        loop.turn()
        try:
            zones.look([engine.commands for engine in loop.engines.values()])
        except Refused as refusal:
            return refusal
        loop.trim()
        turned()
        if loop.is_idle:
            look_when_idle()
        if not ready and shard_log.is_member:
            ready = True
            process.ready(shards=sorted(loop.engines))
    return None


def _shard_log(process: Process, names: TopicNames, settings: Settings) -> KafkaShardLog:
    return KafkaShardLog(
        settings.kafka.bootstrap_servers,
        names,
        f"tocsin-trigger-{process.name}",
        transaction_timeout_s=settings.trigger.transaction_timeout_s,
        session_timeout_s=settings.trigger.session_timeout_s,
        extra=settings.kafka.extra,
    )


def _loop(
    process: Process,
    clock: GuardedClock,
    names: TopicNames,
    connection: Connection,
    store: CassandraScheduleStore,
    fleet: FleetReader,
    shard_log: KafkaShardLog,
    jobs_log: KafkaJobsLog,
    book: PoolBook,
    alerts: KafkaAlertSink,
    settings: Settings,
) -> TriggerLoop:
    refuse_unless_migrated(connection)
    facts, counts = check_cluster(settings, connection)
    refuse_other_zone_data(CassandraClusterFacts(connection))
    lanes = _lanes(names, counts, settings)
    check_retention(settings, [names.executions(lane) for lane in lanes.partitions if lane not in lanes.missing])
    return TriggerLoop(
        _with_faults(shard_log),
        faults.with_fault(faults.AFTER_TURN_COMMIT, store, faults.FaultyStore),
        _restorer(process, clock, names, facts, counts[names.outcomes], lanes, settings),
        # Never used before, so that fencing one can only ever stop the dead.
        lambda: f"{settings.kafka.topic_prefix}{process.process_id}.{uuid_utils.uuid7().hex[-8:]}",
        fleet,
        clock,
        process.meter,
        _loop_limits(settings.trigger),
        jobs_log,
        lanes,
        book,
        alerts.offer,
    )


def _pool_thread(
    process: Process,
    names: TopicNames,
    roll: KafkaPoolRoll,
    book: PoolBook,
    fleet: FleetReader,
    loop: TriggerLoop,
    settings: Settings,
) -> PoolThread:
    kafka, client_id = settings.kafka, f"tocsin-trigger-{process.name}"
    alerts = KafkaAlertSink(kafka.bootstrap_servers, names.alerts, client_id, AvroCodec(), kafka.extra)
    idle = IdlePools(
        roll, fleet.workers_by_pool, lambda: FIRST_SHARD in loop.engines, alerts, process.meter, process.clock
    )
    return PoolThread(book, lambda: idle.look(book.known() or {}))


def _lanes(names: TopicNames, counts: Mapping[str, int], settings: Settings) -> Lanes:
    """A lane whose topic is gone is looked for later; the others go on. Pools are what topics there are of theirs."""
    declared = settings.cluster.lane_partitions
    prefix = names.executions("")
    found = {topic.removeprefix(prefix): count for topic, count in counts.items() if topic.startswith(prefix)}
    pools = {lane: count for lane, count in found.items() if pool_of_lane(lane) is not None}
    return Lanes(
        {lane: found.get(lane, declared) for lane in LANES} | pools,
        settings.lane.tenant_spread,
        {lane for lane in LANES if names.executions(lane) not in counts},
    )


def _with_faults(shard_log: KafkaShardLog) -> ShardLog:
    faulty: ShardLog = faults.with_fault(faults.IN_OPEN_TRANSACTION, shard_log, faults.FaultyTransaction)
    faulty = faults.with_fault(faults.AFTER_RESTORE, faulty, faults.FaultyRestore)
    return faults.with_fault(faults.BEFORE_TURN_COMMIT, faulty, faults.FaultyCommit)  # type: ignore[no-any-return]


def _restorer(
    process: Process,
    clock: GuardedClock,
    names: TopicNames,
    facts: ClusterFacts,
    outcome_partitions: int,
    lanes: Lanes,
    settings: Settings,
) -> Restorer:
    client_id = f"tocsin-trigger-{process.name}"
    return Restorer(
        KafkaTakeover(settings.kafka.bootstrap_servers, names, client_id, settings.kafka.extra),
        AvroCodec(),
        facts,
        lanes,
        _engine_limits(settings.trigger),
        outcome_partitions,
        clock,
    )


def _engine_limits(trigger: TriggerSettings) -> EngineLimits:
    return EngineLimits(
        fires_max=trigger.fires_per_turn_max,
        fire_bytes_max=trigger.fire_bytes_per_turn_max,
        retry_bytes_max=trigger.retry_bytes_per_turn_max,
        returned_per_s=trigger.returned_per_s,
        retry_pause=RetryPauseLimits(
            trigger.tenant_failures_min,
            trigger.tenant_failure_rate,
            trigger.tenant_failure_window_s,
            trigger.retries_pause_s,
            trigger.retries_resumed_per_s,
        ),
        reports_max=trigger.reports_per_turn_max,
        report_bytes_max=trigger.report_bytes_per_turn_max,
        commands_max=trigger.commands_per_turn_max,
        command_bytes_max=trigger.command_bytes_per_turn_max,
        unwritten_turns_max=trigger.unwritten_turns_max,
        unwritten_bytes_max=trigger.unwritten_bytes_max,
        work_portions_max=trigger.work_portions_per_turn_max,
        work_bytes_max=trigger.work_bytes_per_turn_max,
        catch_up=CatchUpLimits(trigger.catch_up_per_s, trigger.catch_up_job_per_s),
        delta_bytes_max=trigger.delta_bytes_max,
        outlived_after_s=(trigger.executions_kept_days - 1) * 86_400,
        alerts_max=trigger.alerts_per_turn_max,
        alert_gap_s=trigger.job_alerts_every_s,
        max_reaps=trigger.max_reaps,
        overlap_queue_max=trigger.overlap_queue_max,
        overlap_allow_max=trigger.overlap_allow_max,
        zone_change_after_s=trigger.zone_change_after_s,
        cursor_persist_s=trigger.cursor_persist_s,
        parking=ParkingLimits(trigger.park_after_s, trigger.parked_max, trigger.parked_bytes_max),
        horizon=HorizonLimits(trigger.preload_minutes, trigger.preload_lead_s, trigger.bucket_reads_max),
        passed=PassedLimits(trigger.index_kept_s, trigger.buckets_deleted_per_turn_max),
    )


def _loop_limits(trigger: TriggerSettings) -> LoopLimits:
    return LoopLimits(
        commands_max=trigger.commands_per_turn_max,
        reports_max=trigger.reports_per_turn_max,
        commands_waiting_max=trigger.commands_waiting_max,
        command_bytes_waiting_max=trigger.command_bytes_waiting_max,
        wait_max_s=trigger.poll_wait_max_s,
        jobs_page_records_max=trigger.rebuild_page_records_max,
        log_kept_days=trigger.log_kept_days,
        reports_waiting_max=trigger.reports_waiting_max,
        transaction_bytes_max=trigger.transaction_bytes_max,
    )
