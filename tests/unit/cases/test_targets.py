"""Cases of targets and of texts, each seen from outside: HTP, UNI."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from aiohttp import web

from tests.http_receiver import HttpReceiver
from tests.unit.trigger.world import TARGET, World
from tocsin.adapters.targets.addresses import AddressRules
from tocsin.adapters.targets.answers import judge_answer
from tocsin.adapters.targets.http import HttpTargetRunner
from tocsin.domain.definitions import parse
from tocsin.domain.errors import InvalidInput
from tocsin.domain.executions import AttemptHead, Execution, ReportKind
from tocsin.domain.instants import SECOND, parse_rfc3339
from tocsin.domain.policies import RetryPolicy
from tocsin.domain.retries import is_retryable, retry_delay
from tocsin.domain.targets import HttpTarget
from tocsin.ports.targets import Attempt, AttemptEnd

ID = "acme@nightly.7.1760130000000000"
HEAD = AttemptHead(1, 41, 0, ID, "acme@nightly", "acme", 7, 1_760_130_000_000_000, 1_760_130_000_000_000)
NOW = parse_rfc3339("2026-10-10T12:00:00Z")


class WallClock:
    def now(self) -> int:
        return time.time_ns() // 1000


async def _redirect(request: web.Request) -> web.StreamResponse:
    return web.Response(status=int(request.query["code"]), headers={"Location": request.query["to"]})


@pytest.fixture(scope="module")
def receiver() -> Iterator[HttpReceiver]:
    server = HttpReceiver({"/moved": _redirect})
    yield server
    server.close()


@pytest.fixture(scope="module")
def runner() -> Iterator[HttpTargetRunner]:
    made = HttpTargetRunner(WallClock(), 10_000, AddressRules(allow_private=True))
    yield made
    made.close()


def _call(runner: HttpTargetRunner, url: str) -> AttemptEnd:
    runner.start([Attempt("ref", Execution(HEAD, b"", HttpTarget(url)), False)])
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if ends := runner.ended():
            return ends[0]
        time.sleep(0.005)
    raise AssertionError("the attempt has no end")


@pytest.mark.parametrize("code", [301, 302, 307])
@pytest.mark.parametrize("where", ["/landed", "http://169.254.169.254/latest/meta-data/"])
def test_htp_1_no_redirect_is_followed(receiver: HttpReceiver, runner: HttpTargetRunner, code: int, where: str) -> None:
    before = len(receiver.calls)
    end = _call(runner, f"{receiver.url}/moved?code={code}&to={where}")
    assert end.kind is ReportKind.FAILED
    assert end.error is not None
    assert not is_retryable(end.kind, end.error)
    assert where in end.error.message
    assert len(receiver.calls) == before + 1


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("120", 120),
        ("Sat, 10 Oct 2026 12:03:00 GMT", 180),
        ("999999999", 1_800),
        ("-5", 30),
        ("abc", 30),
        ("10", 30),
    ],
)
def test_htp_3_retry_after_lengthens_a_delay_up_to_its_cap(said: str, seconds: int) -> None:
    kind, error, _ = judge_answer(429, "Too Many Requests", None, "", said, NOW)
    assert error is not None
    assert is_retryable(kind, error)
    policy = RetryPolicy(backoff="fixed", base_s=30.0, max_s=1_800.0, jitter="none")
    assert retry_delay(policy, ID, 1, error.retry_after_s) == seconds * SECOND


def test_uni_1_a_name_in_any_script_runs() -> None:
    name = "Abrechnung für café ☃ 🎉"
    world = World()
    world.start()
    world.recur({"every_s": 100_000, "anchor_at": "2027-01-15T08:00:01Z"}, name=name)
    world.run(2)
    [execution] = world.executions()
    world.report(execution)
    world.run(1)
    assert set(world.states().values()) == {"SUCCEEDED"}
    assert parse({"delay_s": 1, "name": name, "target": TARGET}).name == name


@pytest.mark.parametrize(
    ("target", "field"),
    [
        ({"headers": {"X-A": "a\r\nHost: evil"}}, "target.headers.X-A"),
        ({"body": {"text": "\ud800"}}, "target.body"),
        ({"body": "\udfff"}, "target.body"),
    ],
)
def test_uni_1_broken_lines_and_broken_unicode_are_refused(target: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse({"delay_s": 1, "target": {"type": "http", "url": "https://settle.internal/run", **target}})
    assert [fault.field for fault in caught.value.faults] == [field]
