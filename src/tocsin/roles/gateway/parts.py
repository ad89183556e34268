"""What the routes work with: the ports they were given, and their bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request

from tocsin.domain.callback_keys import CallbackKeys
from tocsin.domain.errors import InvalidInput
from tocsin.domain.pools import unknown_pool
from tocsin.domain.targets import Target, pool_of
from tocsin.ports.clock import Clock
from tocsin.ports.codec import GatewayCodec
from tocsin.ports.command_bus import CommandBus
from tocsin.ports.meters import GatewayMeter
from tocsin.ports.run_logs import RunLogReader
from tocsin.ports.views import ViewReader
from tocsin.roles.gateway.outcomes import OutcomeBook
from tocsin.roles.gateway.snapshots import SnapshotDesk
from tocsin.roles.pools import PoolBook


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Bounds of the gateway.

    Attributes:
        outcome_wait_s: how long a request waits for its command's outcome before 202.
        store_wait_s: how long a request waits for the store before it goes on without, or says so.
        body_wait_s: how long a body may take to arrive.
        body_bytes_max: size of a body.
        pending_max: requests waiting for outcomes at once.
        outcomes_kept_max: outcomes kept.
        outcomes_kept_bytes_max: bytes of outcomes kept.
        hosts: names under which it may be asked; none: any.
    """

    outcome_wait_s: float = 2.0
    store_wait_s: float = 5.0
    body_wait_s: float = 20.0
    body_bytes_max: int = 1_000_000
    pending_max: int = 10_000
    outcomes_kept_max: int = 100_000
    outcomes_kept_bytes_max: int = 128_000_000
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GatewayParts:
    """The ports of one gateway, its book of outcomes, its desk of snapshots, and the keys of callbacks."""

    bus: CommandBus
    views: ViewReader
    codec: GatewayCodec
    clock: Clock
    meter: GatewayMeter
    new_uuid_hex: Callable[[], str]
    render_metrics: Callable[[], bytes]
    limits: GatewayLimits
    book: OutcomeBook
    desk: SnapshotDesk
    callbacks: CallbackKeys
    run_logs: RunLogReader
    pools: PoolBook | None = None
    """None: which pools there are is left to the owners."""

    def refuse_unknown_pool(self, target: Target) -> None:
        """Refuse a target whose pool does not exist, as far as that is known here; its owner looks too.

        Raises:
            InvalidInput: naming the pool and those that there are.
        """
        pool, known = pool_of(target), self.pools.known() if self.pools else None
        if pool is not None and known is not None and pool not in known:
            raise InvalidInput([unknown_pool(pool, known)])


def parts_of(request: Request) -> GatewayParts:
    """Return the parts of the application that serves a request."""
    parts: GatewayParts = request.app.state.parts
    return parts
