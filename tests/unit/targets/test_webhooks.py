"""Posting to webhooks over real sockets: every post ends once, whatever the receiver does."""

from __future__ import annotations

import base64
import hmac
import socket
import time
from collections.abc import Callable, Iterator

import pytest
from aiohttp import web

from tests.http_receiver import HttpReceiver
from tocsin.adapters.targets.addresses import AddressRules
from tocsin.adapters.targets.signatures import Signer
from tocsin.adapters.targets.webhooks import HttpWebhookPoster
from tocsin.domain.instants import SECOND
from tocsin.ports.webhooks import Post, PostEnd
from tocsin.testing import SettableClock

KEY = bytes(range(32))
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"
PATIENCE_S = 30.0


def answering(status: int, **headers: str) -> Callable[[web.Request], web.Response]:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(status=status, headers=headers)

    return handler  # type: ignore[return-value]


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    made = HttpReceiver(
        {
            "/busy": answering(429, **{"Retry-After": "7"}),
            "/gone": answering(410),
            "/moved": answering(302, Location="/elsewhere"),
        }  # type: ignore[arg-type]
    )
    yield made
    made.gate.set()
    made.close()


@pytest.fixture
def poster(receiver: HttpReceiver) -> Iterator[HttpWebhookPoster]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}/"
    names = ("well", "busy", "gone", "moved", "gated")
    urls = {name: f"{receiver.url}/{name}" for name in names} | {"nobody": nobody}
    rules = AddressRules(allow_private=True)
    made = HttpWebhookPoster(urls, SettableClock(), rules, Signer({"well": [SECRET]}), timeout_s=1.0)
    yield made
    made.close()


def ends(poster: HttpWebhookPoster, count: int) -> dict[str, PostEnd]:
    found: list[PostEnd] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += poster.ended()
        time.sleep(0.01)
    return {str(end.ref): end for end in found}


def post(address: str, body: bytes = b"{}") -> Post:
    return Post(address, address, "alert-1", body, {"Content-Type": "application/json", "ce-id": "alert-1"})


def test_what_is_posted_arrives_signed(poster: HttpWebhookPoster, receiver: HttpReceiver) -> None:
    poster.start([post("well", b'{"a":1}')])
    assert ends(poster, 1)["well"].problem is None
    [call] = receiver.calls
    assert (call.method, call.path, call.body) == ("POST", "/well", b'{"a":1}')
    at = call.headers["webhook-timestamp"]
    assert int(at) == SettableClock().now() // SECOND
    signed = hmac.digest(KEY, f"alert-1.{at}.".encode() + call.body, "sha256")
    assert call.headers["webhook-signature"] == f"v1,{base64.b64encode(signed).decode()}"
    assert call.headers["webhook-id"] == call.headers["ce-id"] == "alert-1"


def test_every_post_ends_once_and_says_why(poster: HttpWebhookPoster, receiver: HttpReceiver) -> None:
    names = ("busy", "gone", "moved", "gated", "nobody")
    poster.start([post(name) for name in names])
    found = ends(poster, len(names))
    assert (found["busy"].status, found["busy"].retry_after_s) == (429, 7.0)
    assert found["gone"].status == 410
    assert "redirects are not followed" in (found["moved"].problem or "")
    assert "no whole answer" in (found["gated"].problem or "")
    assert found["nobody"].problem and found["nobody"].status is None
    assert [call.path for call in receiver.calls if call.path == "/elsewhere"] == []
    time.sleep(0.05)
    assert poster.ended() == []


def test_private_addresses_are_not_reached(receiver: HttpReceiver) -> None:
    port = receiver.port
    urls = {
        "literal": f"http://127.0.0.1:{port}/",
        "named": f"http://localhost:{port}/",
        "mapped": f"http://[::ffff:127.0.0.1]:{port}/",
    }
    guarded = HttpWebhookPoster(urls, SettableClock(), AddressRules(), Signer({}), timeout_s=5.0)
    try:
        guarded.start([post(name) for name in urls])
        assert all("not one that targets may reach" in (end.problem or "") for end in ends(guarded, 3).values())
    finally:
        guarded.close()
    assert receiver.calls == []


def test_closing_breaks_off_what_is_under_way(poster: HttpWebhookPoster) -> None:
    poster.start([post("gated")])
    begun = time.monotonic()
    poster.close()
    assert time.monotonic() - begun < PATIENCE_S
    poster.close()
