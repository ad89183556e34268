"""A worker process: Kafka lanes and reports, HTTP targets."""

from __future__ import annotations

import sys
import time

import structlog

from tocsin.adapters.avro.codec import AvroCodec
from tocsin.adapters.kafka.dispatch_log import KafkaDispatchLog, consumer_config
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.report_sink import KafkaReportSink, count_partitions, producer_config
from tocsin.adapters.targets.http import HttpTargetRunner
from tocsin.bootstrap.beats import beating
from tocsin.bootstrap.process import Process
from tocsin.config import Settings, WorkerSettings
from tocsin.domain.errors import TocsinError
from tocsin.ports.dispatch_log import DispatchLog
from tocsin.roles.heartbeat import LoopWatch
from tocsin.roles.worker import WorkerLimits, WorkerLoop

log = structlog.get_logger()

START_WAIT_S = 30.0
"""How long a start waits for the brokers."""
SWITCH_INTERVAL_S = 0.0005


def run_worker(settings: Settings) -> int:
    """Run a worker until it is asked to stop.

    Returns:
        The exit status: 0 after a stop that was asked for, 1 where the supervisor should start a new process.
    """
    # The loop's thread waits in short calls of the client library, and takes the interpreter back after each: at the
    # default of 5 ms a call, the thread that runs HTTP attempts would slow every turn down.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    process = Process("worker", settings)
    process.stop_on_signals()
    try:
        return _run(process, settings)
    except TocsinError as error:
        log.error("the worker cannot go on", action="worker.failed", error=str(error))
        return 1
    finally:
        process.close()


def _run(process: Process, settings: Settings) -> int:
    loop = _loop(process, settings, TopicNames(settings.kafka.topic_prefix))
    with beating(process, settings) as life:
        # Only once it has ended cleanly: "stopped" says that every report is in the log.
        life.clean = serve(process, loop, life.watch, settings.worker.stop_grace_s)
    return 0 if life.clean else 1


def _loop(process: Process, settings: Settings, names: TopicNames) -> WorkerLoop:
    kafka, worker = settings.kafka, settings.worker
    servers, client_id = kafka.bootstrap_servers, process.process_id
    shards = count_partitions(servers, names.reports, START_WAIT_S, kafka.extra)
    lanes: dict[str, DispatchLog] = {}
    for lane in worker.lanes:
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
        lanes[lane] = KafkaDispatchLog(topic, config)
    return WorkerLoop(
        process.process_id,
        lanes,
        HttpTargetRunner(process.clock, worker.response_bytes_max, worker.allow_private_targets),
        KafkaReportSink(producer_config(servers, client_id, kafka.extra), names.reports, shards),
        AvroCodec(),
        process.clock,
        time.monotonic,
        process.meter,
        _limits(worker),
    )


def _limits(worker: WorkerSettings) -> WorkerLimits:
    return WorkerLimits(
        running_max=worker.running_max,
        # The other half is what the client has fetched and not delivered yet.
        read_ahead_bytes_max=max(1, worker.read_ahead_bytes_max // 2 // len(worker.lanes)),
        read_ahead_records_max=worker.read_ahead_records_max,
        window_max=worker.window_max,
        begun_max=worker.begun_max,
        poll_wait_max_s=worker.poll_wait_max_s,
        commit_fresh_s=worker.commit_fresh_s,
        suspect_max_s=worker.stop_grace_s,
        stuck_attempts_max=worker.stuck_attempts_max,
    )


def serve(process: Process, loop: WorkerLoop, watch: LoopWatch, stop_grace_s: float) -> bool:
    """Turn the loop; return whether it ended because it was asked to, with everything reported."""
    ready = False
    loop.join()
    while not process.stopping.is_set():
        loop.step()
        watch.turned()
        if not ready and loop.is_member:
            ready = True
            process.ready()
        if loop.must_recycle:
            log.error("too many attempts could not be stopped: starting again", action="worker.recycling")
            break
    asked = process.stopping.is_set()
    log.info("stopping", action="worker.stopping", grace_s=stop_grace_s)
    loop.stop_taking()
    until_s = time.monotonic() + stop_grace_s
    while not loop.is_drained and time.monotonic() < until_s:
        loop.step()
        watch.turned()
    loop.close()
    return asked
