"""Puts a trigger together, and runs it."""

from __future__ import annotations

import structlog

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.cassandra.migrations import refuse_unless_migrated
from tocsin.adapters.cassandra.schedule_store import CassandraScheduleStore
from tocsin.adapters.cassandra.session import connect
from tocsin.adapters.kafka.shard_log import KafkaShardLog
from tocsin.adapters.kafka.takeover import KafkaTakeover
from tocsin.bootstrap.beats import beating
from tocsin.bootstrap.cluster import check_cluster, names_of
from tocsin.bootstrap.process import Process
from tocsin.bootstrap.stores import store_address, store_bounds
from tocsin.config import Settings, TriggerSettings
from tocsin.domain.errors import TocsinError
from tocsin.engine.horizon import HorizonLimits
from tocsin.engine.shard_engine import EngineLimits, Lanes, ShardEngine
from tocsin.roles.trigger.loop import LoopLimits, TriggerLoop
from tocsin.roles.trigger.takeover import take_over

log = structlog.get_logger()

LANES = ("default",)


def run_trigger(settings: Settings) -> int:
    """Run a trigger until it is asked to stop or must go.

    Returns:
        The exit code: 0 after a polite stop, 3 when it gave up ownership and a successor is to take over.
    """
    process = Process("trigger", settings)
    process.stop_on_signals()
    try:
        _serve(process, settings)
    except TocsinError as error:
        log.error(str(error), action="trigger.gave_up", error=type(error).__name__)
        return 3
    finally:
        process.close()
    return 0


def _serve(process: Process, settings: Settings) -> None:
    names, codec = names_of(settings), AvroCodec()
    connection = connect(store_address(settings))
    refuse_unless_migrated(connection)
    facts, counts = check_cluster(settings, connection)
    transactional_id = f"{settings.kafka.topic_prefix}{process.process_id}"
    client_id = f"tocsin-trigger-{process.name}"
    shard_log = KafkaShardLog(
        settings.kafka.bootstrap_servers,
        names,
        client_id,
        transactional_id,
        transaction_timeout_s=settings.trigger.transaction_timeout_s,
        session_timeout_s=settings.trigger.session_timeout_s,
        extra=settings.kafka.extra,
    )
    store = CassandraScheduleStore(connection, store_bounds(settings))
    leave = False
    try:
        shards = range(facts.shards)
        shard_log.join(facts.shards, 3 * settings.trigger.session_timeout_s, lambda: not process.stopping.is_set())
        takeover = KafkaTakeover(settings.kafka.bootstrap_servers, names, client_id, settings.kafka.extra)
        restored = take_over(takeover, shards, codec, facts, process.clock.now())
        lanes = Lanes({lane: counts[names.executions(lane)] for lane in LANES}, settings.lane.tenant_spread)
        limits = _engine_limits(settings.trigger)
        outcome_partitions = counts[names.outcomes]
        engines = {
            shard: ShardEngine(legacy.state, transactional_id, codec, lanes, limits, outcome_partitions)
            for shard, legacy in restored.items()
        }
        starts = {s: (e.state.commands_offset, e.state.reports_offset) for s, e in engines.items()}
        shard_log.begin(starts)
        loop = TriggerLoop(engines, shard_log, store, process.clock, process.meter, _loop_limits(settings.trigger))
        loop.adopt(restored)
        with beating(process, settings) as life:
            loop.turn()
            process.ready(shards=list(shards))
            while not process.stopping.is_set():
                loop.turn()
                loop.trim()
                life.watch.turned()
            life.clean = leave = True
    finally:
        shard_log.close(leave)
        store.close()
        connection.close()


def _engine_limits(trigger: TriggerSettings) -> EngineLimits:
    return EngineLimits(
        fires_max=trigger.fires_per_turn_max,
        fire_bytes_max=trigger.fire_bytes_per_turn_max,
        commands_max=trigger.commands_per_turn_max,
        unwritten_turns_max=trigger.unwritten_turns_max,
        delta_bytes_max=trigger.delta_bytes_max,
        cursor_persist_s=trigger.cursor_persist_s,
        horizon=HorizonLimits(trigger.preload_minutes, trigger.preload_lead_s, trigger.bucket_reads_max),
    )


def _loop_limits(trigger: TriggerSettings) -> LoopLimits:
    return LoopLimits(
        commands_max=trigger.commands_per_turn_max,
        reports_max=trigger.reports_per_turn_max,
        commands_waiting_max=trigger.commands_waiting_max,
        wait_max_s=trigger.poll_wait_max_s,
        log_kept_days=trigger.log_kept_days,
    )
