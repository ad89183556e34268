"""The servers of a development system, with their tables and topics, around the local cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from tocsin.bootstrap.cluster import apply_topics, check_cluster, open_store
from tocsin.bootstrap.restarts import Restarts
from tocsin.bootstrap.schema import apply_migrations
from tocsin.config import Settings
from tocsin.dev.audience import Audience
from tocsin.dev.signals import HurryAsked, StopAsked, StopSignals
from tocsin.devcluster import DevCluster, DevClusterError, Endpoints
from tocsin.domain.errors import Refused, Unavailable

LOOK_EVERY_S: Final = 2.0
TOPICS_WAIT_S: Final = 15.0
TOPICS_PAUSE_S: Final = 0.5


class Servers:
    """Kafka and Cassandra, as far as this system started them; what ran before it stays when it ends."""

    def __init__(self, data_dir: Path, audience: Audience, signals: StopSignals) -> None:
        self._cluster = DevCluster(data_dir)
        self._audience = audience
        self._signals = signals
        self._ours = False
        self._restarts = Restarts()
        self._look_due_s = 0.0

    def start(self, *, fresh: bool) -> Endpoints:
        """Start what does not run, and return where it answers.

        Raises:
            DevClusterError: something is missing, or a server failed.
        """
        external = [node.name for node in self._cluster.status() if node.state == "external"]
        if fresh and external:
            text = f"--fresh does not empty servers that the environment names ({', '.join(external)})"
            self._audience.said(text, bad=True)
        self._ours = fresh or self._cluster.endpoints() is None
        return self._cluster.up(fresh=fresh, report=self._audience.progress, die_with_parent=True)

    def look_after(self) -> None:
        """Start again what died, now and then. Blocks while it does, and lets signals break in."""
        now = time.monotonic()
        if now < self._look_due_s:
            return
        self._look_due_s = now + LOOK_EVERY_S
        died = [node.name for node in self._cluster.status() if node.state == "died"]
        if not died:
            return
        self._audience.said(f"{', '.join(died)} died; starting it again", bad=True)
        try:
            with self._signals.interrupting(StopAsked, HurryAsked):
                self._cluster.up(report=self._audience.progress, die_with_parent=True)
        except DevClusterError as error:
            self._audience.said(str(error), bad=True)
            self._look_due_s = time.monotonic() + self._restarts.died(0.0)

    def stop(self) -> None:
        """Stop what was started here and wait until it is gone; data are kept."""
        if self._ours:
            self._cluster.down(report=self._audience.progress)

    def kill(self) -> None:
        """End what was started here at once."""
        if self._ours:
            for node in self._cluster.status():
                if node.state != "external":
                    self._cluster.kill(node.name)


def settings_for(endpoints: Endpoints) -> Settings:
    """Return the environment's settings, with these servers."""
    settings = Settings()
    settings.kafka.bootstrap_servers = endpoints.kafka_bootstrap
    settings.cassandra.contact_points = endpoints.cassandra_contact_points
    settings.cassandra.port = endpoints.cassandra_port
    return settings


def prepare(settings: Settings, audience: Audience) -> int:
    """Bring tables and topics to what this program needs; return the number of shards.

    Raises:
        TocsinError: the servers do not answer, or hold something else than expected.
    """
    applied = apply_migrations(settings)
    deadline_s = time.monotonic() + TOPICS_WAIT_S
    touched: set[str] = set()
    while True:
        try:
            with open_store(settings) as connection:
                changes = apply_topics(settings, connection)
                touched |= {change.declaration.name for change in changes if change.action != "none"}
                facts, _ = check_cluster(settings, connection)
            break
        except (Refused, Unavailable):
            # A broker that was started a moment ago may take a while to know the topics that it has just made.
            if time.monotonic() > deadline_s:
                raise
            time.sleep(TOPICS_PAUSE_S)
    if applied or touched:
        audience.said(f"tables and topics: {len(applied)} migrations applied, {len(touched)} topics created or altered")
    return facts.shards
