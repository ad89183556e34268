"""A worker that starts just after a broker has come back waits for the leaders of what it reads first."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tocsin.adapters.avro.codec import AvroCodec
from tocsin.adapters.kafka import cancel_log
from tocsin.domain.errors import Unavailable


class _Client:
    """A consumer of an empty topic, whose broker first gives other answers."""

    answers: list[int]

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings

    def assign(self, partitions: list[TopicPartition]) -> None: ...

    def close(self) -> None: ...

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        if self.answers:
            raise KafkaException(KafkaError(self.answers.pop(0)))
        return 0, 0


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> type[_Client]:
    client = type("Client", (_Client,), {"answers": []})
    monkeypatch.setattr(cancel_log, "Consumer", client)
    return client


def test_a_partition_whose_leader_does_not_know_yet_is_asked_again(broker: type[_Client]) -> None:
    broker.answers = [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE]
    assert cancel_log.KafkaCancelLog("nowhere:1", "control", "reader", AvroCodec()).load() == []
    assert broker.answers == []


def test_what_does_not_pass_by_itself_is_told_at_once(broker: type[_Client]) -> None:
    broker.answers = [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.NOT_LEADER_FOR_PARTITION]
    with pytest.raises(Unavailable):
        cancel_log.KafkaCancelLog("nowhere:1", "control", "reader", AvroCodec()).load()
    assert len(broker.answers) == 1


def test_it_is_not_asked_for_ever(broker: type[_Client], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancel_log, "LEADERLESS_S", -1.0)
    broker.answers = [KafkaError.NOT_LEADER_FOR_PARTITION]
    with pytest.raises(Unavailable):
        cancel_log.KafkaCancelLog("nowhere:1", "control", "reader", AvroCodec()).load()
