"""A worker process: Kafka lanes and reports, and the runner of its attempts."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import structlog

from tocsin.adapters.avro.codec import AvroCodec
from tocsin.adapters.kafka.dispatch_log import KafkaDispatchLog, consumer_config
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.report_sink import KafkaReportSink, count_partitions, producer_config
from tocsin.bootstrap import faults
from tocsin.bootstrap.beats import beating
from tocsin.bootstrap.garbage import WORKER_YOUNG_MAX, collect_rarely
from tocsin.bootstrap.handlers import handlers_of
from tocsin.bootstrap.lane_groups import check_offsets_retention
from tocsin.bootstrap.message_lane import MESSAGE_LANE, MessageThread, cancel_log, message_lane, serve_messages
from tocsin.bootstrap.process import Process
from tocsin.bootstrap.runners import worker_runner
from tocsin.config import Settings, WorkerSettings
from tocsin.domain.errors import TocsinError
from tocsin.engine.circuit_breaker import BreakerLimits
from tocsin.handlers.registry import HandlerApp
from tocsin.ports.dispatch_log import DispatchLog
from tocsin.roles.heartbeat import LoopWatch
from tocsin.roles.worker import WorkerLimits, WorkerLoop

log = structlog.get_logger()

START_WAIT_S = 30.0
"""How long a start waits for the brokers."""
RETURN_WAIT_S = 3.0
"""How long a stop waits, after its grace, for attempts to end, and again for the last reports."""
SWITCH_INTERVAL_S = 0.0005


def run_worker(settings: Settings, app: HandlerApp | None = None) -> int:
    """Run a worker until it is asked to stop.

    Args:
        settings: its own; what they lack of an app is added.
        app: handlers at hand; None: those of the app that the settings name, if they name one.

    Returns:
        The exit status: 0 after a stop that was asked for, 1 where the supervisor should start a new process.
    """
    # The loop's thread waits in short calls of the client library, and takes the interpreter back after each: at the
    # default of 5 ms a call, the thread that runs HTTP attempts would slow every turn down.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    process = Process("worker", settings)
    process.stop_on_signals()
    try:
        app = handlers_of(settings, app)
        collect_rarely(WORKER_YOUNG_MAX)
        return _run(process, settings, app)
    except TocsinError as error:
        log.error("the worker cannot go on", action="worker.failed", error=str(error))
        return 1
    finally:
        process.close()


def _run(process: Process, settings: Settings, app: HandlerApp | None) -> int:
    names = TopicNames(settings.kafka.topic_prefix)
    lanes = settings.worker.all_lanes
    check_offsets_retention(settings, lanes)
    beside = [message_lane(process, settings, names)] if MESSAGE_LANE in lanes else []
    loop = _loop(process, settings, names, app) if set(lanes) - {MESSAGE_LANE} else None
    with beating(process, settings) as life:
        # Only once it has ended cleanly: "stopped" says that every report is in the log.
        if loop is None:
            life.clean = serve_messages(process, beside[0], life.watch)
        else:
            life.clean = serve(process, loop, life.watch, settings.worker.stop_grace_s, beside)
    return 0 if life.clean else 1


def _loop(process: Process, settings: Settings, names: TopicNames, app: HandlerApp | None) -> WorkerLoop:
    kafka, worker = settings.kafka, settings.worker
    servers, client_id = kafka.bootstrap_servers, process.process_id
    count_partitions(servers, names.reports, START_WAIT_S, kafka.extra)
    lanes: dict[str, DispatchLog] = {}
    for lane in worker.all_lanes:
        if lane == MESSAGE_LANE:
            continue
        topic = names.executions(lane)
        count_partitions(servers, topic, START_WAIT_S, kafka.extra)
        config = consumer_config(
            servers,
            names.group(f"worker.{lane}"),
            client_id,
            worker.group_protocol,
            worker.session_timeout_s,
            worker.read_ahead_bytes_max // 2,
            kafka.extra,
        )
        dispatch_log = KafkaDispatchLog(topic, config)
        lanes[lane] = faults.with_fault(faults.AFTER_MARK, dispatch_log, faults.FaultyDispatchLog)
    reports = KafkaReportSink(producer_config(servers, client_id, kafka.extra), names.reports)
    return WorkerLoop(
        process.process_id,
        lanes,
        worker_runner(settings, process.clock, process.meter, app),
        faults.with_fault(faults.AFTER_REPORT, reports, faults.FaultyReportSink),
        AvroCodec(),
        process.clock,
        time.monotonic,
        process.meter,
        _limits(worker),
        cancel_log(process, names, settings),
    )


def _limits(worker: WorkerSettings) -> WorkerLimits:
    return WorkerLimits(
        running_max=worker.running_max,
        tenant_running_max=worker.tenant_running_max,
        breaker=BreakerLimits(
            worker.breaker_failures_min, worker.breaker_failed_share, worker.breaker_window_s, worker.breaker_open_s
        ),
        # The other half is what the client has fetched and not delivered yet.
        read_ahead_bytes_max=max(1, worker.read_ahead_bytes_max // 2 // len(worker.all_lanes)),
        read_ahead_records_max=worker.read_ahead_records_max,
        window_max=worker.window_max,
        begun_max=worker.begun_max,
        poll_wait_max_s=worker.poll_wait_max_s,
        commit_fresh_s=worker.commit_fresh_s,
        lease_after_s=worker.lease_after_s,
        suspect_max_s=worker.stop_grace_s,
        stuck_attempts_max=worker.stuck_attempts_max,
        cancels_kept_max=worker.cancels_kept_max,
    )


def serve(
    process: Process, loop: WorkerLoop, watch: LoopWatch, stop_grace_s: float, beside: Sequence[MessageThread] = ()
) -> bool:
    """Turn the loop; return whether it ended because it was asked to, with every report acknowledged.

    Args:
        beside: lanes with threads of their own, which live as long as the loop, and it no longer than they.
    """
    ready = False
    loop.join()
    for lane in beside:
        lane.start()
    while not process.stopping.is_set():
        loop.step()
        watch.turned()
        if not ready and loop.is_member and all(lane.is_member for lane in beside):
            ready = True
            process.ready()
        if loop.must_recycle:
            log.error("too many attempts could not be stopped: starting again", action="worker.recycling")
            break
        if any(lane.has_failed for lane in beside):
            break
    asked = process.stopping.is_set()
    log.info("stopping", action="worker.stopping", grace_s=stop_grace_s)
    for lane in beside:
        lane.ask_to_stop()
    drained = _wind_up(loop, watch, stop_grace_s)
    left = [lane.stop() for lane in beside]
    loop.close()
    return asked and drained and all(left)


def _wind_up(loop: WorkerLoop, watch: LoopWatch, stop_grace_s: float) -> bool:
    """Leave the groups, let what runs end, and return the rest; tell whether every report is acknowledged."""
    loop.leave()
    _drain(loop, watch, stop_grace_s)
    if not loop.is_drained:
        loop.return_rest()
        _drain(loop, watch, RETURN_WAIT_S)
    if not loop.is_drained:
        loop.give_up_rest()
        _drain(loop, watch, RETURN_WAIT_S)
    if not loop.is_drained:
        # Its silence will tell the owners what its heartbeats must not: that it has stopped.
        log.error("ending with reports that are not in the log", action="worker.reports_left")
    return loop.is_drained


def _drain(loop: WorkerLoop, watch: LoopWatch, wait_s: float) -> None:
    until_s = time.monotonic() + wait_s
    while not loop.is_drained and time.monotonic() < until_s:
        loop.drain()
        watch.turned()
