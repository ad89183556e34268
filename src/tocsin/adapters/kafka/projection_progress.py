"""How far the projectors' group is, against the true ends of the topics that runs are filled from."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tocsin.adapters.kafka.clients import base_config, unavailable
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.errors import Unavailable
from tocsin.ports.projection_progress import Ends

ANSWER_S: Final = 20.0
PAUSE_S: Final = 0.2
MOVING: Final = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""What brokers say while a group's coordinator is found or moves; the client does not call it retriable."""


class KafkaProjectionProgress:
    """Fulfils ``ports.projection_progress.ProjectionProgress``."""

    def __init__(
        self, bootstrap_servers: str, names: TopicNames, client_id: str, extra: dict[str, str] | None = None
    ) -> None:
        self._names = names
        self._base = base_config(bootstrap_servers, client_id, extra)
        self._admin = AdminClient(self._base)

    def ends(self) -> Ends:
        try:
            topics = self._admin.list_topics(timeout=ANSWER_S).topics
            lanes = self._names.executions("")
            wanted = [name for name in topics if name == self._names.events or name.startswith(lanes)]
            places = [TopicPartition(name, partition) for name in wanted for partition in topics[name].partitions]
            if not places:
                raise Unavailable("kafka", f"there is no topic {self._names.events}; run `tocsin topics apply`")
            latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
            asked = self._admin.list_offsets(
                dict.fromkeys(places, latest),
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=ANSWER_S,
            )
            return {self._short(place): future.result(ANSWER_S).offset for place, future in asked.items()}
        except KafkaException as error:
            raise unavailable(error) from error

    def behind(self, ends: Ends) -> Ends:
        places = [TopicPartition(self._names.prefix + topic, partition) for topic, partition in ends]
        # Not the admin client's list_consumer_group_offsets: where there is no group it kills the process.
        asker = Consumer({**self._base, "group.id": self._names.group("projector"), "enable.auto.commit": False})
        try:
            found = _committed(asker, places)
        except KafkaException as error:
            raise unavailable(error) from error
        finally:
            asker.close()
        # Of a partition that nothing was ever committed for, the offset is negative.
        filed = {self._short(place): place.offset for place in found}
        return {place: end for place, end in ends.items() if max(0, filed.get(place, 0)) < end}

    def _short(self, place: TopicPartition) -> tuple[str, int]:
        return place.topic[len(self._names.prefix) :], place.partition


def _committed(asker: Consumer, places: list[TopicPartition]) -> list[TopicPartition]:
    """Ask for a group's offsets, again while its coordinator is only moving."""
    deadline = time.monotonic() + ANSWER_S
    while True:
        try:
            return asker.committed(places, timeout=ANSWER_S)
        except KafkaException as error:
            if error.args[0].code() not in MOVING or time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)
