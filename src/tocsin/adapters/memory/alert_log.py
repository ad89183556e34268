"""The topic of alerts in memory, and one member of its group. For tests."""

from __future__ import annotations

from tocsin.ports.alert_log import AlertsPolled, Begin, SeenAlert


class MemoryAlertTopic:
    """The records, and what the group committed last."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.committed: Begin | None = None


class MemoryAlertLog:
    """Fulfils ``ports.alert_log.AlertLog``. Who has the partition is said by ``assign`` and ``take_away``."""

    def __init__(self, topic: MemoryAlertTopic) -> None:
        self._topic = topic
        self._position: int | None = None
        self._news = AlertsPolled()
        self.refuses_commits = False

    def assign(self) -> None:
        begin = self._topic.committed or Begin(len(self._topic.values), "")
        self._position = begin.offset
        self._news.begin = begin

    def take_away(self) -> None:
        self._position = None
        self._news.gone = True
        self._news.begin = None

    def poll(self, limit: int, wait_s: float) -> AlertsPolled:
        polled, self._news = self._news, AlertsPolled()
        if self._position is not None:
            values = self._topic.values[self._position : self._position + limit]
            polled.alerts = [SeenAlert(self._position + n, value) for n, value in enumerate(values)]
            self._position += len(values)
        return polled

    def commit(self, offset: int, metadata: str) -> bool:
        if self.refuses_commits or self._position is None:
            return False
        self._topic.committed = Begin(offset, metadata)
        return True

    def close(self) -> None:
        self._position = None
