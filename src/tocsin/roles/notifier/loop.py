"""The notifier's loop: read alerts, post what is due, note how posts ended, commit what is settled.

It decides nothing (that is the desk's), and has no clock or sleep of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import structlog

from tocsin.domain.errors import Unavailable, Undecodable
from tocsin.domain.instants import SECOND, Micros
from tocsin.engine.notification_desk import Dropped, Notice, NotificationDesk, NotificationLimits
from tocsin.ports.alert_log import AlertLog, SeenAlert
from tocsin.ports.codec import FleetCodec
from tocsin.ports.meters import NotifierMeter
from tocsin.ports.webhooks import Post, PostEnd, WebhookPoster
from tocsin.roles.notifier.rendering import alert_body, alert_headers, alert_id

log = structlog.get_logger()

BATCH_MAX: Final = 500
"""Alerts taken in with one step."""
COMMIT_EVERY: Final[Micros] = SECOND
AWAY_PAUSE: Final[Micros] = SECOND
GONE: Final = 410
"""The status with which a receiver says that it wants no more of what it is sent."""
TOLD_MAX: Final = 10
"""Recipients whose dropped alerts are logged one by one with a step."""


class NotifierLoop:
    """Notifies.

    Args:
        alert_log: where alerts come from.
        poster: where they go.
        codec: reads them.
        addresses: the webhooks that there are: tenants, or the two words of ``engine.notification_desk``.
        limits: bounds of what waits.
        meter: counts.
    """

    def __init__(
        self,
        alert_log: AlertLog,
        poster: WebhookPoster,
        codec: FleetCodec,
        addresses: Collection[str],
        limits: NotificationLimits,
        meter: NotifierMeter,
    ) -> None:
        self._log = alert_log
        self._poster = poster
        self._codec = codec
        self._addresses = addresses
        self._limits = limits
        self._meter = meter
        self._desk: NotificationDesk | None = None
        self._round = 0
        """Of the assignment: a post of an earlier one ends for nobody."""
        self._committed: tuple[int, str] | None = None
        self._commit_at: Micros = 0
        self._not_before: Micros = 0

    def step(self, now: Micros, wait_s: float) -> None:
        """Do one round. ``wait_s``: how long it may wait for alerts where nothing else is due."""
        self._read(now, wait_s)
        desk = self._desk
        for end in self._poster.ended():
            self._note(end, now)
        if desk is not None:
            desk.expire(now)
            self._poster.start([self._post(notice) for notice in desk.due(now)])
            self._tell(desk)
            if now >= self._commit_at:
                self._commit_at = now + COMMIT_EVERY
                self._commit(desk)
        self._meter.notifications_waiting(0 if desk is None else desk.waiting)

    def stop(self) -> None:
        """Say where a successor is to go on; what is under way is posted again by it."""
        if self._desk is not None:
            self._commit(self._desk)

    def _read(self, now: Micros, wait_s: float) -> None:
        if now < self._not_before:
            return
        try:
            polled = self._log.poll(BATCH_MAX, wait_s)
        except Unavailable as error:
            log.warning(str(error), action="notifier.waits_for_answers")
            self._not_before = now + AWAY_PAUSE
            return
        if polled.gone:
            self._desk = None
        if polled.begin is not None:
            self._desk = NotificationDesk(self._addresses, self._limits, *polled.begin)
            # Where it begins is committed at once: a group without a commit begins at the end, past what came since.
            self._committed, self._commit_at = None, now
            self._round += 1
            log.info("alerts came to be told here", action="notifier.assigned", offset=polled.begin.offset)
        if self._desk is not None:
            for seen in polled.alerts:
                self._take(self._desk, seen, now)

    def _take(self, desk: NotificationDesk, seen: SeenAlert, now: Micros) -> None:
        try:
            alert = self._codec.decode_alert(seen.value)
        except Undecodable as error:
            log.warning("an alert cannot be read", action="notifier.unreadable", offset=seen.offset, error=str(error))
            desk.take(seen.offset, None, now)
            return
        desk.take(seen.offset, alert, now)

    def _post(self, notice: Notice) -> Post:
        name = alert_id(notice.alert, notice.offset)
        body, headers = alert_body(notice.alert, name), alert_headers(notice.alert, name)
        return Post((self._round, notice), notice.address, name, body, headers)

    def _note(self, end: PostEnd, now: Micros) -> None:
        of_round, notice = end.ref
        desk = self._desk
        if desk is None or of_round != self._round:
            return
        if end.problem is None:
            desk.delivered(notice)
        elif end.status == GONE:
            desk.refused(notice, end.problem)
        else:
            desk.failed(notice, now, end.retry_after_s)

    def _tell(self, desk: NotificationDesk) -> None:
        for fate, count in desk.fates.items():
            self._meter.notified(str(fate), count)
        desk.fates.clear()
        if desk.dropped:
            for told in list(_by_recipient(desk.dropped).items())[:TOLD_MAX]:
                recipient, found = told
                first = found[0].notice.alert
                log.error(
                    "alerts were not delivered and are given up",
                    action="notifier.dropped",
                    recipient=recipient,
                    count=len(found),
                    why=found[0].why,
                    first={"kind": first.kind, "job_id": first.job_id, "execution_id": first.execution_id},
                )
            desk.dropped.clear()

    def _commit(self, desk: NotificationDesk) -> None:
        place = desk.commit()
        if place != self._committed and self._log.commit(*place):
            self._committed = place


def _by_recipient(dropped: list[Dropped]) -> Mapping[str, list[Dropped]]:
    found: dict[str, list[Dropped]] = {}
    for one in dropped:
        found.setdefault(one.notice.alert.tenant_id or "the operator", []).append(one)
    return found
