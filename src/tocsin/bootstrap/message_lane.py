"""The worker's message lane: its parts put together, and the thread that turns its loop.

Its loop waits for transactions, and the loop of the other lanes must never wait so long; hence a thread of its own.
"""

from __future__ import annotations

import threading
import time
from typing import Final

import structlog
from confluent_kafka.admin import AdminClient

from tocsin.adapters.avro.codec import AvroCodec
from tocsin.adapters.kafka.cancel_log import KafkaCancelLog
from tocsin.adapters.kafka.clients import base_config
from tocsin.adapters.kafka.dispatch_log import KafkaDispatchLog, consumer_config
from tocsin.adapters.kafka.message_log import KafkaMessageLog, transactions_config
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.report_sink import count_partitions
from tocsin.adapters.kafka.tenant_topics import TenantTopics
from tocsin.bootstrap.process import Process
from tocsin.config import Settings
from tocsin.domain.errors import TocsinError
from tocsin.roles.heartbeat import STALLED_AFTER_S, LoopWatch
from tocsin.roles.worker.message_loop import MessageLimits, MessageLoop

log = structlog.get_logger()

MESSAGE_LANE: Final = "message"
START_WAIT_S: Final = 30.0
CLOSE_WAIT_S: Final = 30.0
"""How long a stop waits for the transaction under way, and for leaving the group."""
IDLE_S: Final = 0.05


class MessageThread:
    """Turns the message lane's loop until it is asked to stop.

    Args:
        loop: not used by any other thread from ``start`` on.
    """

    def __init__(self, loop: MessageLoop) -> None:
        self._loop = loop
        self._watch = LoopWatch(time.monotonic)
        self._stopping = threading.Event()
        self._left = False
        self._thread = threading.Thread(target=self._run, name="message-lane", daemon=True)

    def start(self) -> None:
        self._watch.turned()
        self._thread.start()

    @property
    def is_member(self) -> bool:
        return self._loop.is_member

    @property
    def has_failed(self) -> bool:
        """It ended without being asked to, or does not turn: only a new process helps."""
        return not self._thread.is_alive() or self._watch.age_s() > STALLED_AFTER_S

    def ask_to_stop(self) -> None:
        self._stopping.set()

    def stop(self) -> bool:
        """Wait until it has ended; return whether it left its group."""
        self._stopping.set()
        self._thread.join(CLOSE_WAIT_S)
        return self._left

    def _run(self) -> None:
        try:
            self._loop.join()
            while not self._stopping.is_set():
                self._loop.step()
                self._watch.turned()
            self._loop.close()
            self._left = True
        except TocsinError as error:
            log.error("the message lane cannot go on", action="message_lane.failed", error=str(error))


def message_lane(process: Process, settings: Settings, names: TopicNames) -> MessageThread:
    """Put the message lane of a worker together."""
    kafka, worker = settings.kafka, settings.worker
    servers, client_id = kafka.bootstrap_servers, process.process_id
    topic, group = names.executions(MESSAGE_LANE), names.group(f"worker.{MESSAGE_LANE}")
    count_partitions(servers, topic, START_WAIT_S, kafka.extra)
    consumer = consumer_config(
        servers,
        group,
        client_id,
        worker.group_protocol,
        worker.session_timeout_s,
        worker.message_batch_bytes_max,
        kafka.extra,
    )
    # Of this start alone: the group's generation bars what is left of another process, the id what is left of ours.
    transactional_id = f"{group}.{client_id}"
    records = KafkaMessageLog(
        KafkaDispatchLog(topic, consumer),
        topic,
        names,
        count_partitions(servers, names.reports, START_WAIT_S, kafka.extra),
        transactions_config(servers, client_id, transactional_id, worker.transaction_timeout_s, kafka.extra),
        TenantTopics(AdminClient(base_config(servers, client_id, kafka.extra)), names, worker.message_topic_age_s),
    )
    limits = MessageLimits(
        worker.message_batch_records_max,
        worker.message_batch_bytes_max,
        worker.poll_wait_max_s,
        cancels_kept_max=worker.cancels_kept_max,
    )
    cancels = cancel_log(process, names, settings)
    loop = MessageLoop(client_id, records, AvroCodec(), process.clock, time.monotonic, process.meter, limits, cancels)
    return MessageThread(loop)


def cancel_log(process: Process, names: TopicNames, settings: Settings) -> KafkaCancelLog:
    """Return a reader of what must not be started any more; each lane's loop has its own."""
    kafka = settings.kafka
    count_partitions(kafka.bootstrap_servers, names.worker_control, START_WAIT_S, kafka.extra)
    return KafkaCancelLog(kafka.bootstrap_servers, names.worker_control, process.process_id, AvroCodec(), kafka.extra)


def serve_messages(process: Process, messages: MessageThread, watch: LoopWatch) -> bool:
    """Run a worker that has no other lane; return whether it ended because it was asked to."""
    messages.start()
    ready = False
    while not messages.has_failed and not process.stopping.wait(IDLE_S):
        watch.turned()
        if not ready and messages.is_member:
            ready = True
            process.ready()
    asked = process.stopping.is_set()
    log.info("stopping", action="worker.stopping")
    return messages.stop() and asked
