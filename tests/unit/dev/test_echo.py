"""The receiver that shows what it is sent."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.unit.dev.children import until
from tocsin.dev.doors import HOST, choose_port
from tocsin.dev.echo import DELAY_S_MAX, LINES_PER_S_MAX, EchoReceiver, LineBudget, asked_answer
from tocsin.dev.errors import DevError


class Shown(list[str]):
    """What the receiver showed."""


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
def receiver(shown: Shown) -> Iterator[EchoReceiver]:
    receiver = EchoReceiver(HOST, choose_port(0, insist=False, name="echo"), shown.append)
    receiver.start()
    yield receiver
    receiver.stop()


def call(url: str, body: bytes | None = None, **headers: str) -> int:
    request = urllib.request.Request(url, body, {name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_call_is_shown_with_its_body_and_our_headers_only(receiver: EchoReceiver, shown: Shown) -> None:
    status = call(f"{receiver.url}/a?b=1", b"x" * 5_000, Idempotency_Key='"job_1.2.3"', Tocsin_Attempt="1", Other="no")
    assert status == 200
    assert len(shown) == 1
    line = shown[0]
    assert line.startswith("POST /a?b=1 → 200")
    assert 'Idempotency-Key: "job_1.2.3"' in line.replace("Idempotency-key", "Idempotency-Key")
    assert "Tocsin-attempt: 1".lower() in line.lower()
    assert "other" not in line.lower()
    assert len(line) < 1_000


def test_paths_ask_for_answers(receiver: EchoReceiver, shown: Shown) -> None:
    assert call(f"{receiver.url}/status/503") == 503
    assert call(f"{receiver.url}/status/204") == 204
    assert call(f"{receiver.url}/delay/0.01") == 200
    assert [line.split()[3] for line in shown] == ["503", "204", "200"]


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/", (200, 0.0)),
        ("/status/418", (418, 0.0)),
        ("/status/700", (200, 0.0)),
        ("/status/x", (200, 0.0)),
        ("/delay/2", (200, 2.0)),
        (f"/delay/{DELAY_S_MAX + 1}", (200, 0.0)),
        ("/delay/nan", (200, 0.0)),
        ("/delay/-1", (200, 0.0)),
    ],
)
def test_answers_asked_for(path: str, answer: tuple[int, float]) -> None:
    assert asked_answer(path) == answer


def test_a_burst_is_counted_and_the_count_is_told_though_nothing_follows(receiver: EchoReceiver, shown: Shown) -> None:
    calls = 4 * LINES_PER_S_MAX
    for _ in range(calls):
        call(receiver.url)

    def accounted() -> int:
        return sum(int(line.split()[2]) if line.startswith("… and") else 1 for line in shown)

    until(lambda: accounted() == calls)


def test_the_budget_is_of_each_second() -> None:
    budget = LineBudget(per_s_max=2)
    assert [budget.spend(10.0), budget.spend(10.5), budget.spend(10.9)] == [True, True, False]
    assert budget.take_held_back(10.9) == 0
    assert budget.take_held_back(11.0) == 1
    assert budget.take_held_back(11.0) == 0
    assert budget.spend(11.0)


def test_a_taken_port_is_an_error_with_a_remedy(receiver: EchoReceiver) -> None:
    second = EchoReceiver(HOST, int(receiver.url.rpartition(":")[2]), lambda _: None)
    with pytest.raises(DevError, match="cannot listen"):
        second.start()


def test_calls_under_way_do_not_hold_up_a_stop(shown: Shown) -> None:
    receiver = EchoReceiver(HOST, choose_port(0, insist=False, name="echo"), shown.append)
    receiver.start()
    failures: list[OSError] = []

    def slow() -> None:
        try:
            call(f"{receiver.url}/delay/{DELAY_S_MAX}")
        except OSError as error:
            failures.append(error)

    caller = threading.Thread(target=slow)
    caller.start()
    until(lambda: len(shown) == 1)
    receiver.stop()
    caller.join(60)
    assert not caller.is_alive()
    assert failures
