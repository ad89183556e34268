"""How long the lanes' topics keep executions, asked of the real broker."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tocsin.bootstrap.cluster import check_retention
from tocsin.config import KafkaSettings, Settings, TriggerSettings
from tocsin.devcluster import Endpoints
from tocsin.domain.errors import Refused

pytestmark = pytest.mark.real
DAY_MS = 86_400_000


def test_a_topic_that_forgets_sooner_than_owners_believe_is_refused(cluster: Endpoints, unique: str) -> None:
    kept = {"short": 6 * DAY_MS, "week": 7 * DAY_MS, "ever": -1}
    topics = [NewTopic(f"{unique}.{name}", 1, 1, config={"retention.ms": str(ms)}) for name, ms in kept.items()]
    admin = AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})
    for future in admin.create_topics(topics).values():
        future.result(20)
    settings = Settings(
        kafka=KafkaSettings(bootstrap_servers=cluster.kafka_bootstrap), trigger=TriggerSettings(executions_kept_days=7)
    )
    check_retention(settings, [f"{unique}.week", f"{unique}.ever"])
    with pytest.raises(Refused, match=r"short keeps its records for 6 days, but trigger.executions_kept_days is 7"):
        check_retention(settings, [f"{unique}.{name}" for name in kept])
