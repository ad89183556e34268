"""Topics as they are declared, as they are, and what makes the second the first."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tocsin.adapters.kafka.clients import base_config, unavailable
from tocsin.domain.errors import Refused, Unavailable

ANSWER_S: Final = 20.0
COPIES: Final = 3


@dataclass(frozen=True, slots=True)
class TopicDeclaration:
    """A topic as it must be. ``fixed``: its number of partitions is part of how ids are routed, and never changes."""

    name: str
    partitions: int
    config: Mapping[str, str]
    fixed: bool


@dataclass(slots=True)
class TopicChange:
    """What one topic needs.

    Attributes:
        action: ``none``, ``create``, ``alter`` or ``conflict``.
        config: settings to alter: name to (is, must be).
        problem: for a conflict, what stands in the way.
    """

    declaration: TopicDeclaration
    action: str
    config: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    problem: str = ""


def load_declarations(
    directory: Path, prefix: str, counts: Mapping[str, int], pools: Sequence[str] = ()
) -> list[TopicDeclaration]:
    """Read ``*.yaml``.

    Args:
        directory: where they lie.
        prefix: of the cluster's topics.
        counts: what a declaration's ``partitions`` may name instead of a number (``shards``, ``lane``, ``outcomes``).
        pools: for each of them there is a topic by the one declaration whose name holds ``{pool}``.
    """
    declarations = []
    for path in sorted(directory.glob("*.yaml")):
        raw = yaml.safe_load(path.read_text())
        partitions = raw["partitions"]
        count = partitions if isinstance(partitions, int) else counts[partitions]
        config = {name: str(value) for name, value in raw.get("config", {}).items()}
        named = [raw["name"].format(pool=pool) for pool in pools] if "{pool}" in raw["name"] else [raw["name"]]
        declarations += [TopicDeclaration(prefix + name, count, config, partitions == "shards") for name in named]
    return declarations


class TopicAdmin:
    """Plans and applies declarations; also tells what a starting role must check."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str] | None = None) -> None:
        self._admin = AdminClient(base_config(bootstrap_servers, "tocsin-topics", extra))

    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of every topic."""
        try:
            topics = self._admin.list_topics(timeout=ANSWER_S).topics
        except KafkaException as error:
            raise unavailable(error) from error
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def retention_s(self, names: list[str]) -> dict[str, float | None]:
        """Return how long topics keep their records; None: for ever."""
        kept = {name: int(config["retention.ms"]) for name, config in self._configs(names).items()}
        return {name: None if milliseconds < 0 else milliseconds / 1000 for name, milliseconds in kept.items()}

    def topic_id(self, name: str) -> str:
        """Return the id that the brokers gave a topic when it was created; a topic made anew has another.

        Raises:
            Refused: there is no such topic.
        """
        future = self._admin.describe_topics(TopicCollection([name]), request_timeout=ANSWER_S)[name]
        try:
            return str(future.result().topic_id)
        except KafkaException as error:
            if error.args[0].name() == "UNKNOWN_TOPIC_OR_PART":
                raise Refused(f"topic {name} is missing; run `tocsin topics apply`") from error
            raise unavailable(error) from error

    def replication_factor(self) -> int:
        """Return how often new topics are kept unless the operator says otherwise: three times, or once by one broker.

        Raises:
            Refused: two brokers answer, which may be all there are, or what is left of three.
        """
        try:
            brokers = len(self._admin.list_topics(timeout=ANSWER_S).brokers)
        except KafkaException as error:
            raise unavailable(error) from error
        if brokers == 2:
            raise Refused(
                "2 brokers answer, and whether there are more cannot be seen, so how often new topics are kept must be "
                "said: set TOCSIN_CLUSTER__REPLICATION_FACTOR, or start the others"
            )
        return min(COPIES, brokers)

    def plan(self, declarations: list[TopicDeclaration]) -> list[TopicChange]:
        """Compare what is with what must be; changes nothing."""
        counts = self.partition_counts()
        existing = [declaration for declaration in declarations if declaration.name in counts]
        configs = self._configs([declaration.name for declaration in existing])
        changes = []
        for declaration in declarations:
            count = counts.get(declaration.name)
            if count is None:
                changes.append(TopicChange(declaration, "create"))
            elif count != declaration.partitions and (declaration.fixed or count > declaration.partitions):
                problem = f"has {count} partitions, declared are {declaration.partitions}, and they cannot be changed"
                changes.append(TopicChange(declaration, "conflict", problem=problem))
            else:
                found = configs[declaration.name]
                differing = {n: (found.get(n), v) for n, v in declaration.config.items() if found.get(n) != v}
                grows = count < declaration.partitions
                if grows:
                    differing["partitions"] = (str(count), str(declaration.partitions))
                changes.append(TopicChange(declaration, "alter" if differing else "none", differing))
        return changes

    def apply(self, changes: list[TopicChange], replication_factor: int | None) -> None:
        """Carry changes out.

        Args:
            changes: what ``plan`` found.
            replication_factor: of topics that are created; None takes what ``replication_factor()`` returns.

        Raises:
            Refused: one of them is a conflict; nothing was done.
            Unavailable: the brokers did not do one of them; what was done stays, and applying again goes on.
        """
        conflicts = [f"{c.declaration.name} {c.problem}" for c in changes if c.action == "conflict"]
        if conflicts:
            raise Refused("; ".join(conflicts))
        self._create([change.declaration for change in changes if change.action == "create"], replication_factor)
        altered = [change for change in changes if change.action == "alter"]
        resources = [
            ConfigResource(
                ResourceType.TOPIC,
                change.declaration.name,
                incremental_configs=[
                    ConfigEntry(name, must_be, incremental_operation=AlterConfigOpType.SET)
                    for name, (_, must_be) in change.config.items()
                    if name != "partitions"
                ],
            )
            for change in altered
            if set(change.config) - {"partitions"}
        ]
        if resources:
            self._wait(self._admin.incremental_alter_configs(resources))
        self._grow([change.declaration for change in altered if "partitions" in change.config])

    def _create(self, declarations: list[TopicDeclaration], replication_factor: int | None) -> None:
        if not declarations:
            return
        copies = self.replication_factor() if replication_factor is None else replication_factor
        in_sync = {"min.insync.replicas": "2"} if copies >= COPIES else {}
        new = [NewTopic(d.name, d.partitions, copies, config={**in_sync, **d.config}) for d in declarations]
        self._wait(self._admin.create_topics(new, operation_timeout=ANSWER_S))
        self._wait_until_listed({topic.topic for topic in new})

    def _wait_until_listed(self, names: set[str]) -> None:
        """Return when the brokers tell of topics that they have just created; at first they may not."""
        deadline = time.monotonic() + ANSWER_S
        while missing := names - set(self.partition_counts()):
            if time.monotonic() > deadline:
                raise Unavailable("kafka", f"topics {', '.join(sorted(missing))} were created, but are not listed yet")
            time.sleep(0.1)

    def _grow(self, declarations: list[TopicDeclaration]) -> None:
        if declarations:
            self._wait(self._admin.create_partitions([NewPartitions(d.name, d.partitions) for d in declarations]))

    def _configs(self, names: list[str]) -> dict[str, dict[str, str]]:
        if not names:
            return {}
        futures = self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
        try:
            return {
                resource.name: {entry.name: entry.value for entry in future.result(ANSWER_S).values()}
                for resource, future in futures.items()
            }
        except KafkaException as error:
            raise unavailable(error) from error

    def _wait(self, futures: Mapping[Any, Any]) -> None:
        for subject, future in futures.items():
            try:
                future.result(ANSWER_S)
            except KafkaException as error:
                if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    raise Unavailable("kafka", f"{subject}: {unavailable(error)}") from error
