"""Putting a dead letter into a step: its record, its count, and a word to people."""

from __future__ import annotations

from tocsin.domain.alerts import Alert, AlertKind
from tocsin.domain.fleet import DeadLetter
from tocsin.engine.effects import Step
from tocsin.ports.codec import FleetCodec
from tocsin.ports.shard_log import DEAD_LETTERS, NewRecord


def set_aside(
    step: Step,
    codec: FleetCodec,
    shard: int,
    key: str,
    letter: DeadLetter,
    *,
    unknown: str | None = None,
    alert_on: str | None = None,
) -> None:
    """Put a dead letter into a step. One alert tells of it.

    Args:
        step, codec, shard, key, letter: where it goes.
        unknown: the message of an alert that nobody can tell whether it ran.
        alert_on: the word by which its job asked for the alert.
    """
    value = codec.encode_dead_letter(letter)
    step.records.append(NewRecord(DEAD_LETTERS, shard, key, value))
    step.bytes += len(value)
    step.tally.dead_letters[letter.kind] = step.tally.dead_letters.get(letter.kind, 0) + 1
    step.alerts.append(
        Alert(
            AlertKind.DEAD_LETTER if unknown is None else AlertKind.UNKNOWN,
            step.now,
            letter.tenant_id,
            letter.job_id,
            letter.execution_id,
            message=f"{letter.kind}: {letter.reason}" if unknown is None else unknown,
            alert_on=alert_on,
        )
    )
    step.turn = True
