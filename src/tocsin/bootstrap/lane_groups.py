"""The groups of lanes: their first commits when topics are made, and what workers ask of the brokers at their start."""

from __future__ import annotations

from collections.abc import Collection

from tocsin.adapters.kafka.lane_groups import LaneGroups
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.topics import TopicAdmin
from tocsin.config import Settings
from tocsin.domain.errors import Refused

DAY_S = 86_400.0


def begin_lanes(settings: Settings, topics: Collection[str]) -> None:
    """Make the first commits of the groups of lanes, among these topics, so that a commit that is missing is lost."""
    names = TopicNames(settings.kafka.topic_prefix)
    prefix = names.executions("")
    lanes = [topic.removeprefix(prefix) for topic in topics if topic.startswith(prefix)]
    _groups(settings).begin({names.group(f"worker.{lane}"): names.executions(lane) for lane in lanes})


def check_offsets_retention(settings: Settings, lanes: Collection[str]) -> None:
    """Make sure that brokers do not forget a lane's place before the lane forgets its records.

    Raises:
        Refused: they do, once a lane has had no worker for so long; all that is in it would be returned to its owners.
    """
    offsets_s = _groups(settings).offsets_retention_s()
    if offsets_s is None:
        return
    admin = TopicAdmin(settings.kafka.bootstrap_servers, settings.kafka.extra)
    wanted = {TopicNames(settings.kafka.topic_prefix).executions(lane) for lane in lanes}
    for topic, kept_s in admin.retention_s(sorted(wanted & admin.partition_counts().keys())).items():
        if kept_s is None or offsets_s <= kept_s:
            kept = "for ever" if kept_s is None else f"for {kept_s / DAY_S:g} days"
            raise Refused(
                f"the brokers' offsets.retention.minutes is {offsets_s / 60:g} ({offsets_s / DAY_S:g} days), but topic "
                f"{topic} keeps its records {kept}: a lane that had no worker for a while would forget what has run; "
                "raise offsets.retention.minutes above the topic's retention.ms (20160 is two weeks), or lower "
                "retention.ms and trigger.executions_kept_days"
            )


def _groups(settings: Settings) -> LaneGroups:
    return LaneGroups(settings.kafka.bootstrap_servers, settings.kafka.extra)
