"""Sending a command and waiting for its owner's answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

from tocsin.domain import ids
from tocsin.domain.commands import Command, CommandKind, CommandOutcome
from tocsin.ports.command_bus import Delivery
from tocsin.roles.gateway.parts import GatewayParts


@dataclass(frozen=True, slots=True)
class Undecided:
    """The command was sent, but its outcome did not come in time."""

    command_id: str
    job_id: str
    delivery: Delivery


def command_of(
    parts: GatewayParts,
    kind: CommandKind,
    job_id: str,
    tenant_id: str,
    definition: dict[str, Any] | None = None,
    *,
    if_version: int | None = None,
    reason: str | None = None,
    until: str | None = None,
) -> Command:
    """Return a command with an id of its own. Outcomes go to partition 0: every gateway reads all of them."""
    command_id = ids.made_command_id(parts.new_uuid_hex())
    return Command(
        kind,
        command_id,
        job_id,
        tenant_id,
        reply_partition=0,
        definition=definition,
        if_version=if_version,
        reason=reason,
        until=until,
    )


async def submit(parts: GatewayParts, command: Command) -> CommandOutcome | Undecided:
    """Send a command and wait for its outcome.

    Returns:
        The outcome, or what is known if it did not come within ``outcome_wait_s``. If not even the log's
        acknowledgement came by then, that is waited for: the bus bounds it.

    Raises:
        Unavailable: the command is certainly not in the log.
        InvalidInput: the log does not take it.
        Undecodable: the outcome cannot be read.
    """
    assert command.command_id and command.job_id
    outcome = parts.book.expect(command.command_id)
    try:
        sent = parts.bus.send(command.command_id, command.job_id, parts.codec.encode_command(command))
        delivery = asyncio.ensure_future(sent)
        # Nearly every command is acknowledged before it is decided, and nobody need be woken for that.
        delivery.add_done_callback(partial(_pass_failure_on, outcome))
        await asyncio.wait((outcome,), timeout=parts.limits.outcome_wait_s)
        if not outcome.done():
            await asyncio.wait((outcome, delivery), return_when=asyncio.FIRST_COMPLETED)
            if not outcome.done():
                return Undecided(command.command_id, command.job_id, delivery.result())
        return parts.codec.decode_outcome(outcome.result())
    finally:
        outcome.cancel()
        parts.book.forget(command.command_id)


def _pass_failure_on(outcome: asyncio.Future[bytes], delivery: asyncio.Future[Delivery]) -> None:
    """Tell whoever waits for an outcome, if anybody still does, that the command is not in the log."""
    error = None if delivery.cancelled() else delivery.exception()
    if error is not None and not outcome.done():
        outcome.set_exception(error)
