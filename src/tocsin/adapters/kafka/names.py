"""Names of topics and groups, all under one prefix."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicNames:
    """The topics of one tocsin cluster."""

    prefix: str = "tocsin."

    @property
    def commands(self) -> str:
        return f"{self.prefix}commands"

    @property
    def reports(self) -> str:
        return f"{self.prefix}reports"

    @property
    def outcomes(self) -> str:
        return f"{self.prefix}outcomes"

    @property
    def jobs(self) -> str:
        return f"{self.prefix}jobs"

    @property
    def events(self) -> str:
        return f"{self.prefix}execution-events"

    @property
    def shard_state(self) -> str:
        return f"{self.prefix}shard-state"

    @property
    def fleet(self) -> str:
        return f"{self.prefix}fleet"

    @property
    def dead_letters(self) -> str:
        return f"{self.prefix}dead-letters"

    @property
    def worker_control(self) -> str:
        return f"{self.prefix}worker-control"

    @property
    def alerts(self) -> str:
        return f"{self.prefix}alerts"

    def executions(self, lane: str) -> str:
        return f"{self.prefix}executions.{lane}"

    def group(self, role: str) -> str:
        """The consumer group of a role (``trigger``, ``projector``) or of a lane's workers (``worker.default``)."""
        return f"{self.prefix}{role}"

    def reserves(self, topic: str) -> bool:
        """Tell whether a topic is the cluster's own, or Kafka's, so that no tenant's records go there."""
        if topic.startswith(("__", self.executions(""))) or (self.prefix and topic.startswith(self.prefix)):
            return True
        sharded = (self.commands, self.reports, self.jobs, self.events, self.shard_state, self.dead_letters)
        return topic in (*sharded, self.outcomes, self.fleet, self.worker_control, self.alerts)
