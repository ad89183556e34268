"""Puts a notifier together, and runs it."""

from __future__ import annotations

import structlog

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.kafka.alert_log import KafkaAlertLog
from tocsin.adapters.targets.addresses import AddressRules
from tocsin.adapters.targets.signatures import Signer
from tocsin.adapters.targets.webhooks import HttpWebhookPoster
from tocsin.bootstrap.beats import beating
from tocsin.bootstrap.cluster import names_of, topic_admin
from tocsin.bootstrap.process import Process
from tocsin.config import NotifierSettings, Settings
from tocsin.domain.errors import Refused, TocsinError
from tocsin.engine.notification_desk import NotificationLimits
from tocsin.roles.notifier.loop import NotifierLoop

log = structlog.get_logger()


def run_notifier(settings: Settings) -> int:
    """Run a notifier until it is asked to stop.

    Returns:
        The exit code: 0 after a polite stop, 3 when it cannot go on.
    """
    process = Process("notifier", settings)
    process.stop_on_signals()
    try:
        _serve(process, settings)
    except TocsinError as error:
        log.error(str(error), action="notifier.gave_up", error=type(error).__name__)
        return 3
    finally:
        process.close()
    return 0


def _serve(process: Process, settings: Settings) -> None:
    names, kafka, bounds = names_of(settings), settings.kafka, settings.notifier
    if names.alerts not in topic_admin(settings).partition_counts():
        raise Refused(f"the topic {names.alerts} is missing; run `tocsin topics apply`")
    if not bounds.webhooks:
        log.warning("no webhooks are set: nobody is notified", action="notifier.no_webhooks")
    poster = _poster(process, bounds)
    alerts = KafkaAlertLog(
        kafka.bootstrap_servers,
        names.alerts,
        names.group("notifier"),
        f"tocsin-notifier-{process.name}",
        bounds.group_protocol,
        kafka.extra,
    )
    loop = NotifierLoop(alerts, poster, AvroCodec(), bounds.webhooks, _limits(bounds), process.meter)
    try:
        with beating(process, settings) as life:
            ready = False
            while not process.stopping.is_set():
                loop.step(process.clock.now(), bounds.poll_wait_max_s)
                life.watch.turned()
                if not ready and alerts.is_member:
                    ready = True
                    process.ready(webhooks=sorted(bounds.webhooks))
            loop.stop()
            life.clean = True
    finally:
        poster.close()
        alerts.close()


def _poster(process: Process, bounds: NotifierSettings) -> HttpWebhookPoster:
    secrets = {name: [one.get_secret_value() for one in given] for name, given in bounds.signing_secrets.items()}
    rules = AddressRules(allow_private=bounds.allow_private, allow=bounds.allow, deny=bounds.deny)
    try:
        return HttpWebhookPoster(
            bounds.webhooks, process.clock, rules, Signer(secrets), bounds.timeout_s, bounds.ca_file
        )
    except OSError as error:
        raise Refused(f"notifier.ca_file {bounds.ca_file}: {error}; name a file of certificates in PEM") from error


def _limits(bounds: NotifierSettings) -> NotificationLimits:
    return NotificationLimits(
        queue_max=bounds.queue_max,
        waiting_max=bounds.waiting_max,
        posts_max=bounds.posts_max,
        recipient_posts_max=bounds.recipient_posts_max,
        retry_first_s=bounds.retry_first_s,
        retry_max_s=bounds.retry_max_s,
        give_up_after_s=bounds.give_up_after_s,
    )
