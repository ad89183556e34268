"""How far the projectors' group is, against the true ends of the topics that runs are filled from."""

from __future__ import annotations

from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tocsin.adapters.kafka.clients import base_config, unavailable
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.errors import Unavailable
from tocsin.ports.projection_progress import Ends

ANSWER_S: Final = 20.0


class KafkaProjectionProgress:
    """Fulfils ``ports.projection_progress.ProjectionProgress``."""

    def __init__(
        self, bootstrap_servers: str, names: TopicNames, client_id: str, extra: dict[str, str] | None = None
    ) -> None:
        self._names = names
        self._admin = AdminClient(base_config(bootstrap_servers, client_id, extra))

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
        group = self._names.group("projector")
        try:
            asked = self._admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=ANSWER_S
            )
            found = asked[group].result(ANSWER_S).topic_partitions
        except KafkaException as error:
            raise unavailable(error) from error
        # Of a partition that nothing was ever committed for, the offset is negative.
        filed = {self._short(place): place.offset for place in found}
        return {place: end for place, end in ends.items() if max(0, filed.get(place, 0)) < end}

    def _short(self, place: TopicPartition) -> tuple[str, int]:
        return place.topic[len(self._names.prefix) :], place.partition
