"""Which alert is posted to whom, and when: a queue for each recipient, so that none of them keeps another waiting.

Pure: whoever drives it brings the alerts, the time and the ends of posts. An alert is settled once it was delivered, or
will never be: then its offset need not be read again. Everything is bounded; what exceeds a bound is dropped, oldest
first, and told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from tocsin.domain.alerts import Alert
from tocsin.domain.errors import Undecodable
from tocsin.domain.instants import SECOND, Micros
from tocsin.engine.offset_metadata import WINDOW_MAX, decode_marks, encode_marks

OPERATOR: Final = "@operator"
"""The recipient of alerts that are no tenant's. No tenant can be called so."""
ANY_TENANT: Final = "*"
"""Stands for all tenants that are not named."""
TRIM_FIRST: Final = 64


class Fate(StrEnum):
    """What became of an alert, or of one attempt to post it."""

    DELIVERED = "delivered"
    FAILED = "failed"
    """An attempt; another follows."""
    DROPPED = "dropped"
    """It will not be delivered: its time was over, its recipient wants no more, or too much was waiting."""
    UNROUTED = "unrouted"
    """Nobody is named to whom it could be posted."""
    UNREADABLE = "unreadable"


class Notice(NamedTuple):
    """An alert that waits to be posted. ``address``: whose entry among the recipients serves it."""

    offset: int
    alert: Alert
    address: str
    give_up_at: Micros


class Dropped(NamedTuple):
    """An alert that will not be delivered, and why."""

    notice: Notice
    why: str


@dataclass(frozen=True, slots=True)
class NotificationLimits:
    """Bounds.

    Attributes:
        queue_max: alerts of one recipient that wait.
        waiting_max: alerts of all recipients that wait.
        span_max: offsets between the oldest alert that is not settled and the newest.
        posts_max: posts under way at once.
        recipient_posts_max: of these, to one recipient; one that fails is tried with one at a time.
        retry_first_s, retry_max_s: how long a recipient is left alone after a failure; doubled with each further one.
        give_up_after_s: how long an alert is tried.
    """

    queue_max: int = 1_000
    waiting_max: int = 20_000
    span_max: int = 500_000
    posts_max: int = 64
    recipient_posts_max: int = 4
    retry_first_s: float = 1.0
    retry_max_s: float = 300.0
    give_up_after_s: float = 3_600.0


@dataclass(slots=True)
class _Recipient:
    """A queue: of one tenant, or of the operator."""

    waiting: deque[Notice] = field(default_factory=deque)
    under_way: int = 0
    failures: int = 0
    """In a row."""
    not_before: Micros = 0


class NotificationDesk:
    """The alerts of one partition through one assignment.

    Args:
        addresses: to whom alerts can go: tenants, ``ANY_TENANT``, ``OPERATOR``.
        limits: see there.
        start: the offset that was committed.
        metadata: what was committed beside it: which offsets from there on are settled.
    """

    def __init__(
        self, addresses: Collection[str], limits: NotificationLimits, start: int = 0, metadata: str | None = None
    ) -> None:
        self._addresses = frozenset(addresses)
        self._limits = limits
        self._recipients: dict[str, _Recipient] = {}
        self._open: dict[int, None] = {}
        """Offsets that are not settled, in order."""
        self._settled: set[int] = set()
        """Settled offsets past the first open one."""
        self._position = start
        self._trim_at = TRIM_FIRST
        self._waiting = 0
        self._under_way = 0
        try:
            self._skips = {start + offset for offset in decode_marks(metadata).settled}
        except Undecodable:
            self._skips = set()
        self.dropped: list[Dropped] = []
        """What was dropped since somebody looked; emptied by whoever tells it."""
        self.fates: dict[Fate, int] = {}
        """Counts since somebody looked; emptied likewise."""

    @property
    def waiting(self) -> int:
        """How many alerts are neither delivered nor given up."""
        return len(self._open)

    def take(self, offset: int, alert: Alert | None, now: Micros) -> None:
        """Take an alert in; None: its record could not be read."""
        if offset < self._position:
            return
        self._position = offset + 1
        if offset in self._skips:
            self._skips.discard(offset)
            self._settled.add(offset)
            self._trim()
            return
        self._open[offset] = None
        if alert is None:
            self._settle(offset, Fate.UNREADABLE)
            return
        address = self._address_of(alert)
        if address is None:
            self._settle(offset, Fate.UNROUTED)
            return
        recipient = self._recipients.setdefault(alert.tenant_id or OPERATOR, _Recipient())
        give_up_at = now + round(self._limits.give_up_after_s * SECOND)
        recipient.waiting.append(Notice(offset, alert, address, give_up_at))
        self._waiting += 1
        self._make_room(recipient)

    def due(self, now: Micros) -> list[Notice]:
        """Return what is to be posted now; each recipient has its turn."""
        found: list[Notice] = []
        ready = list(self._recipients.items())
        while ready and self._under_way < self._limits.posts_max:
            left = []
            for name, recipient in ready:
                notice = self._next(recipient, now) if self._under_way < self._limits.posts_max else None
                if notice is not None:
                    found.append(notice)
                    left.append((name, recipient))
            ready = left
        # Whoever was served goes to the end, so that it does not take the places of others the next time.
        for notice in found:
            name = _name(notice)
            self._recipients[name] = self._recipients.pop(name)
        return found

    def delivered(self, notice: Notice) -> None:
        """A post was answered well."""
        recipient = self._back(notice)
        recipient.failures, recipient.not_before = 0, 0
        self._settle(notice.offset, Fate.DELIVERED)
        self._forget(notice)

    def failed(self, notice: Notice, now: Micros, retry_after_s: float | None = None) -> None:
        """A post was not answered well: it is tried again after a while, which the recipient may name."""
        recipient = self._back(notice)
        recipient.failures += 1
        pause_s = min(self._limits.retry_max_s, self._limits.retry_first_s * 2.0 ** min(recipient.failures - 1, 30))
        pause_s = max(pause_s, min(retry_after_s or 0.0, self._limits.retry_max_s))
        recipient.not_before = max(recipient.not_before, now + round(pause_s * SECOND))
        self._count(Fate.FAILED)
        if notice.offset not in self._open:
            return
        # In its place by age: the oldest is tried first, and given up first.
        place = next((n for n, other in enumerate(recipient.waiting) if other.offset > notice.offset), None)
        recipient.waiting.insert(len(recipient.waiting) if place is None else place, notice)
        self._waiting += 1

    def refused(self, notice: Notice, why: str) -> None:
        """A post was answered so that trying again is of no use."""
        self._back(notice)
        self._drop(notice, why)
        self._forget(notice)

    def expire(self, now: Micros) -> None:
        """Give up what was tried for long enough."""
        for name, recipient in list(self._recipients.items()):
            while recipient.waiting and recipient.waiting[0].give_up_at <= now:
                self._waiting -= 1
                self._drop(recipient.waiting.popleft(), "its time was over")
            if not recipient.waiting and not recipient.under_way:
                del self._recipients[name]

    def next_wake(self) -> Micros | None:
        """Return when the first recipient that failed is tried again; None where none waits."""
        return min((r.not_before for r in self._recipients.values() if r.waiting), default=None)

    def commit(self) -> tuple[int, str]:
        """Return the offset to go on from, and which of those behind it are settled."""
        prefix = next(iter(self._open), self._position)
        known = (offset - prefix for offset in (*self._settled, *self._skips))
        return prefix, encode_marks([offset for offset in known if 0 <= offset < WINDOW_MAX], (), 0)

    def _address_of(self, alert: Alert) -> str | None:
        if alert.tenant_id is None:
            return OPERATOR if OPERATOR in self._addresses else None
        if alert.tenant_id in self._addresses:
            return alert.tenant_id
        return ANY_TENANT if ANY_TENANT in self._addresses else None

    def _next(self, recipient: _Recipient, now: Micros) -> Notice | None:
        most = 1 if recipient.failures else self._limits.recipient_posts_max
        if not recipient.waiting or recipient.under_way >= most or now < recipient.not_before:
            return None
        self._waiting -= 1
        self._under_way += 1
        recipient.under_way += 1
        return recipient.waiting.popleft()

    def _back(self, notice: Notice) -> _Recipient:
        self._under_way -= 1
        recipient = self._recipients[_name(notice)]
        recipient.under_way -= 1
        return recipient

    def _forget(self, notice: Notice) -> None:
        """Keep nothing of a recipient for whom nothing waits: there may be very many over time."""
        recipient = self._recipients[_name(notice)]
        if not recipient.waiting and not recipient.under_way:
            del self._recipients[_name(notice)]

    def _make_room(self, recipient: _Recipient) -> None:
        if len(recipient.waiting) > self._limits.queue_max:
            self._overflow(recipient)
        elif self._waiting > self._limits.waiting_max:
            self._overflow(max(self._recipients.values(), key=lambda one: len(one.waiting)))
        if self._position - next(iter(self._open), self._position) > self._limits.span_max:
            oldest = next(iter(self._open))
            for one in self._recipients.values():
                if one.waiting and one.waiting[0].offset == oldest:
                    self._overflow(one)
                    return

    def _overflow(self, recipient: _Recipient) -> None:
        self._waiting -= 1
        self._drop(recipient.waiting.popleft(), "too much was waiting")

    def _drop(self, notice: Notice, why: str) -> None:
        self.dropped.append(Dropped(notice, why))
        self._settle(notice.offset, Fate.DROPPED)

    def _settle(self, offset: int, fate: Fate) -> None:
        self._count(fate)
        if offset in self._open:
            del self._open[offset]
            self._settled.add(offset)
            self._trim()

    def _trim(self) -> None:
        """Forget what is settled below the first open offset; not each time, for there may be many."""
        if not self._open:
            self._settled.clear()
        elif len(self._settled) > self._trim_at:
            prefix = next(iter(self._open))
            self._settled = {offset for offset in self._settled if offset > prefix}
            self._trim_at = max(TRIM_FIRST, 2 * len(self._settled))

    def _count(self, fate: Fate) -> None:
        self.fates[fate] = self.fates.get(fate, 0) + 1


def _name(notice: Notice) -> str:
    return notice.alert.tenant_id or OPERATOR
