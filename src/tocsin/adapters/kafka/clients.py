"""What all Kafka clients here have in common: settings, each with its reason, and errors in our own words."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message

from tocsin.domain.errors import Refused, Unavailable

NO_GENERATION: Final = -1
"""The generation of what is not a member of its group. A commit under it is accepted unchecked."""
_METADATA_MAGIC: Final = b"CGMDv2:"


def base_config(bootstrap_servers: str, client_id: str, extra: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the settings that every client takes. ``extra`` holds the operator's (security and the like)."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "client.id": client_id,
        # A broker that restarts is back within seconds; the default backs off to ten.
        "reconnect.backoff.max.ms": 1_000,
        # Otherwise librdkafka writes twenty lines a second to stderr while a broker is away; we report it ourselves.
        "log_level": 0,
        **(extra or {}),
    }


def place(message: Message) -> tuple[int, int]:
    """Return partition and offset of a message that came from the log, or was acknowledged by it."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None, "a message in the log has a place"
    return partition, offset


def unavailable(error: KafkaError | KafkaException) -> Unavailable:
    """Translate a driver's error."""
    inner = error.args[0] if isinstance(error, KafkaException) else error
    return Unavailable("kafka", f"{inner.name()}: {inner.str()}" if isinstance(inner, KafkaError) else str(inner))


def kafka_error(error: KafkaException | SystemError) -> KafkaError:
    """Return what a call of a producer failed with.

    A fatal error is raised by the client from within the call that serves its callbacks. Where one of ours is called
    after that, the interpreter finds the exception there and makes a SystemError of it.
    """
    found: BaseException | None = error
    while found is not None and not isinstance(found, KafkaException):
        found = found.__cause__
    if found is None:
        raise error
    inner: KafkaError = found.args[0]
    return inner


def group_generation(metadata: bytes) -> int:
    """Return the generation inside librdkafka's opaque group metadata; -1 before the first join.

    A commit under generation -1 is accepted by the coordinator without any check, so it must never be sent.
    """
    if not metadata.startswith(_METADATA_MAGIC):
        raise Refused("this librdkafka describes its group membership in an unknown form; tocsin needs 2.x")
    start = len(_METADATA_MAGIC)
    return int.from_bytes(metadata[start : start + 4], "little", signed=True)
