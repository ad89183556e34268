"""What a message execution becomes: the tenant's record, and what is said of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tocsin.domain.errors import Undecodable
from tocsin.domain.executions import AttemptError, AttemptHead, Execution
from tocsin.domain.instants import format_rfc3339
from tocsin.domain.targets import MessageTarget
from tocsin.ports.codec import ExecutionCodec
from tocsin.ports.dispatch_log import Delivery
from tocsin.ports.message_log import Message

RECORD_OVERHEAD_BYTES: Final = 512
"""What a settled record takes in a transaction besides its message: its report, framing."""


@dataclass(slots=True, eq=False)
class Work:
    """A record of the lane that is not settled yet.

    Attributes:
        delivery: as it came.
        execution: None where it cannot be read, or is none of this lane's.
        message: the tenant's record; None as above.
        problem: then, what is wrong with it.
        refusal: what the brokers said of the message when it was tried alone.
        in_doubt: what the group had committed of it is lost, so it may have been settled.
    """

    delivery: Delivery
    execution: Execution | None = None
    message: Message | None = None
    problem: str = ""
    refusal: AttemptError | None = None
    in_doubt: bool = False

    @property
    def size(self) -> int:
        """Bytes that settling it adds to a transaction, roughly."""
        message = self.message
        if message is None:
            return RECORD_OVERHEAD_BYTES
        headers = sum(len(name) + len(value) for name, value in message.headers)
        return RECORD_OVERHEAD_BYTES + len(message.key or b"") + len(message.value or b"") + headers


def read_work(codec: ExecutionCodec, delivery: Delivery) -> Work:
    """Decode a record of the lane; one that cannot be served says why."""
    try:
        execution = codec.decode_execution(delivery.value)
    except Undecodable as error:
        return Work(delivery, problem=str(error))
    target = execution.target
    if not isinstance(target, MessageTarget):
        return Work(delivery, problem=f"has a target of type {target.type}, which the message lane does not serve")
    return Work(delivery, execution, message_of(execution.head, target))


def message_of(head: AttemptHead, target: MessageTarget) -> Message:
    """Return the record for the tenant's topic; its headers say of which dispatch it is."""
    own = {
        "idempotency-key": head.execution_id,
        "tocsin-execution-id": head.execution_id,
        "tocsin-job-id": head.job_id,
        "tocsin-scheduled-for": format_rfc3339(head.scheduled_for),
        "tocsin-attempt": str(head.attempt),
        "tocsin-token": str(head.token),
    }
    return Message(
        target.topic,
        None if target.key is None else target.key.encode(),
        None if target.value is None else target.value.encode(),
        tuple((name, text.encode()) for name, text in (*target.headers.items(), *own.items())),
    )


def next_batch(backlog: Sequence[Work], records_max: int, bytes_max: int) -> list[Work]:
    """Return the first of a backlog within both bounds, and at least one."""
    batch: list[Work] = []
    size = 0
    for work in backlog:
        size += work.size
        if batch and (len(batch) >= records_max or size > bytes_max):
            break
        batch.append(work)
    return batch
