"""Heartbeats for every role: one way to start and end them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.kafka.fleet_beats import KafkaFleetBeats
from tocsin.bootstrap.cluster import names_of
from tocsin.bootstrap.process import Process
from tocsin.config import Settings
from tocsin.roles.heartbeat import HeartbeatSender, LoopWatch


@dataclass(slots=True)
class Life:
    """What a role tells its heartbeats.

    Attributes:
        watch: told of every turn of the loop.
        clean: set once the process has nothing left to say; only then does the last beat say "stopped".
    """

    watch: LoopWatch
    clean: bool = False


@contextmanager
def beating(process: Process, settings: Settings) -> Iterator[Life]:
    """Beat while the block runs."""
    life = Life(LoopWatch(time.monotonic))
    kafka, every_s = settings.kafka, settings.heartbeat_every_s
    topic = names_of(settings).fleet
    beats = KafkaFleetBeats(kafka.bootstrap_servers, process.process_id, topic, AvroCodec(), every_s, kafka.extra)
    sender = HeartbeatSender(beats, process.heartbeat, life.watch, every_s)
    sender.start()
    try:
        yield life
    finally:
        sender.stop(clean=life.clean)
